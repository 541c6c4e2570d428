"""Samples on which training fails go into quarantine; every sub-model is that of a device without them."""

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.arrays import ArrayUpload
from cause.engine.ledger import Quarantined
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey
from cause.errors import LearnerError, PassingError
from cause.executors import Processes
from cause.learners.torch import TorchLearner
from tests.clean_room import differences, trained_on
from tests.small_learners import PEPPER, POISON, SALT, DeadlyLearner, FragileLearner

FEATURES, CLASSES = 4, 3
SYSTEM = "sisa:partition=hash,policy=unlimited"


def drawn(user: str, round_: int, bad: dict[int, float] | None = None, count: int = 6):
    """Samples of a user, with some values put in, by row."""
    draw = np.random.default_rng([*map(ord, user), round_])
    x, y = draw.random((count, FEATURES)).astype(np.float32), draw.integers(CLASSES, size=count)
    for row, value in (bad or {}).items():
        x[row, 0] = value
    return x, y


USERS = ("ann", "bob", "cyn", "dan", "eve")
Rounds = list[dict[str, tuple]]


def rounds(bad: dict[tuple[str, int], dict[int, float]], many: int = 3) -> Rounds:
    return [{u: drawn(u, t, bad.get((u, t))) for u in USERS} for t in range(1, many + 1)]


def lived(given: Rounds, without=(), *, learner=None, shards=1, system=SYSTEM, executor=None) -> Cause:
    """A device that learned these rounds without some (user, round, row); a user without rows does not upload."""
    left = []
    for t, uploads in enumerate(given, start=1):
        stay = {
            user: [row for row in range(len(y)) if (user, t, row) not in without] for user, (_, y) in uploads.items()
        }
        left.append(
            [ArrayUpload(user, t, x[stay[user]], y[stay[user]]) for user, (x, y) in uploads.items() if stay[user]]
        )
    return trained_on(left, learner or FragileLearner(CLASSES), system, shards=shards, slots=64, executor=executor)


def all_of(user: str, t: int, count: int = 6) -> list[tuple[str, int, int]]:
    return [(user, t, row) for row in range(count)]


def same(device: Cause, clean: Cause) -> None:
    """Every sub-model that either holds; each device's heads are its newest segments."""
    assert not differences(device, clean)
    assert device.memory.stored() == clean.memory.stored()
    assert device.memory.stored()


def position_of(device: Cause, user: str, t: int, value: float) -> int:
    """The position of the sample with this value."""
    for key, held in device.ledger.pieces_of(user, t):
        piece = device.ledger._piece(key, user)  # type: ignore[attr-defined]
        x, _ = piece.upload.arrays(held)
        for position, row in zip(held, x, strict=True):
            if row[0] == np.float32(value):
                return int(position)
    raise AssertionError("there is no such sample")


def test_an_upload_that_fails_alone_is_set_aside_and_the_shard_is_trained_without_it():
    given = rounds({("bob", 2): {3: POISON}})
    device = lived(given)
    assert not device.waiting()
    assert device.ledger.quarantined() == [Quarantined("bob", SegmentKey(0, 2), 6, "ValueError")]
    same(device, lived(given, without=all_of("bob", 2)))
    assert verify(device, processes=0).holds


def test_two_of_one_segment_and_a_whole_segment_are_set_aside():
    given = rounds({("ann", 1): {0: POISON}, ("dan", 1): {1: POISON}} | {(u, 2): {0: POISON} for u in USERS})
    device = lived(given)
    assert len(device.ledger.quarantined()) == 7
    assert not device.waiting()
    left_out = [each for u in USERS for each in all_of(u, 2)] + all_of("ann", 1) + all_of("dan", 1)
    same(device, lived(given, without=left_out))


def test_the_first_upload_of_a_shard_may_be_set_aside_and_the_shard_is_then_empty():
    device = lived([{"bob": drawn("bob", 1, {0: POISON})}])
    assert device.ledger.shards() == []
    assert device.heads() == {}
    device.learn({"ann": drawn("ann", 2)})
    clean = lived([{}, {"ann": drawn("ann", 2)}])
    same(device, clean)
    device.forget("bob")
    assert device.ledger.quarantined() == []
    assert device.ledger.rounds_of("bob") == []
    same(device, clean)


def test_forgetting_another_user_keeps_the_verdict():
    given = rounds({("bob", 2): {3: POISON}})
    device = lived(given)
    device.forget("ann", rounds=[1])
    same(device, lived(given, without=all_of("bob", 2) + all_of("ann", 1)))
    assert [each.user for each in device.ledger.quarantined()] == ["bob"]


def test_forgetting_all_of_what_is_set_aside_replays_nothing():
    given = rounds({("bob", 2): {3: POISON}})
    device = lived(given)
    trained = device.learner.trained  # type: ignore[attr-defined]
    (done,) = device.forget("bob", rounds=[2])
    assert (done.rsn, done.dropped, device.learner.trained) == (0, (), trained)  # type: ignore[attr-defined]
    assert device.ledger.quarantined() == []
    assert device.ledger.rounds_of("bob") == [1, 3]
    same(device, lived(given, without=all_of("bob", 2)))


