"""Every meter on simulated machines: with a meter whose readings are fixed, and without any."""

import math
import os
import threading
from functools import partial
from typing import Any

import pytest

from cause.device.energy import NoMeter, SampledMeter, find_meter, found_meters, with_idle
from cause.device.energy.base import Running
from cause.device.energy.ina3221 import ina3221
from cause.device.energy.nvml import nvml
from cause.device.energy.rapl import rapl
from cause.device.energy.sampled import LOOKS
from cause.device.energy.tally import PowerTally
from cause.errors import MeterError
from tests.device.energy.machines import Nvml, hwmon_tree, iio_tree, rapl_tree, write
from tests.waiting import pass_time, wait_until


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def measured(meter, work=lambda: None):
    with meter.measure() as running:
        work()
    return running.record


def on(meter, clock):
    return SampledMeter(meter.source, 0.001, meter.tally, meter.idle_watts, clock=clock)


def test_rapl_adds_up_packages_only(tmp_path):
    zones = rapl_tree(tmp_path)
    clock, meter = Clock(), rapl(tmp_path)

    def work():
        clock.now = 4.0
        write(zones[0] / "energy_uj", 31_000_000)
        write(zones[1] / "energy_uj", 11_000_000)

    record = measured(on(meter, clock), work)
    assert record.joules == pytest.approx(40.0)
    assert (record.seconds, record.mean_watts, record.readings) == (4.0, pytest.approx(10.0), 2)
    assert record.source == "RAPL package-0, package-1"


def test_rapl_wraps_around_at_its_own_range(tmp_path):
    (zone,) = rapl_tree(tmp_path, packages=1, wraps_at_uj=65_000_000)
    write(zone / "energy_uj", 64_000_000)
    record = measured(rapl(tmp_path), lambda: write(zone / "energy_uj", 2_000_000))
    assert record.joules == pytest.approx(3.0)


def test_rapl_sees_several_wraps_in_one_measurement(tmp_path):
    (zone,) = rapl_tree(tmp_path, packages=1, wraps_at_uj=10_000_000)
    reads, rapl_tally = [], rapl(tmp_path).tally

    def counted() -> Any:
        tally: Any = rapl_tally()
        add = tally.add
        tally.add = lambda at: (add(at), reads.append(at))
        return tally

    def read_again() -> None:
        enough = len(reads) + 2  # the second one begins after this call
        wait_until(lambda: len(reads) >= enough)

    meter = SampledMeter("RAPL", 500.0, counted)

    def work():
        for value in (8_000_000, 5_000_000, 2_000_000, 9_000_000, 6_000_000):  # from 1: 7, 7, 7, 7, 7 J
            partial = zone / "next"
            partial.write_text(str(value))
            partial.replace(zone / "energy_uj")  # as a whole, as the kernel does it
            read_again()

    assert measured(meter, work).joules == pytest.approx(35.0)


