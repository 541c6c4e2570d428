"""Every pair of values that can meet does so in some case, and every case has the clean room's bits.

Three dimensions have ten and more values: their pairs take ten times as many cases as all other pairs, and are tried
by `make test-long`; `make test` tries each of these values once. The full product is `make exactness`.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cause.engine.presets import ADDITIVE_SYSTEM
from tests.exactness.case_runner import Workshop
from tests.exactness.clean import mismatches, sub_models_of
from tests.exactness.dimensions import ADDING, DIMENSIONS, SKLEARN, TORCH, Case, all_cases, feasible
from tests.exactness.pairwise import feasible_pairs, fewest_with, pairs_of, pairwise
from tests.exactness.product import VARIED, compare_all, set_ups
from tests.exactness.sequences import SEQUENCES
from tests.quick import quick_only

CASES = [Case(**values) for values in pairwise(DIMENSIONS, feasible)]
MANY_VALUES = ("preset", "learner", "sequence")
QUICK_PAIRS = [
    pair for pair in feasible_pairs(DIMENSIONS, feasible) if not {name for name, _ in pair}.intersection(MANY_VALUES)
]
QUICK = fewest_with(CASES, QUICK_PAIRS, [(name, value) for name in MANY_VALUES for value in DIMENSIONS[name]])
RED = ("cnn", "GaussianNB", "additive-ridge")
"""A learner of each kind."""
PLAIN = Case("cause", "cnn", "one-old", "iterative", "fp32", 0.5, 2, 1, "memory", "same")


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    shared = Workshop()
    yield shared
    shared.close()


@pytest.mark.parametrize("case", quick_only(CASES, QUICK), ids=str)
def test_it_has_the_clean_rooms_bits(case: Case, workshop: Workshop, tmp_path: Path):
    observed = workshop.device(case, tmp_path)
    SEQUENCES[case.sequence](observed)
    stored = sub_models_of(observed.device)
    assert stored
    assert mismatches(stored, workshop.clean_room(case, observed.left())) == []


@pytest.mark.long
def test_every_feasible_pair_is_covered():
    expected = {pair for case in all_cases() for pair in pairs_of(vars(case))}
    assert set(feasible_pairs(DIMENSIONS, feasible)) == expected
    assert {pair for case in CASES for pair in pairs_of(vars(case))} == expected
    assert all(feasible(vars(case)) for case in CASES)


def test_the_quick_cases_have_every_value_and_every_pair_but_those_of_a_dimension_with_many_values():
    covered = {pair for case in QUICK for pair in pairs_of(vars(case))}
    left_out = set(feasible_pairs(DIMENSIONS, feasible)) - covered
    assert all({one, other}.intersection(MANY_VALUES) for (one, _), (other, _) in left_out)
    values = {value for pair in covered for value in pair}
    assert values == {(name, value) for name, values in DIMENSIONS.items() for value in values}
    assert len(QUICK) < len(CASES) / 2


def test_the_cases_are_the_same_in_every_run_and_no_more_than_needed():
    assert [Case(**values) for values in pairwise(DIMENSIONS, feasible)] == CASES
    most, next_most = sorted((len(values) for values in DIMENSIONS.values()), reverse=True)[:2]
    assert len(CASES) < 1.2 * most * next_most


def test_every_learner_is_of_the_table_and_every_field_is_a_dimension():
    from cause.learners.sklearn import FAMILIES
    from cause.learners.torch.models import MODELS

    assert set(SKLEARN) == set(FAMILIES)
    assert {name.rstrip("0123456789v") for name in MODELS} <= set(TORCH)
    assert list(DIMENSIONS) == list(Case.__dataclass_fields__)


@pytest.mark.long
def test_set_ups_and_what_varies_in_them_are_the_full_product(workshop: Workshop):
    cheap = next(case for case in set_ups() if case.learner == "GaussianNB")
    outcomes = list(compare_all(cheap, workshop))
    varied = {tuple(getattr(outcome.case, name) for name in VARIED) for outcome in outcomes}
    assert len(varied) == len(outcomes)
    own = {name: getattr(cheap, name) for name in DIMENSIONS if name not in VARIED}
    assert len(outcomes) == sum(1 for _ in all_cases(**own))
    first = {name: DIMENSIONS[name][0] for name in VARIED}
    assert set(set_ups()) == {replace(case, **first) for case in all_cases()}
    assert [outcome for outcome in outcomes if outcome.wrong] == []


# Controls: a comparison that cannot fail proves nothing


def plain_case(learner: str, **changes) -> Case:
    """A case of a learner that can be: estimators are not pruned, and sums have a preset of their own."""
    case = replace(PLAIN, learner=learner, **changes)
    if learner in SKLEARN:
        case = replace(case, pruning="none")
    if learner in ADDING:
        case = replace(case, preset=ADDITIVE_SYSTEM, pruning="none", rehearsal=0.0, slices=1)
    assert feasible(vars(case))
    return case


@pytest.mark.parametrize(
    ("learner", "process"),
    [
        *quick_only([(name, "same") for name in DIMENSIONS["learner"]], [(name, "same") for name in RED]),
        ("cnn", "another"),
        ("GaussianNB", "another"),
    ],
)
def test_red_when_one_sample_is_corrupted(learner: str, process: str, workshop: Workshop, tmp_path: Path):
    case = plain_case(learner, process=process)
    observed = workshop.device(case, tmp_path)
    SEQUENCES[case.sequence](observed)
    rounds, stored = observed.left(), sub_models_of(observed.device)
    assert mismatches(stored, workshop.clean_room(case, rounds)) == []  # and now the clean room remembers
    rounds[0][0][1][0, 0, 0, 0] = 0.0  # one pixel of one sample of the first round
    head = max(key for key in stored if key.shard == int(rounds[0][0][3][0]))
    wrong = mismatches(stored, workshop.clean_room(case, rounds))
    assert {f"{head}: another identity", f"{head}: other bits"} <= set(wrong)


@pytest.mark.parametrize("learner", quick_only(DIMENSIONS["learner"], RED))
def test_red_when_one_bit_of_a_weight_is_corrupted(learner: str, workshop: Workshop, tmp_path: Path):
    case = plain_case(learner, storage="disk")
    observed = workshop.device(case, tmp_path)
    clean = workshop.clean_room(case, observed.left())
    assert mismatches(sub_models_of(observed.device), clean) == []
    memory, trainer = observed.device.memory, observed.device.learner
    key = memory.stored()[-1]
    state = trainer.decode(memory.shelf.get(key))
    if learner in ADDING:
        state.samples ^= 1
        memory.shelf.put(key, trainer.encode(state))
        assert mismatches(sub_models_of(observed.device), clean) == [f"{key}: other bits"]
        return
    name = max(state, key=lambda each: state[each].size if learner in SKLEARN else state[each].numel())
    state[name] = _with_one_bit_changed(state[name])
    memory.shelf.put(key, trainer.encode(state))
    assert mismatches(sub_models_of(observed.device), clean) == [f"{key}: other bits"]


def _with_one_bit_changed(weights):
    import numpy as np
    import torch

    array = np.array(weights.numpy() if isinstance(weights, torch.Tensor) else weights)
    array.view(np.uint8).reshape(-1)[0] ^= 1  # the lowest bit of the first weight
    return torch.from_numpy(array) if isinstance(weights, torch.Tensor) else array


def test_red_when_a_sub_model_is_left_that_should_not_be_there_or_a_head_is_missing():
    from cause.engine.samples import SegmentKey

    one, two = SegmentKey(0, 1), SegmentKey(0, 2)
    bits = (b"identity", hashlib.sha256(b"weights").digest())
    assert mismatches({one: bits, two: bits}, {one: bits, two: bits}) == []
    assert mismatches({one: bits, two: bits}, {one: bits}) == [
        "(0,2) should not be there",
        "the heads are ['(0,2)'], not ['(0,1)']",
    ]
    assert mismatches({one: bits}, {one: bits, two: bits}) == ["the heads are ['(0,1)'], not ['(0,2)']"]
