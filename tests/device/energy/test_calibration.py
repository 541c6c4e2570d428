"""What a sample costs: the line, its certainty, the file, and the command."""

import json

import numpy as np
import pytest
from scipy import stats

from cause.cli import main
from cause.device.energy import NoMeter, SampledMeter
from cause.device.energy.base import Measurement
from cause.device.energy.model import EnergyModel, Line
from cause.device.energy.tally import CounterTally, PowerTally
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.errors import InputError, MeterError
from cause.lab import energy_calibration as measuring
from cause.lab.energy_calibration import TrainingRun, calibrate, fit
from cause.learners import CountingLearner


def lesson(samples):
    upload = TraceUpload("a", 1, (Part(samples),))
    return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), samples)


class Machine(CountingLearner):
    """Takes 2 ms a sample and 0.5 s a training, on a clock that only it moves."""

    now, training_s, sample_s = 0.0, 0.5, 0.002

    def train(self, parent, task, seed):
        self.now += self.training_s + self.sample_s * task.count
        return super().train(parent, task, seed)

    def clock(self):
        return self.now

    def meter(self, idle_watts=5.0):
        return SampledMeter("wall", 0.001, lambda: PowerTally(lambda: 25.0), idle_watts, clock=self.clock)


def test_the_line_is_that_of_scipy():
    rng = np.random.default_rng(0)
    x = np.repeat([250, 500, 1000, 1750], 3)
    y = 0.02 * x + 1 + rng.normal(size=len(x))
    line, expected = Line.through(x.tolist(), y.tolist()), stats.linregress(x, y)
    assert (line.slope, line.intercept) == (pytest.approx(expected.slope), pytest.approx(expected.intercept))
    assert line.r2 == pytest.approx(expected.rvalue**2)
    assert line.half_width == pytest.approx(stats.t.ppf(0.975, len(x) - 2) * expected.stderr, rel=1e-3)
    assert Line.through([1, 2, 3], [4.0, 4.0, 4.0]).r2 == 1.0


@pytest.mark.parametrize("points", [([1, 2], [1.0, 2.0]), ([1, 1, 1], [1.0, 2.0, 3.0]), ([1, 2, 3], [1.0])])
def test_too_few_points_make_no_line(points):
    with pytest.raises(InputError, match="a line needs"):
        Line.through(*points)


def test_joules_are_those_above_idle():
    machine = Machine()
    done = calibrate(machine, lesson, (100, 200, 400), machine.meter(), name="test", repeats=2, clock=machine.clock)
    model = done.model
    assert [run.samples for run in done.runs] == [100, 200, 400] * 2
    assert model.seconds_line.slope == pytest.approx(0.002)
    assert model.joules_line.slope == pytest.approx(20 * 0.002)
    assert model.joules_line.intercept == pytest.approx(20 * 0.5)
    assert model.joules_line.r2 == pytest.approx(1.0)
    assert model.joules(1000) == pytest.approx(40.0)
    assert model.joules(1000, trainings=3) == pytest.approx(70.0)
    assert model.seconds(1000, trainings=1) == pytest.approx(2.5)
    assert (model.source, model.idle_watts, model.learner) == ("wall", 5.0, "test")


def test_without_a_meter_seconds_are_fitted_and_joules_refused():
    machine = Machine()
    meter = NoMeter("no meter at all", clock=machine.clock)
    done = calibrate(machine, lesson, (100, 200, 400), meter, clock=machine.clock)
    assert {run.trainings for run in done.runs} == {1}
    assert done.model.seconds(1000) == pytest.approx(2.0)
    assert done.model.joules_line is None
    with pytest.raises(MeterError, match="joules are unknown on this machine: no meter at all"):
        done.model.joules(1000)


class Compiling(Machine):
    """A card that compiles for nine seconds when the last batch has a new size."""

    def __init__(self):
        self.compiled = set()

    def train(self, parent, task, seed):
        self.now += 0.0 if task.count in self.compiled else 9.0
        self.compiled.add(task.count)
        return super().train(parent, task, seed)


def test_what_only_the_first_run_of_a_size_pays_is_not_in_the_line():
    machine = Compiling()
    done = calibrate(machine, lesson, (100, 200, 400), machine.meter(), repeats=2, clock=machine.clock)
    assert [round(run.seconds, 1) for run in done.runs] == [0.7, 9.9, 10.3, 0.7, 0.9, 1.3]
    line = done.model.seconds_line
    assert (line.slope, line.intercept, line.r2) == (pytest.approx(0.002), pytest.approx(0.5), pytest.approx(1.0))
    assert done.model.joules_line.slope == pytest.approx(20 * 0.002)


