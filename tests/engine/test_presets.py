"""The presets are the table of the design, and parts can be exchanged by name."""

import pytest

from cause.engine.presets import PRESETS, paper_sub_model_bytes, parse_system
from cause.errors import InputError
from cause.lab.workload import Workload
from tests.clean_room import differences, live

TABLE = {
    # preset: partition, shard controller, pruning, policy, requests
    "cause": ("ucdp", True, "iterative-70", "fibor", "one-by-one"),
    "cause-no-sc": ("ucdp", False, "iterative-70", "fibor", "one-by-one"),
    "cause-u": ("uniform", True, "iterative-70", "fibor", "one-by-one"),
    "cause-c": ("by-class", True, "iterative-70", "fibor", "one-by-one"),
    "sisa": ("uniform", False, "none", "latest", "one-by-one"),
    "arcane": ("by-class", False, "none", "latest", "one-by-one"),
    "omp-70": ("uniform", False, "one-shot-70", "static", "one-by-one"),
    "omp-95": ("uniform", False, "one-shot-95", "static", "one-by-one"),
    "cause-printed": ("ucdp", True, "iterative-70", "fibor-printed", "one-by-one"),
    "cause-no-sc-printed": ("ucdp", False, "iterative-70", "fibor-printed", "one-by-one"),
    "sisa-printed": ("uniform", False, "none", "until-full", "one-by-one"),
    "arcane-printed": ("by-class", False, "none", "until-full", "one-by-one"),
    "omp-70-printed": ("uniform", False, "one-shot-70", "until-full", "one-by-one"),
    "omp-95-printed": ("uniform", False, "one-shot-95", "until-full", "one-by-one"),
    "frugal": ("ucdp", False, "iterative-70", "adaptive", "coalesced"),
    "additive": ("hash", False, "none", "fifo", "coalesced"),
    "recommended": ("ucdp", True, "if-needed", "adaptive", "coalesced"),
}


def test_presets_are_the_designs_table():
    assert {name: (s.partition, s.controlled, s.pruning, s.policy, s.requests) for name, s in PRESETS.items()} == TABLE
    assert {name for name, s in PRESETS.items() if s.precision == "bf16"} == {"frugal", "recommended"}
    votes = {name: s.vote for name, s in PRESETS.items() if s.vote != "majority"}
    assert votes == {
        "arcane": "max-confidence",
        "arcane-printed": "max-confidence",
        "recommended": "weighted-soft",
    }
    assert {name for name, s in PRESETS.items() if s.active == "in-turn"} == {"cause-printed"}
    trained_longer = {name for name, s in PRESETS.items() if s.rehearsal or s.min_steps or s.estimators != "as-given"}
    assert trained_longer == {"recommended"}
    assert all(system.about for system in PRESETS.values())


@pytest.mark.parametrize(
    ("preset", "backbone", "size_mb"),
    [
        ("sisa", "resnet34", 85.82),
        ("cause", "vgg16", 19.73),
        ("omp-95", "densenet121", 1.24),
        ("omp-70", "mobilenetv2", 3.17),
        ("frugal", "resnet34", 30.15 / 2),
    ],
)
def test_sizes_are_the_papers(preset, backbone, size_mb):
    assert paper_sub_model_bytes(PRESETS[preset], backbone) == round(size_mb * 2**20)


def test_parts_are_exchanged_by_name():
    _, system = parse_system("sisa:policy=cost, slices=4 ,rehearsal=0.5")
    assert (system.policy, system.slices, system.rehearsal, system.partition) == ("cost", 4, 0.5, "uniform")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sis", "unknown system 'sis' \\(did you mean 'sisa'\\?\\): one of additive, arcane, arcane-printed, cause"),
        ("cause:polcy=cost", "unknown part 'polcy'"),
        ("cause:policy=best", "unknown policy 'best'.*: one of (adaptive, )?cost, fibor"),
        ("cause:requests=later", "unknown requests 'later': one of one-by-one, coalesced"),
        ("cause:slices=0", "slices must be from 1"),
        ("cause:slices=x", "slices must be int"),
        ("cause:about=me", "unknown part 'about'"),
        ("", "unknown system ''"),
    ],
)
def test_unknown_names_tell_what_exists(text, message):
    with pytest.raises(InputError, match=message):
        parse_system(text)


def test_the_law_of_a_preset_is_no_part_of_a_composition_and_stays_when_parts_are_exchanged():
    from cause.engine.presets import ADDITIVE, PARTS, REPLAYED

    assert {name for name, system in PRESETS.items() if system.law == ADDITIVE} == {"additive"}
    assert "law" not in PARTS
    assert parse_system("additive:policy=latest")[1].law == ADDITIVE
    assert parse_system("cause:policy=latest")[1].law == REPLAYED


@pytest.mark.parametrize("variant", ["cause-no-sc", "cause-u", "cause-c"])
def test_a_variant_of_cause_with_one_shard_is_cause(variant):
    trace = Workload(users=6, rounds=4, samples=120, seed=3).trace()
    one, other = (live(trace, PRESETS[name], shards=1, classes=10) for name in ("cause", variant))
    assert one.rsn_per_round == other.rsn_per_round
    assert differences(one.device, other.device) == []
    two_shards = live(trace, PRESETS[variant], shards=2, classes=10)
    assert differences(one.device, two_shards.device) != []
