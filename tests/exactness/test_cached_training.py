"""The cache of clean rooms hides no difference, and no device uses it."""

from dataclasses import replace

import numpy as np
import pytest

from cause.engine.arrays import ArrayUpload
from cause.engine.executor import ShardWork, Task
from cause.engine.samples import Lesson, Piece, SegmentKey
from tests.exactness.cached_training import Remembered
from tests.exactness.case_runner import Workshop, build_learner, recipe_in_words, remembered
from tests.exactness.clean import mismatches, sub_models_of
from tests.exactness.dimensions import DIMENSIONS, TORCH, Case
from tests.exactness.product import alike, set_ups
from tests.exactness.sequences import SEQUENCES

CASE = Case("cause", "GaussianNB", "one-old", "none", "fp32", 0.5, 2, 1, "memory", "same")


def piece(user: str = "a", round_: int = 1, pixel: float = 1.0, label: int = 0) -> Piece:
    upload = ArrayUpload(user, round_, np.full((1, 16), pixel), [label])
    return Piece(upload, upload.positions)


def work_of(
    *pieces: Piece,
    rehearsed: tuple[Piece, ...] = (),
    parent: bytes | None = None,
    seed: bytes = b"s" * 32,
    key: tuple[int, int, int] = (0, 1, 0),
) -> ShardWork:
    lesson = Lesson(SegmentKey(*key), pieces or (piece(),), max(1, len(pieces)), rehearsed)
    return ShardWork(0, lambda: parent, [Task(lesson, seed)], lambda: True)


PARENT = next(Remembered().train(build_learner(CASE), [work_of()], lambda *_: None))
CHANGED = {
    "pixel": work_of(piece(pixel=2.0)),
    "label": work_of(piece(label=1)),
    "user": work_of(piece(user="b")),
    "round": work_of(piece(round_=2)),
    "one more": work_of(piece(), piece("b")),
    "rehearsed": work_of(rehearsed=(piece("b"),)),
    "parent": work_of(parent=PARENT),
    "seed": work_of(seed=b"t" * 32),
    "segment": work_of(key=(0, 1, 1)),
}


@pytest.mark.parametrize("what", CHANGED)
def test_the_same_is_trained_once_and_anything_else_anew(what):
    learner, memory = build_learner(CASE), Remembered()
    for work in (work_of(), work_of(), CHANGED[what], CHANGED[what]):
        list(memory.train(learner, [work], lambda *_: None))
    assert len(memory.blobs) == 2


def test_another_recipe_is_trained_anew():
    memory = Remembered()
    for memory.recipe in ("one", "other"):
        list(memory.train(build_learner(CASE), [work_of()], lambda *_: None))
    assert len(memory.blobs) == 2


def test_cases_whose_learners_have_other_recipes_are_told_apart(thorough):
    """A system may change a learner's recipe: `frugal` gives estimators that learn in steps other inputs and steps."""
    digests: dict[str, set[bytes]] = {}
    cases = [case for case in set_ups() if (case.rehearsal, case.slices) == (0.0, 1)]  # a learner knows of neither
    large = () if thorough else set(TORCH) - {"mlp"}
    for case in (case for case in cases if case.learner not in large):
        learner = build_learner(case).composed(case.system)
        digests.setdefault(recipe_in_words(case), set()).add(learner.recipe_digest)
    assert {words for words, different in digests.items() if len(different) > 1} == set()


def test_red_when_what_is_remembered_is_not_what_the_device_trains(tmp_path):
    """So the device has not taken it from there."""
    workshop = Workshop()
    try:
        observed = workshop.device(CASE, tmp_path)
        SEQUENCES[CASE.sequence](observed)
        assert mismatches(sub_models_of(observed.device), workshop.clean_room(CASE, observed.left())) == []
        honest = dict(remembered.blobs)
        remembered.blobs.update(dict.fromkeys(honest, PARENT))
        again = workshop.device(CASE, tmp_path)
        SEQUENCES[CASE.sequence](again)
        assert sub_models_of(again.device) == sub_models_of(observed.device)
        assert any(
            each.endswith("other bits")
            for each in mismatches(sub_models_of(again.device), workshop.clean_room(CASE, again.left()))
        )
    finally:
        remembered.blobs.clear()
        workshop.close()


def test_set_ups_are_grouped_by_all_but_their_preset_and_none_is_lost():
    groups = alike(set_ups())
    assert sorted(map(str, set_ups())) == sorted(str(each) for group in groups for each in group)
    assert all(len({replace(each, preset="") for each in group}) == 1 for group in groups)
    # additive learners have a preset of their own, and all others share the rest
    assert {len(group) for group in groups} == {1, len(DIMENSIONS["preset"]) - 1}