def test_a_machine_without_rapl_says_so(tmp_path):
    with pytest.raises(MeterError, match="no RAPL packages"):
        rapl(tmp_path / "nowhere")
    with pytest.raises(MeterError, match="no RAPL packages"):
        rapl(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_that_only_root_may_read_is_said_plainly_as_a_user(tmp_path):
    (zone,) = rapl_tree(tmp_path, packages=1)
    (zone / "energy_uj").chmod(0)
    with pytest.raises(MeterError, match="no permission to read"):
        rapl(tmp_path)


def test_a_counter_that_only_root_may_read_is_said_plainly(tmp_path, monkeypatch):
    (zone,) = rapl_tree(tmp_path, packages=1)
    read_text = type(zone).read_text

    def denied(path, *args, **kwargs):
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(type(zone), "read_text", denied)
    meter = find_meter("cpu", {"rapl": lambda: rapl(tmp_path)})
    assert isinstance(meter, NoMeter)
    assert meter.unavailable.startswith("rapl: no permission to read ")
    assert measured(meter).joules is None


def test_a_reading_that_fails_in_the_middle_makes_energy_unknown_and_lets_work_end(tmp_path):
    (zone,) = rapl_tree(tmp_path, packages=1)
    meter, done = rapl(tmp_path), []

    def work():
        write(zone / "energy_uj", "nonsense")
        done.append(True)

    record = measured(meter, work)
    assert (record.joules, record.mean_watts, record.above_idle_joules, done) == (None, None, None, [True])
    assert "holds 'nonsense', not a number" in record.unavailable
    assert record.seconds > 0


def test_an_orin_nano_is_measured_by_its_input_rail(tmp_path):
    chip = hwmon_tree(tmp_path)
    clock, meter = Clock(), ina3221(tmp_path, tmp_path)
    assert meter.source == "INA3221 VDD_IN"

    def work():
        clock.now = 10.0
        write(chip / "curr1_input", 2000)  # from 6 W to 10 W

    assert measured(on(meter, clock), work).joules == pytest.approx(80.0)


def test_rails_can_be_named_and_are_not_guessed(tmp_path):
    chip = hwmon_tree(tmp_path)
    meter = ina3221(tmp_path, tmp_path, rails=["VDD_CPU_GPU_CV", "VDD_SOC"])
    tally = meter.tally()
    tally.add(0.0)
    tally.add(1.0)
    assert tally.joules == pytest.approx(4.96 * 0.7)
    with pytest.raises(MeterError, match=r"no rail 'VDD_GPU': one of VDD_IN, VDD_CPU_GPU_CV, VDD_SOC$"):
        ina3221(tmp_path, tmp_path, rails=["VDD_GPU"])
    write(chip / "in1_label", "VDD_GPU_SOC")
    with pytest.raises(MeterError, match="no rail of the whole board"):
        ina3221(tmp_path, tmp_path)


def test_jetpack_4_shows_the_same_chip_elsewhere(tmp_path):
    iio_tree(tmp_path)
    meter = ina3221(tmp_path / "nowhere", tmp_path)
    tally = meter.tally()
    tally.add(0.0)
    tally.add(2.0)
    assert meter.source == "INA3221 POM_5V_IN"
    assert tally.joules == pytest.approx(2 * 5.1 * 0.4)


def test_another_chip_is_no_ina3221(tmp_path):
    write(tmp_path / "hwmon0" / "name", "coretemp")
    with pytest.raises(MeterError, match="no INA3221"):
        ina3221(tmp_path, tmp_path)


def test_nvml_takes_the_energy_counter_where_there_is_one():
    meter = nvml(0, Nvml(energies_mj=[0, 5_000, 47_500]))
    record = measured(meter)
    assert record.joules == pytest.approx(42.5)
    assert record.source == "NVML energy of Card GPU-a"


def test_nvml_integrates_power_on_an_older_card():
    clock, meter = Clock(), nvml(0, Nvml(powers_mw=[0, 100_000, 300_000]))

    def work():
        clock.now = 2.0

    record = measured(on(meter, clock), work)
    assert record.joules == pytest.approx(400.0)
    assert record.source == "NVML power of Card GPU-a"


def test_nvml_measures_the_card_that_cuda_sees(monkeypatch):
    for shown, card in (("1", "GPU-b"), ("GPU-b,GPU-a", "GPU-b"), ("", "GPU-a")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        lib = Nvml(energies_mj=[0])
        nvml(library=lib)
        assert lib.requested == card


def test_nvml_says_why_there_is_no_card():
    with pytest.raises(MeterError, match="no NVIDIA card through NVML: Driver Not Loaded"):
        nvml(0, Nvml(cards=()))
    with pytest.raises(MeterError, match="Invalid Argument"):
        nvml(7, Nvml())
    with pytest.raises(MeterError, match="GPU is lost"):
        nvml(0, Nvml())


def test_nvml_that_fails_in_the_middle_makes_energy_unknown():
    lib = Nvml(powers_mw=[1000, 1000])
    record = measured(nvml(0, lib), lib.powers.clear)
    assert (record.joules, record.unavailable) == (None, "NVML: GPU is lost")


def test_without_its_library_nvml_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(MeterError, match=r"pip install 'cause\[energy\]'"):
        nvml()


def test_the_thread_samples_while_work_goes_on_and_ends_with_it():
    meter = SampledMeter("steady", 200.0, lambda: PowerTally(lambda: 50.0))
    before = threading.active_count()
    record = measured(meter, lambda: pass_time(0.2))
    assert record.readings > 10
    assert record.joules == pytest.approx(50.0 * record.seconds, rel=0.05)
    assert threading.active_count() == before


def test_readings_never_overlap_and_none_comes_after_the_end():
    inside, overlaps, taken = [], [], []

    def slow_watts():
        overlaps.extend(inside)
        inside.append(1)
        pass_time(0.03)
        inside.pop()
        taken.append(1)
        return 50.0

    record = measured(
        SampledMeter("slow", 100.0, lambda: PowerTally(slow_watts)), lambda: wait_until(lambda: len(taken) > 2)
    )
    assert not [thread for thread in threading.enumerate() if thread.name == "cause-meter"], "it goes on reading"
    assert overlaps == []
    assert len(taken) == record.readings > 2


def test_work_that_fails_is_measured_and_its_error_goes_on():
    meter = SampledMeter("steady", 10.0, lambda: PowerTally(lambda: 50.0))
    kept = []

    def work():
        with meter.measure() as running:
            kept.append(running)
            raise ValueError("work failed")

    with pytest.raises(ValueError, match="work failed"):
        work()
    assert kept[0].record.joules is not None


def test_there_is_no_record_before_the_end():
    with pytest.raises(MeterError, match="has ended"):
        _ = Running().record


def test_the_idle_baseline_is_subtracted():
    clock = Clock()
    meter = SampledMeter("steady", 0.001, lambda: PowerTally(lambda: 30.0 if clock.now > 5 else 10.0), clock=clock)

    def pass_time(seconds):
        clock.now += seconds

    idle = with_idle(meter, 2.0, pass_time)
    assert idle.idle_watts == pytest.approx(10.0)
    clock.now = 6.0
    record = measured(idle, lambda: pass_time(3.0))
    assert (record.joules, record.above_idle_joules) == (pytest.approx(90.0), pytest.approx(60.0))
    nothing = NoMeter("none here")
    assert with_idle(nothing) is nothing


def test_a_card_that_has_just_worked_is_waited_for():
    clock = Clock()

    def watts():
        return 117.0 + 13.0 * math.exp(-clock.now / 6)

    def pass_time(seconds):
        clock.now += seconds

    progress = []
    warm = SampledMeter("warm", 0.001, lambda: PowerTally(watts), clock=clock)
    meter = with_idle(warm, 2.0, pass_time, lambda *at: progress.append(at))
    assert meter.idle_watts == pytest.approx(117.0, abs=1.0)
    assert clock.now < 2.0 * LOOKS
    assert progress[0] == (1, LOOKS)
    assert progress[-1] == (LOOKS, LOOKS)
    never = SampledMeter("ever less", 0.001, lambda: PowerTally(lambda: 130.0 * 0.9**clock.now), clock=clock)
    began = clock.now
    with_idle(never, 2.0, pass_time)
    assert clock.now - began == 2.0 * LOOKS


def test_what_begins_while_a_machine_is_watched_is_not_its_idle_power():
    clock = Clock()

    def pass_time(seconds):
        clock.now += seconds

    meter = SampledMeter("joined", 0.001, lambda: PowerTally(lambda: 117.0 if clock.now < 3 else 600.0), clock=clock)
    assert with_idle(meter, 2.0, pass_time).idle_watts == pytest.approx(117.0)
    assert clock.now == 6.0


def test_an_idle_reading_that_fails_leaves_energy_unknown_and_the_work_undisturbed():
    def lost():
        raise MeterError("GPU is lost")

    meter = with_idle(SampledMeter("a card", 0.001, lambda: PowerTally(lost)), 0.0)
    record = measured(meter, lambda: None)
    assert (record.joules, record.unavailable) == (None, "a card: GPU is lost")


@pytest.mark.parametrize(
    ("device", "shown", "card"),
    [("cuda:1", "", "GPU-b"), ("cuda:1", "1,0", "GPU-a"), ("cuda:1", "GPU-a, GPU-b", "GPU-b"), ("cuda", "1", "GPU-b")],
)
def test_the_card_that_works_is_the_one_that_is_measured(monkeypatch, device, shown, card):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    meters = {"nvml": partial(nvml, library=Nvml(energies_mj=[0]))}
    assert find_meter(device, meters).source == f"NVML energy of Card {card}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert find_meter("cuda:1", meters).unavailable == "nvml: CUDA_VISIBLE_DEVICES=0 shows no card 1"


def test_meters_are_tried_in_order_and_for_the_device(tmp_path):
    hwmon_tree(tmp_path / "h")
    rapl_tree(tmp_path / "r")

    def missing():
        raise MeterError("not here")

    def board():
        return ina3221(tmp_path / "h", tmp_path)

    meters = {"ina3221": board, "nvml": lambda: nvml(0, Nvml(energies_mj=[0])), "rapl": lambda: rapl(tmp_path / "r")}
    assert find_meter(meters=meters).source == "INA3221 VDD_IN"
    meters["ina3221"] = missing
    assert find_meter(meters=meters).source == "NVML energy of Card GPU-a"
    assert find_meter("cuda:0", meters).source == "NVML energy of Card GPU-a"
    assert find_meter("cpu", meters).source == "RAPL package-0, package-1"
    meters["rapl"] = missing
    assert find_meter("cpu", meters).unavailable == "ina3221: not here; rapl: not here"
    assert find_meter("mps", meters).unavailable == "no meter sees the energy of 'mps'"
    described = {each["kind"]: each for each in (meter.as_dict() for meter in found_meters(meters))}
    assert described["rapl"] == {"kind": "rapl", "source": None, "sampling_hz": None, "unavailable": "not here"}
    assert described["nvml"]["unavailable"] is None
