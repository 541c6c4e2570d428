"""Networks that a pruner cannot follow: trained whole with a note, or refused with a line that names the cause."""

import importlib
import warnings

import numpy as np
import pytest

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.presets import PRESETS
from cause.errors import LearnerError
from cause.learners.torch import TorchLearner
from cause.learners.trial import try_out
from tests.learners import common_networks
from tests.learners import unusual_networks as networks
from tests.learners.test_torch import lesson
from tests.quick import quick_only

PRUNING = ("cause", "frugal", "omp-70")


def learner(make, system: str = "cause") -> TorchLearner:
    own = TorchLearner(make, classes=3, shape=(12,), epochs=2, batch_size=4, steps=1, round_to=4)
    return own.composed(PRESETS[system])


def upload(user: str, *, scale: float = 1.0) -> ArrayUpload:
    draw = np.random.default_rng(len(user))
    return ArrayUpload(user, 1, (scale * (1 + draw.random((9, 12)))).astype(np.float32), np.arange(9) % 3)


@pytest.mark.parametrize("system", PRUNING)
@pytest.mark.parametrize("make", [networks.by_sign, networks.by_size, networks.by_mode, networks.beside_pruned])
def test_code_with_branches_learns_and_answers_on_every_branch(make, system):
    own = learner(make, system)
    try_out(own)
    state = None
    for scale in (1.0, -1.0, 1000.0):
        state = own.decode(own.encode(own.train(state, lesson(upload("a", scale=scale)), b"s" * 32)))
        for other in (1.0, -1.0, 1000.0):
            assert np.isfinite(own.predict(state, upload("b", scale=other).arrays(range(9))[0])).all()


def test_layers_that_no_branch_touches_are_pruned_all_the_same():
    own = learner(networks.beside_pruned)
    assert own.pruning_plan.prunable
    assert {"one", "other"} <= set(own.pruning_plan.whole or ())
    dense = networks.beside_pruned(3, (12,)).state_dict()
    state = own.train(None, lesson(upload("a")), b"s" * 32)
    assert state["first.0.weight"].shape[0] < dense["first.0.weight"].shape[0]


def test_a_branch_that_was_not_found_is_an_error_that_names_the_way_out():
    own = learner(networks.by_an_attribute)
    assert own.pruning_plan.prunable
    rare = upload("a")
    x, y = rare.arrays(range(9))
    x[0, 0] = 41.5
    with pytest.raises(LearnerError, match=r"the pruned network fails: .*'cause:pruning=none'"):
        own.train(None, lesson(ArrayUpload("a", 1, x, y)), b"s" * 32)
    whole = TorchLearner(networks.by_an_attribute, classes=3, shape=(12,), epochs=2)
    whole.train(None, lesson(ArrayUpload("a", 1, x, y)), b"s" * 32)


@pytest.mark.parametrize("make", quick_only([networks.scripted, networks.by_sign], [networks.by_sign]))
def test_what_cannot_be_pruned_is_trained_whole_and_says_so(make, tmp_path):
    own = TorchLearner(make, classes=3, shape=(12,), epochs=2)
    with pytest.warns(UserWarning, match="it is trained whole, as with pruning=none"):
        Cause(tmp_path / "d", learner=own, system="cause", shards=1, slots=4).close()
    with Cause(tmp_path / "d") as device:  # pytest turns a second warning into an error
        device.learn({"ann": upload("ann").arrays(range(9))})
        assert device.verify(processes=0).holds
        assert len(device.status().notes) == 1


def test_a_script_in_a_network_is_kept_whole():
    own = learner(networks.holds_a_script)
    try_out(own)
    own.train(None, lesson(upload("a")), b"s" * 32)


def test_a_network_without_a_weight_to_mask_says_so():
    (note,) = learner(networks.nothing_to_mask, "omp-70").notes
    assert note.startswith("no weight of this network can be masked")
    try_out(learner(networks.nothing_to_mask, "omp-70"))
    assert learner(networks.plain, "omp-70").notes == []


@pytest.mark.parametrize("system", [*PRUNING, "sisa"])
@pytest.mark.parametrize("make", [networks.pair, networks.table])
def test_an_answer_that_is_no_tensor_is_named_whether_or_not_the_system_prunes(make, system):
    with pytest.raises(LearnerError, match=r"the network returns a (tuple|dict), not a tensor of"):
        try_out(learner(make, system))


@pytest.mark.parametrize(
    ("make", "why"), [(networks.frozen, "all of them are frozen"), (networks.without_weights, "it has none")]
)
def test_a_network_that_cannot_learn_is_refused_and_the_reason_named(make, why):
    with pytest.raises(LearnerError, match=f"no weight that training could change: {why}"):
        learner(make)


@pytest.mark.parametrize(
    "make",
    [
        networks.plain,
        lambda classes, shape: common_networks.old_weight_norm(classes, shape),
        lambda classes, shape: common_networks.weight_norm(classes, shape),
    ],
)
def test_libraries_write_no_warning_to_the_users_terminal(make, monkeypatch):
    constants = importlib.import_module("torch_pruning.dependency.constants")

    monkeypatch.setattr(constants, "MAX_RECURSION_DEPTH", 0)  # as in a network of many layers
    with warnings.catch_warnings(record=True) as noise:
        warnings.simplefilter("always")
        own = learner(make, "cause")
        own.pruning_plan  # noqa: B018 - computed here
        own.train(None, lesson(upload("a")), b"s" * 32)
    assert [str(each.message) for each in noise] == []


def test_only_the_known_warnings_are_left_out():
    from cause.learners.torch.pruning.iterative import quiet

    with warnings.catch_warnings(record=True) as noise:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("Maximum recursive depth reached!", stacklevel=1)
            warnings.warn("something else", stacklevel=1)
    assert [str(each.message) for each in noise] == ["something else"]
