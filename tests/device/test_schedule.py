"""When a repair begins and when it stops."""

import pytest

from cause.device.energy.base import Measurement, Running
from cause.device.energy.model import EnergyModel, Line
from cause.device.repairing import repair
from cause.device.schedule import Allowance, due, expected, idle, parse_duration, parse_energy
from cause.device.status import status, waiting
from cause.errors import InputError, MeterError
from tests.device.homes import learn, opened


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "0m", "1e3s", "10 weeks", "10M", "nan s", "١m"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InputError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "500", "J", "-1J", "0J", "500j", "3 kw"])
def test_what_is_no_energy_is_refused(text):
    with pytest.raises(InputError, match="not an energy"):
        parse_energy(text)


def test_idle_is_a_load_below_the_threshold_without_our_own_share():
    assert idle(0.99, cores=2, threshold=0.5)
    assert not idle(1.0, cores=2, threshold=0.5)
    assert idle(1.9, cores=2, threshold=0.5, own=1)
    assert idle(0.2, cores=2, threshold=0.5, own=4)


def test_a_deadline_is_due_within_the_margin_and_when_it_has_passed():
    assert due([100.0], now=200.0, margin_s=1.0)
    assert due([100.0], now=99.5, margin_s=1.0)
    assert not due([100.0], now=99.0, margin_s=1.0)


def test_an_allowance_counts_what_the_next_segment_will_take():
    assert Allowance().spent(1e9) is None
    assert Allowance(within_s=10).spent(10, next_s=0) is None
    assert "about 1 s more" in Allowance(within_s=10).spent(9.5, next_s=1)
    assert Allowance(energy_j=10).spent(1e9, 9, next_j=1) is None
    assert "about 2 J more" in Allowance(energy_j=10).spent(0, 9, next_j=2)
    assert "unknown" in Allowance(energy_j=10).spent(0, None)
    assert expected(10.0, 5, 7) == 14.0


class Clock:
    """A clock that advances only while a learner trains."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class StepMeter:
    """A meter on which each measurement shows the same joules, as long as it works."""

    source, sampling_hz, idle_watts, unavailable = "steps", 1.0, None, None

    def __init__(self, joules):
        self.joules, self.measured = list(joules), 0

    def measure(self):
        from contextlib import contextmanager

        @contextmanager
        def block():
            running = Running()
            yield running
            joules = self.joules[min(self.measured, len(self.joules) - 1)]
            self.measured += 1
            reason = "a reading failed" if joules is None else None
            running.finish(Measurement("steps", 1.0, joules=joules, unavailable=reason))

        return block()


@pytest.fixture
def behind(tmp_path):
    """A device with one shard and four segments of 30, 20, 30 and 20 samples that wait."""
    device = opened(tmp_path / "home", shards=1)
    for count in (31, 20, 30, 20):
        learn(device, a=count)
    device.forget("a", rounds=[1], count=1, repair="later")
    yield device
    device.close()


def timed(device, clock, seconds_a_sample=1.0):
    """Let training take time."""
    learner, samples = device.learner, {each.segment: each.samples for each in waiting(device)}
    original = type(learner).train

    def train(parent, lesson, seed, *rest):
        clock.now += samples[lesson.segment] * seconds_a_sample
        return original(learner, parent, lesson, seed, *rest)

    learner.train = train


def test_a_repair_stops_at_the_segment_before_its_time_is_over_and_goes_on_later(behind):
    clock = Clock()
    timed(behind, clock)
    done = repair(behind, Allowance(within_s=79.0), clock=clock)  # 30 + 20 are taken, 30 more would be 80
    assert (done.trained, done.rsn, done.seconds, done.waiting) == (2, 50, 50.0, (0,))
    assert "about 30 s more" in done.stopped
    done = repair(behind, Allowance(within_s=80.0), clock=clock)
    assert (done.trained, done.stopped, done.waiting) == (2, None, ())
    assert repair(behind, clock=clock).trained == 0


def test_a_calibration_keeps_the_first_segment_within_the_time_too(behind):
    model = EnergyModel("nb", "none", None, Line(1.0, 5.0, 1.0, 0.0), unavailable="no meter")
    done = repair(behind, Allowance(within_s=34.0), model=model, clock=Clock())
    assert (done.trained, done.waiting) == (0, (0,))
    assert "about 35 s more" in done.stopped
    assert repair(behind, Allowance(within_s=35.0), model=model, clock=Clock()).trained > 0


def test_energy_is_measured_between_segments(behind):
    meter = StepMeter([3.0, 2.0, 3.0, 2.0, 0.0])
    done = repair(behind, Allowance(energy_j=7.9), meter=meter, clock=Clock())
    assert (done.trained, done.joules, done.waiting) == (2, 5.0 + 3.0, (0,))  # the measurement that was begun is ended


def test_a_meter_that_fails_stops_the_repair_instead_of_guessing(behind):
    done = repair(behind, Allowance(energy_j=1e6), meter=StepMeter([None]), clock=Clock())
    assert (done.trained, done.joules) == (1, None)
    assert "unknown number of J" in done.stopped


def test_energy_can_follow_from_a_calibration_and_needs_one_without_a_meter(behind):
    model = EnergyModel("nb", "RAPL", Line(0.1, 1.0, 1.0, 0.0), Line(0.0, 0.0, 1.0, 0.0))
    with pytest.raises(MeterError, match="needs a meter"):
        repair(behind, Allowance(energy_j=5.0), clock=Clock())
    done = repair(behind, Allowance(energy_j=7.0), model=model, clock=Clock())  # 4 and 3, then 4 more
    assert (done.trained, done.joules) == (2, 7.0)


def test_a_machine_that_becomes_busy_stops_it(behind):
    answers = iter([False, True])
    done = repair(behind, busy=lambda: next(answers), clock=Clock())
    assert (done.trained, done.stopped) == (2, "the machine is no longer idle")


def test_status_tells_what_repairing_costs(behind):
    model = EnergyModel("nb", "RAPL", Line(0.1, 1.0, 1.0, 0.0), Line(1.0, 2.0, 1.0, 0.0))
    cost = status(behind, model).repair
    assert (cost.trainings, cost.samples, cost.rsn) == (4, 100, 100)
    assert (cost.seconds, cost.joules, cost.unknown) == (108.0, 14.0, None)
    assert status(behind).repair.unknown == "no calibration was given"