def test_after_a_partial_forget_the_rest_is_judged_anew_and_trained_if_it_is_fine():
    given = rounds({("bob", 2): {3: POISON}})
    device = lived(given)
    device.forget("bob", samples=[(2, position_of(device, "bob", 2, POISON))])
    assert device.ledger.quarantined() == []
    same(device, lived(given, without=[("bob", 2, 3)]))


def test_after_a_partial_forget_the_rest_stays_aside_if_it_fails_still():
    given = rounds({("bob", 2): {3: POISON, 4: POISON}})
    device = lived(given)
    device.forget("bob", samples=[(2, position_of(device, "bob", 2, POISON))])
    assert [each.samples for each in device.ledger.quarantined()] == [5]
    same(device, lived(given, without=all_of("bob", 2)))
    device.forget("bob")
    same(device, lived(given, without=[each for t in (1, 2, 3) for each in all_of("bob", t)]))


class Irritable(FragileLearner):
    """Two samples of poison in one training cancel each other out: who fails alone may be fine with another."""

    def train(self, parent, lesson, seed, tick=None):
        x = np.concatenate([upload.arrays(held)[0] for upload, held in [*lesson.pieces, *lesson.rehearsed]])
        self.trained += 1
        if (x == POISON).sum() % 2:
            raise self.raises("there is poison in it")
        names = [upload.names(positions) for upload, positions in lesson.pieces]
        return digest_of(parent, seed, names)


def digest_of(parent, seed, names):
    from cause.common.hashing import digest

    return digest(parent or b"scratch", seed, *sorted(names))


@pytest.mark.parametrize("t", [1, 2])
def test_a_forgotten_user_does_not_decide_which_others_are_left_out(t):
    """With ann's the segment failed, and bob and cyn failed alone; without ann's it would have been trained on all."""
    given = rounds({("ann", 2): {0: POISON}, ("bob", 2): {0: POISON}, ("cyn", 2): {0: POISON}})
    device = lived(given, learner=Irritable(CLASSES))
    assert len(device.ledger.quarantined()) == 3
    device.forget("ann", rounds=[2])
    if t == 1:
        device.forget("dan", rounds=[1])
    left_out = all_of("ann", 2) + (all_of("dan", 1) if t == 1 else [])
    clean = lived(given, learner=Irritable(CLASSES), without=left_out)
    assert clean.ledger.quarantined() == []
    assert device.ledger.quarantined() == []
    same(device, clean)


# What fails only together is an error of the shard


def test_a_failure_in_combination_is_an_error_of_the_shard_and_others_learn_and_vote():
    given = rounds({("bob", 2): {0: SALT}, ("cyn", 2): {0: PEPPER}}, many=1)
    device = Cause(learner=FragileLearner(CLASSES), system="sisa:partition=hash", shards=4, slots=64)
    device.learn(given[0])
    shard = device.ledger.placement("bob")
    mates = [u for u in (f"u{i}" for i in range(40)) if placed(device, u) == shard][:1]
    bad = {"bob": drawn("bob", 2, {0: SALT}), mates[0]: drawn(mates[0], 2, {0: PEPPER})}
    with pytest.raises(ValueError, match="salt and pepper"):
        device.learn({**{u: drawn(u, 2) for u in USERS if u != "bob"}, **bad})
    assert device.waiting() == [shard]
    assert device.ledger.quarantined() == []
    assert shard in device.heads(), "it votes with what it had"
    before = device.learner.trained  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="salt and pepper"):
        device.learn({u: drawn(u, 3) for u in USERS})
    assert device.waiting() == [shard], "the others learned the next round"
    assert device.engine.training.failed.keys() == {shard}
    own = sum(device.ledger.lineage(s).last.round == 3 for s in device.ledger.shards() if s != shard)
    assert device.learner.trained == before + own + 1, "it is tried again, but nobody is judged again"  # type: ignore[attr-defined]
    device.forget(mates[0])
    assert not device.waiting()
    assert not device.engine.training.failed


def placed(device: Cause, user: str) -> int:
    probe = Cause(learner=FragileLearner(CLASSES), system="sisa:partition=hash", shards=4, slots=64)
    probe.learn({user: drawn(user, 1)})
    return probe.ledger.placement(user)


@pytest.mark.parametrize("error", [MemoryError, OSError, type("OutOfMemoryError", (RuntimeError,), {})])
def test_an_error_of_the_machine_is_no_verdict(error):
    device = Cause(learner=FragileLearner(CLASSES, raises=error), system=SYSTEM, shards=1, slots=64)
    with pytest.raises(error):
        device.learn({"ann": drawn("ann", 1), "bob": drawn("bob", 1, {0: POISON})})
    assert device.ledger.quarantined() == []
    assert device.waiting() == [0]


def test_an_error_of_the_machine_during_a_trial_quarantines_no_user():
    class Tired(FragileLearner):
        def train(self, parent, lesson, seed, tick=None):
            if [piece.upload.user for piece in lesson.pieces] == ["cyn"]:
                raise MemoryError
            return super().train(parent, lesson, seed, tick)

    device = Cause(learner=Tired(CLASSES), system=SYSTEM, shards=1, slots=64)
    with pytest.raises(ValueError, match="poison"):
        device.learn(rounds({("bob", 1): {0: POISON}}, many=1)[0])
    assert device.ledger.quarantined() == []