class Coarse(Machine):
    """Fast, with a counter as a card's, which learns of energy some time after it was spent: each half second."""

    training_s, sample_s = 0.0, 0.0003

    def meter(self, idle_watts=5.0):
        def joules():
            return [25.0 * (self.now // 0.5) * 0.5]

        return SampledMeter("card", 0.001, lambda: CounterTally(joules, [None]), idle_watts, clock=self.clock)


class InPlace(Machine):
    """Trains what it is given, as a learner may: each training must be given a state of its own."""

    parents: tuple = ()

    def decode(self, blob):
        return [super().decode(blob)]

    def encode(self, state):
        return super().encode(state[0])

    def train(self, parent, task, seed):
        if parent is not None:
            assert not any(parent is each for each in self.parents)
            self.parents = (*self.parents, parent)
        return [super().train(parent and parent[0], task, seed)]


def test_every_training_starts_from_a_state_of_its_own():
    machine = InPlace()
    done = calibrate(machine, lesson, (100, 200, 400), machine.meter(), clock=machine.clock)
    assert sum(run.trainings for run in done.runs) == len(machine.parents) - 1 > len(done.runs)


class Unsteady(Machine):
    """Decodes a large state now faster, now slower, while the card idles."""

    decoded = 0

    def decode(self, blob):
        self.decoded += 1
        self.now += (0.9, 0.1, 0.4)[self.decoded % 3]
        return super().decode(blob)


def test_decoding_does_not_bend_the_line_of_time():
    machine = Unsteady()
    done = calibrate(machine, lesson, (100, 200, 400), NoMeter("", clock=machine.clock), clock=machine.clock)
    line = done.model.seconds_line
    assert (line.slope, line.intercept, line.r2) == (pytest.approx(0.002), pytest.approx(0.5), pytest.approx(1.0))
    assert all(run.measurement.seconds > run.seconds + 0.09 for run in done.runs)


def test_short_trainings_are_repeated_until_a_counter_has_had_its_time(monkeypatch):
    def calibrated():
        machine = Coarse()
        return calibrate(machine, lesson, (100, 200, 400), machine.meter(), clock=machine.clock)

    done = calibrated()
    assert done.model.joules_line.slope == pytest.approx(20 * 0.0003, rel=0.2)
    for run in done.runs:
        assert run.seconds == run.measurement.seconds == pytest.approx(0.0003 * run.samples)
        assert run.trainings == pytest.approx(2.0 / run.seconds, abs=1)
    monkeypatch.setattr(measuring, "READING_S", 0.0)
    coarse = calibrated().model.joules_line
    assert coarse is None or coarse.r2 < 0.9


def test_one_run_without_energy_leaves_joules_unknown():
    runs = [TrainingRun(size, size / 100, Measurement("wall", size / 100, size * 1.0, 2)) for size in (100, 200, 300)]
    assert fit(runs, NoMeter("")).joules(10) == pytest.approx(10.0)
    runs[1] = TrainingRun(200, 2.0, Measurement("wall", 2.0, unavailable="it broke"))
    model = fit(runs, NoMeter(""))
    assert (model.joules_line, model.unavailable) == (None, "it broke")


def test_a_line_that_falls_is_no_cost():
    """As on a card that others used while its idle power was taken."""
    runs = [TrainingRun(size, size / 100, Measurement("wall", size / 100, -size * 1.0, 2)) for size in (100, 200, 300)]
    model = fit(runs, NoMeter(""))
    assert model.joules_line is None
    assert "something else used the device" in model.unavailable
    assert model.seconds(100) == pytest.approx(1.0)


def test_a_cost_is_never_below_nothing():
    assert Line(1.0, -50.0, 1.0, 0.0).at(10, 1) == 0.0


@pytest.mark.parametrize("metered", [True, False])
def test_a_model_is_saved_and_read_again(tmp_path, metered):
    line = Line(0.1, 0.2, 0.9, 0.01)
    model = EnergyModel("cnn", "wall", line if metered else None, line, 3.0, None if metered else "why", {"cores": 2})
    model.save(tmp_path / "m.json")
    assert EnergyModel.load(tmp_path / "m.json") == model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "is not an energy model"),
        ('{"result": 3}', "is not an energy model"),
        ({"seconds_line": None}, "'seconds_line' must be a line"),
        ({"joules_line": None}, "'joules_line' must be a line"),
        ({"joules_line": {"slope": 1}}, "'joules_line' must be a line"),
        ({"joules_line": {"slope": "1", "intercept": 0, "r2": 1, "half_width": 0}}, "of finite numbers"),
        ({"more": 1}, "is not an energy model"),
        ({"seconds_line": {"slope": 10**400, "intercept": 0, "r2": 1, "half_width": 0}}, "must be a line of finite"),
        (
            {"seconds_line": {"slope": float("nan"), "intercept": 0, "r2": 1, "half_width": 0}},
            "must be a line of finite",
        ),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(tmp_path, change, message):
    line = Line(0.1, 0.2, 0.9, 0.01)
    good = EnergyModel("cnn", "wall", line, line).as_dict()
    (tmp_path / "m.json").write_text(change if isinstance(change, str) else json.dumps({**good, **change}))
    with pytest.raises(InputError, match=message):
        EnergyModel.load(tmp_path / "m.json")
    with pytest.raises(InputError, match="cannot read"):
        EnergyModel.load(tmp_path / "nowhere.json")


def test_the_command_fits_and_writes_a_model_that_can_be_read(capsys, tmp_path, monkeypatch):
    from cause.device.energy import find

    monkeypatch.setattr(find, "SEEING", {"cpu": ()})  # the same on every machine
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", "--epochs", "1", "--repeats", "1", "--out", str(tmp_path / "m.json")])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    assert "No meter: no meter sees the energy of 'cpu'" in out
    assert "unknown" in out
    model = EnergyModel.load(tmp_path / "m.json")
    assert model.seconds(1000) > 0
    assert model.learner == "digits cnn, 1 epochs, cpu"
    assert len(json.loads((tmp_path / "m.json").read_text())["result"]["runs"]) == 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--device", "toaster"], "unknown device 'toaster'"),
        (["--epochs", "0"], "epochs must be at least 1"),
        (["--repeats", "0"], "three runs or more"),
    ],
)
def test_bad_input_is_one_line(capsys, args, message):
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", *args])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_the_doctor_names_every_meter_or_why_it_is_missing(capsys):
    with pytest.raises(SystemExit):
        main(["doctor", "--json"])
    meters = json.loads(capsys.readouterr().out)["meters"]
    assert [each["kind"] for each in meters] == ["ina3221", "nvml", "rapl"]
    assert all((each["source"] is None) != (each["unavailable"] is None) for each in meters)
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "Energy meters" in capsys.readouterr().out
