"""Simulations as runs of a figure: those that must have the same result are made once."""

from dataclasses import replace

import pytest

from cause.engine.presets import parse_system
from cause.lab.reproduce.kinds import count
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.simulations import count_cell
from cause.lab.simulate import Setting, simulate
from cause.lab.workload import Workload
from tests.quick import quick_only

SMALL = Workload(users=12, rounds=4, samples=400, rho=0.5)
SYSTEMS = ["cause", "sisa", "arcane", "omp-70", "omp-95", "frugal", "cause-no-sc-printed", "sisa-printed"]


def run(system, setting):
    return count.run(count_cell(system, setting, SMALL, seeds=2).settings, Resources())


@pytest.fixture
def simulated(monkeypatch):
    """The settings of the simulations that are really made."""
    count._remembered.clear()
    made = []

    def noted(trace, name, system, setting):
        made.append(setting)
        return simulate(trace, name, system, setting)

    monkeypatch.setattr(count, "simulate", noted)
    yield made
    count._remembered.clear()


@pytest.mark.parametrize("system", quick_only(SYSTEMS, SYSTEMS[:2]))
def test_a_remembered_simulation_is_the_one_that_would_have_been_made(system, simulated):
    name, parts = parse_system(system)
    slots = [8, 9, 31, 32, 33, None]  # 8 shards in 4 rounds have 32 sub-models
    for seed in range(2):
        trace = replace(SMALL, seed=seed).trace()
        for number in slots:
            setting = Setting(shards=8, slots=number)
            assert run(system, setting)["rsn"][seed] == simulate(trace, name, parts, replace(setting, seed=seed)).rsn


def test_a_memory_that_is_never_full_is_simulated_once(simulated):
    for backbone in ("resnet34", "vgg16", "mobilenetv2"):
        run("cause", Setting(shards=4, backbone=backbone))
    assert len(simulated) == 2, "one for each seed"


@pytest.mark.parametrize(
    "other", [Setting(shards=3, slots=12), Setting(shards=4, slots=7)], ids=["fewer shards", "fewer slots"]
)
def test_what_decides_a_simulation_is_not_confused(other, simulated):
    run("cause", Setting(shards=4, slots=12))
    run("cause", other)
    run("cause-u", other)
    assert len(simulated) == 6