def test_the_ordinary_path_costs_nothing_more():
    device = lived(rounds({}))
    assert device.learner.trained == 3  # type: ignore[attr-defined]


# With slices, rehearsal and several shards for one upload


@pytest.mark.parametrize("system", ["sisa", "sisa:slices=2", "sisa:partition=hash,rehearsal=0.5"])
def test_the_part_of_an_upload_that_lies_in_a_segment_is_what_is_judged(system):
    bad = {("bob", 2): {3: POISON}, ("cyn", 1): {0: POISON}}
    given = [{u: drawn(u, t, bad.get((u, t)), 12) for u in USERS} for t in (1, 2, 3)]
    device = lived(given, shards=2, system=device_system(system))
    assert not device.waiting()
    aside = device.ledger.quarantined()
    assert {(each.user, each.round) for each in aside} == set(bad)
    left_out = []
    for each in aside:
        x, _ = given[each.round - 1][each.user]
        piece = device.ledger._aside[each.segment][each.user][0]  # type: ignore[attr-defined]
        out = {row.tobytes() for row in piece.upload.arrays(piece.positions)[0]}
        left_out += [(each.user, each.round, i) for i, row in enumerate(x) if row.tobytes() in out]
    clean = lived(given, shards=2, system=device_system(system), without=left_out)
    same(device, clean)


def device_system(system: str) -> str:
    return f"{system},policy=unlimited" if ":" in system else f"{system}:policy=unlimited"


# A real network, here and in workers


def network() -> TorchLearner:
    return TorchLearner("mlp", classes=CLASSES, shape=(FEATURES,), epochs=2, optimizer="sgd", lr=0.1)


def test_a_network_that_diverges_on_one_value_is_trained_without_that_upload():
    given = rounds({("bob", 2): {3: 1e30}})
    device = lived(given, learner=network())
    assert [(each.user, each.verdict) for each in device.ledger.quarantined()] == [("bob", "DivergedError")]
    same(device, lived(given, learner=network(), without=all_of("bob", 2)))
    device.forget("ann", rounds=[1])
    same(device, lived(given, learner=network(), without=all_of("bob", 2) + all_of("ann", 1)))
    x, _ = drawn("zoe", 1)
    assert len(device.predict(x)) == 6


def test_workers_take_the_same_verdicts():
    given = rounds({("bob", 2): {3: POISON}}, many=2)
    executor = Processes(1)
    try:
        device = lived(given, executor=executor)
        assert [(each.user, each.verdict) for each in device.ledger.quarantined()] == [("bob", "ValueError")]
        same(device, lived(given, without=all_of("bob", 2)))
    finally:
        executor.close()


def test_a_worker_that_is_killed_is_no_verdict():
    executor = Processes(1)
    try:
        device = Cause(learner=DeadlyLearner(CLASSES), system=SYSTEM, shards=1, slots=64, executor=executor)
        with pytest.raises(PassingError, match="a worker died 3 times"):
            device.learn({"ann": drawn("ann", 1), "bob": drawn("bob", 1)})
        assert device.ledger.quarantined() == []
        assert device.waiting() == [0]
    finally:
        executor.close()


def test_the_comparison_can_fail():
    given = rounds({("bob", 2): {3: POISON}})
    device = lived(given)
    assert differences(device, lived(given, without=all_of("bob", 3)))
    assert differences(device, lived(given, without=[*all_of("bob", 2), ("ann", 1, 0)]))


def test_a_plan_of_what_is_set_aside_touches_no_shard():
    device = lived(rounds({("bob", 2): {3: POISON}}))
    assert device.plan(Request("bob", (2,))) == []
    (whole,) = device.plan(Request("bob"))
    assert whole.forgotten == 18
    assert whole.first == SegmentKey(0, 1)


def test_a_learner_error_is_raised_in_its_own_type():
    class Plain(FragileLearner):
        def train(self, parent, lesson, seed, tick=None):
            if lesson.pieces[0].upload.user == "ann":
                raise LearnerError("never")
            return super().train(parent, lesson, seed)

    device = Cause(learner=Plain(CLASSES), system=SYSTEM, shards=1, slots=64)
    device.learn({"ann": drawn("ann", 1)})
    assert [each.verdict for each in device.ledger.quarantined()] == ["LearnerError"]


def test_a_learner_that_fails_on_everything_quarantines_no_user():
    given = rounds({})
    learner = FragileLearner(CLASSES)
    device = lived(given[:2], learner=learner)

    def broken(*args):
        raise LearnerError("the accelerator is gone")

    learner.train = broken
    with pytest.raises(LearnerError, match="accelerator"):
        device.learn([ArrayUpload(user, 3, x, y) for user, (x, y) in given[2].items()])
    assert not device.ledger.quarantined()
    del learner.train
    device.repair()
    same(device, lived(given))
