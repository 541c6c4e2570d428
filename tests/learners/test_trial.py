"""The trial: what cannot be learned exactly is refused before there is a device."""

import pytest

from cause.device.device import Cause
from cause.engine.presets import PRESETS
from cause.errors import InputError, LearnerError
from cause.learners.described import describe
from cause.learners.torch import TorchLearner
from cause.learners.trial import try_out
from tests.learners import stateful_networks

CLASSES, SHAPE = 3, (6,)
STATEFUL = {
    "a class attribute": (stateful_networks.ClassAttribute, "'mean' of class ClassAttribute depends on the data"),
    "a global cache of the first batch": (
        stateful_networks.FirstBatch,
        "'CACHE' of module tests.learners.stateful_networks depends on",
    ),
    "a class's cache of the first batch": (
        stateful_networks.FirstBatchOfClass,
        "'scale' of class FirstBatchOfClass depends on",
    ),
    "a generator of torch": (stateful_networks.TorchGenerator, "gave other weights after another training"),
    "a generator of numpy": (stateful_networks.NumpyGenerator, "gave other weights after another training"),
    "a generator of random": (stateful_networks.RandomGenerator, "gave other weights after another training"),
    "a counter": (stateful_networks.Counter, "gave other weights after another training"),
    "the clock": (stateful_networks.Clock, "gave other weights after another training"),
    "a prediction's counter": (
        stateful_networks.PredictionCounter,
        "answers the same inputs otherwise after other inputs",
    ),
}


def learner(make, **parts) -> TorchLearner:
    return TorchLearner(make, classes=CLASSES, shape=SHAPE, epochs=2, batch_size=2, **parts)


def of(kind):
    return lambda classes, shape: kind(classes)


@pytest.fixture(autouse=True)
def forgotten():
    """What the networks of other tests have left behind."""
    stateful_networks.CACHE.clear()
    stateful_networks.FirstBatchOfClass.scale = None


@pytest.mark.parametrize("name", STATEFUL)
def test_code_that_remembers_is_refused(name):
    kind, message = STATEFUL[name]
    with pytest.raises(LearnerError, match=message):
        try_out(learner(of(kind)))


def test_a_hook_that_remembers_is_refused():
    with pytest.raises(LearnerError, match=r"keeps|gave other weights"):
        try_out(learner(stateful_networks.closure))


def test_a_loss_that_remembers_is_refused():
    with pytest.raises(LearnerError, match="gave other weights after another training"):
        try_out(learner(stateful_networks.plain, loss="tests.learners.stateful_networks:swapped"))


def test_caches_of_what_follows_from_shapes_and_global_generators_are_fine():
    try_out(learner(of(stateful_networks.Pure)))


@pytest.mark.parametrize("kind", [stateful_networks.Wide, stateful_networks.Narrow])
def test_a_wrong_number_of_outputs_is_refused(kind):
    with pytest.raises(LearnerError, match="last layer must have one output for each of the 3 classes"):
        try_out(learner(of(kind)))


def test_outputs_that_are_no_tensor_are_refused():
    with pytest.raises(LearnerError, match="the network returns a tuple, not a tensor of"):
        try_out(learner(of(stateful_networks.Tuple)))


def test_answers_that_are_no_numbers_are_refused():
    with pytest.raises(LearnerError, match="the network answers input 0 with NaN"):
        try_out(learner(of(stateful_networks.Nan)))


def test_an_input_that_is_not_finite_is_named():
    own = learner(stateful_networks.plain)
    from tests.learners.test_trial import upload_of

    state = own.train(None, upload_of(), b"s" * 32)
    with pytest.raises(InputError, match="input 1 has a value that is not finite"):
        own.predict(state, [[0.0] * 6, [float("inf")] * 6])


def upload_of():
    import numpy as np

    from cause.engine.arrays import ArrayUpload
    from tests.learners.test_torch import lesson

    return lesson(ArrayUpload("a", 1, np.ones((4, 6), np.float32), [0, 1, 2, 0]))


def test_a_home_is_made_only_after_a_trial(tmp_path):
    with pytest.raises(LearnerError, match="one output for each of the 3 classes"):
        Cause(tmp_path / "device", learner=learner(of(stateful_networks.Wide)), shards=1, slots=2)
    assert not (tmp_path / "device").exists()


@pytest.mark.usefixtures("one_process_trial")
def test_a_home_says_once_that_its_network_is_trained_whole(tmp_path):
    from tests.learners.common_networks import gru

    own = TorchLearner(gru, classes=3, shape=(5, 4), epochs=1)
    with (
        pytest.warns(UserWarning, match="it is trained whole"),
        Cause(tmp_path / "d", learner=own, system="frugal", slots=4) as device,
    ):
        assert device.status().notes == tuple(device.learner.notes)
    with Cause(tmp_path / "d") as device:  # pytest turns a second warning into an error
        assert len(device.status().notes) == 1


def test_a_factory_of_the_running_script_is_not_written_into_a_home(tmp_path, monkeypatch):
    import __main__

    def network(classes, shape):
        return stateful_networks.Base(classes)

    network.__module__, network.__qualname__ = "__main__", "network"
    monkeypatch.setattr(__main__, "network", network, raising=False)
    own = learner(network)
    with pytest.raises(InputError, match="'__main__:network' is in the script that is running"):
        Cause(tmp_path / "device", learner=own, shards=1, slots=2, system="sisa")
    assert not (tmp_path / "device").exists()
    Cause(learner=own, shards=1, slots=2, system="sisa")  # in memory nobody else opens it


def test_a_loss_of_the_running_script_is_not_written_into_a_home(monkeypatch):
    import __main__

    def mine(outputs, labels):
        return outputs.sum()

    monkeypatch.setattr(__main__, "mine", mine, raising=False)
    with pytest.raises(InputError, match="the loss '__main__:mine' is in the script"):
        describe(learner(stateful_networks.plain, loss="__main__:mine"))


@pytest.mark.parametrize("preset", ["cause", "frugal", "omp-70"])
def test_our_own_networks_pass(preset):
    try_out(TorchLearner("mlp", classes=3, shape=(6,), epochs=2).composed(PRESETS[preset]))
