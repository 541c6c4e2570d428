"""The device as a whole: budget, prediction, composition."""

import numpy as np
import pytest

from cause.device.device import Cause
from cause.engine.presets import FIXED, System
from cause.engine.samples import Part, TraceUpload
from cause.errors import BudgetError, InputError, LearnerError, NoVotersError
from cause.learners import CountingLearner
from tests.small_learners import FrequencyLearner


def upload(user, round_, *runs):
    return TraceUpload(user, round_, (Part(sum(n for _, n in runs), tuple(runs)),))


def test_a_budget_below_the_heads_is_refused_with_the_numbers():
    with pytest.raises(BudgetError) as refused:
        Cause(learner=CountingLearner(100 * 2**20), system="sisa", shards=4, memory="300MB")
    assert "holds 3 sub-models of 100.00 MB (300.00 MB)" in str(refused.value)
    assert "heads of 4 shards need 400.00 MB" in str(refused.value)


def test_the_controller_needs_room_only_for_the_shards_it_opens():
    assert Cause(learner=CountingLearner(), system="cause", shards=4, slots=3).memory.slots == 3
    with pytest.raises(BudgetError):
        Cause(learner=CountingLearner(), system="cause", shards=4, slots=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"slots": 0},
        {"slots": -1},
        {"memory": "lots"},
        {"memory": 0},
        {"memory": "-1GB"},
        {"shards": 0},
        {"classes": 0},
        {"system": "caus"},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InputError):
        Cause(learner=CountingLearner(), **wrong)


def test_memory_is_counted_in_whole_sub_models():
    device = Cause(learner=CountingLearner(30 * 2**20), memory="2GB")
    assert device.memory.slots == 68


def test_predict_votes_with_the_heads_and_forgets_with_them():
    device = Cause(learner=FrequencyLearner(), system=System(gamma=FIXED), shards=1, slots=8, classes=3)
    device.learn([upload("a", 1, (0, 5)), upload("b", 1, (1, 3))])
    assert device.predict(np.zeros((2, 1))).tolist() == [0, 0]
    device.forget("a")
    assert device.predict(np.zeros((2, 1))).tolist() == [1, 1]


def test_weighted_votes_count_the_samples_behind_each_head():
    def device(vote):
        system = System(partition="given", vote=vote)
        device = Cause(learner=FrequencyLearner(), system=system, shards=3, slots=8, classes=3)
        device.learn(
            [
                TraceUpload(u, 1, (Part(n, ((c, n),), s),))
                for s, (u, c, n) in enumerate([("a", 0, 9), ("b", 1, 2), ("c", 1, 3)])
            ]
        )
        return device

    assert device("majority").predict(np.zeros((1, 1))).tolist() == [1]
    assert device("weighted").predict(np.zeros((1, 1))).tolist() == [0]


def test_no_head_left_to_vote_is_a_clear_error():
    device = Cause(learner=FrequencyLearner(), shards=1, slots=2)
    with pytest.raises(NoVotersError, match="no shard can vote"):
        device.predict(np.zeros((1, 1)))
    device.learn([upload("a", 1, (0, 5))])
    device.forget("a")
    with pytest.raises(NoVotersError, match="no shard can vote"):
        device.predict(np.zeros((1, 1)))


def test_the_counting_learner_says_that_it_cannot_predict():
    device = Cause(learner=CountingLearner(), shards=1, slots=2)
    device.learn([upload("a", 1, (0, 5))])
    with pytest.raises(LearnerError, match="only counts"):
        device.predict(np.zeros((1, 1)))


def test_the_counting_learner_has_counted_what_is_retained():
    device = Cause(learner=CountingLearner(), system=System(gamma=FIXED), shards=1, slots=8)
    for t in (1, 2, 3):
        device.learn([upload("a", t, (0, 10)), upload("b", t, (1, 5))])
    device.forget("a", rounds=[2], count=4)
    assert [int(device.memory.shelf.get(key)) for key in device.memory.stored()] == [15, 26, 41]


def test_training_starts_from_what_was_stored_not_from_a_live_object():
    class Marking(FrequencyLearner):
        def decode(self, blob):
            state = super().decode(blob).copy()
            state.flags.writeable = False
            decoded.append(id(state))
            return state

        def train(self, parent, lesson, seed, tick=None):
            parents.append(None if parent is None else id(parent))
            return super().train(parent, lesson, seed)

    decoded, parents = [], []
    device = Cause(learner=Marking(), system=System(gamma=FIXED), shards=1, slots=8, classes=3)
    for t in (1, 2, 3):
        device.learn([upload("a", t, (0, 2))])
    assert parents == [None, *decoded]


def test_the_engine_imports_no_torch(tmp_path):
    import os
    import subprocess
    import sys

    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    modules = "cause.device.device, cause.lab.simulate, cause.lab.reproduce.figures, cause.cli.commands"
    code = f"import {modules}; list(cause.cli.commands.COMMANDS.values()); print('not imported')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert (done.stdout, done.stderr) == ("not imported\n", "")


def test_rehearsed_samples_are_those_of_lowest_keyed_hash_among_the_earlier_ones():
    from cause.common.hashing import derive, root_key
    from tests.small_learners import RememberingLearner, ids

    learner = RememberingLearner()
    device = Cause(learner=learner, system=System(gamma=FIXED, rehearsal=0.5), shards=1, slots=8, seed=5)
    uploads = [TraceUpload("a", 1, (Part(20),)), TraceUpload("b", 2, (Part(8),)), TraceUpload("a", 3, (Part(10),))]
    for each in uploads:
        device.learn([each])
    key = derive(root_key(5), "rehearsal")
    earlier = [(int(h), (u.user, u.round, p)) for u in uploads[:2] for p, h in enumerate(u.hashes(key, u.positions))]
    assert ids(learner.diary[-1][1].rehearsed) == {sample for _, sample in sorted(earlier)[:5]}
    assert learner.diary[0][1].rehearsed == ()
    # 4 + 2 + 1 of rounds 1 to 3 are left of b's and a's; what is replayed rehearses too
    (forgotten,) = device.forget("b", rounds=[2], count=4)
    assert forgotten.rsn == (4 + 2) + (10 + 5)
