"""Grouped convolutions meet few sizes of batches, and nothing else of a network notices."""

import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from cause.arrays import ArrayUpload
from cause.learners.torch import TorchLearner, whole
from cause.learners.torch.habits import habits_of
from cause.learners.torch.whole import filling, is_filled
from cause.recipe import Recipe
from cause.samples import Lesson, Piece, SegmentKey

CLASSES, SHAPE = 4, (3, 32, 32)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def on_a_processor(monkeypatch):
    """It is done on cards only; here it is asked for, to be seen without one."""
    assert whole.DEVICES == ("cuda",)
    monkeypatch.setattr(whole, "DEVICES", ("cpu",))


class Noted(TorchDispatchMode):
    """The sizes of batches that convolutions really met, forward and backward, in this thread."""

    def __init__(self):
        super().__init__()
        self.sizes, self.others = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default:
            self._sizes(args[8], args[6]).add(len(args[0]))
        if func is torch.ops.aten.convolution_backward.default:
            self._sizes(args[9], args[7]).update({len(args[0]), len(args[1])})
        return func(*args, **(kwargs or {}))

    def _sizes(self, groups, transposed):
        return self.sizes if groups > 1 and not transposed else self.others


@pytest.fixture
def noted():
    with Noted() as noted:
        yield noted


@pytest.fixture
def met(noted):
    return noted.sizes


class Normalising(nn.Conv2d):
    """A convolution that looks at its batch: it must not see what was filled in."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.normalise = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.normalise(super().forward(x))


def plain():
    return nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.BatchNorm2d(8))


def own():
    return Normalising(8, 8, 3, groups=8, padding=1)


def parametrized():
    return nn.utils.parametrizations.spectral_norm(nn.Conv2d(8, 8, 3, groups=4, padding=1, padding_mode="circular"))


def transposed():
    return nn.Sequential(plain(), nn.ConvTranspose2d(8, 8, 3, groups=8, padding=1))


class Again(nn.Module):
    """Its inside is computed again on the way back, where torch asks for what it met on the way there."""

    def __init__(self, reentrant):
        super().__init__()
        self.inside, self.reentrant = plain(), reentrant

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=self.reentrant)


def network(middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 1), middle(), nn.ReLU(), nn.Flatten(), nn.Linear(512, CLASSES))


def same():
    return nn.Conv2d(8, 8, 3, groups=2, padding="same", bias=False)


def learned(net, x, filled=True):
    with filling(net, x.device, most=50) if filled else nullcontext():
        told = net(x)
    told.square().sum().backward()
    return told


def assert_alike(one, two):
    """The same gradients and statistics, but for rounding."""
    for (name, ours), theirs in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad, ours.grad, msg=name, rtol=1e-3, atol=1e-3)
    for name, buffer in one.named_buffers():
        torch.testing.assert_close(two.get_buffer(name), buffer, msg=name)


@pytest.mark.parametrize("middle", [plain, own, parametrized, transposed, same])
@pytest.mark.parametrize("count", [1, 5, 40, 50, 51])
def test_outputs_gradients_and_statistics_are_those_of_the_batch_itself(middle, count, noted):
    one, two = network(middle), network(middle)
    x = torch.randn(count, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    wanted = learned(one, x, filled=False)
    noted.sizes.clear()
    torch.testing.assert_close(learned(two, x), wanted)
    assert noted.sizes == {{1: 1, 5: 32, 40: 50, 50: 50, 51: 51}[count]}
    assert noted.others == {count}
    assert_alike(one, two)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_on_the_way_back_is_not_filled(reentrant, met):
    """torch compares the sizes of both times, and there nothing could be filled."""
    one, two = network(partial(Again, reentrant)), network(partial(Again, reentrant))
    x = torch.randn(5, 3, 8, 8)
    wanted = learned(one, x, filled=False)
    assert torch.equal(learned(two, x), wanted)
    assert met == {5}
    assert_alike(one, two)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's compiler looks at it
def test_compiled_parts_stay_compiled_and_are_not_filled():
    sizes = []

    def backend(graph, examples):
        sizes.extend(len(each) for each in examples if each.dim() == 4 and each.shape[1] == 8)
        return graph.forward

    one, two = network(plain), network(lambda: torch.compile(plain(), backend=backend, fullgraph=True, dynamic=False))
    for count in (5, 50, 5):
        x = torch.randn(count, 3, 8, 8)
        assert torch.equal(learned(two, x), learned(one, x, filled=False))
    assert_alike(one, two)
    assert sizes == [5, 50]


def test_a_first_layer_whose_input_needs_no_gradient_is_filled(met):
    def first():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, bias=False), nn.Flatten(), nn.Linear(216, CLASSES))

    one, two, x = first(), first(), torch.randn(5, 3, 8, 8)
    wanted = learned(one, x, filled=False)
    met.clear()
    torch.testing.assert_close(learned(two, x), wanted)
    assert met == {32}
    assert_alike(one, two)


def test_sounds_and_volumes_stay_as_they_are(met):
    for conv, x in (
        (nn.Conv1d(8, 8, 3, groups=8), torch.randn(5, 8, 9)),
        (nn.Conv3d(8, 8, 3, groups=8), torch.randn(5, 8, 4, 4, 4)),
    ):
        wanted = conv(x)
        with filling(network(plain), CPU, most=50):
            assert torch.equal(conv(x), wanted)
    assert met == {5}


def test_a_single_picture_without_a_batch_stays_one(met):
    conv, picture = nn.Conv2d(8, 8, 3, groups=8), torch.randn(8, 5, 5)
    wanted = conv(picture)
    with filling(conv, CPU, most=50):
        assert torch.equal(conv(picture), wanted)
        assert met == {1}
        assert conv(torch.zeros(0, 8, 5, 5)).shape == (0, 8, 3, 3)


def test_only_networks_with_groups_are_filled_and_only_on_a_card(monkeypatch):
    assert is_filled(network(plain), CPU)
    assert not is_filled(nn.Sequential(nn.Conv2d(3, 8, 1)), CPU)
    monkeypatch.setattr(whole, "DEVICES", ("cuda",))
    assert not is_filled(network(plain), CPU)
    assert is_filled(network(plain), torch.device("cuda:1"))


def test_other_threads_and_what_comes_after_are_left_alone(met):
    shared, x, theirs = network(plain).eval(), torch.randn(3, 3, 8, 8), []

    def predict():
        with Noted() as noted:
            shared(x)
        theirs.append(noted.sizes)

    with filling(shared, CPU, most=50):
        other = threading.Thread(target=predict)
        other.start()
        other.join()
        shared(x)
    assert (theirs, met) == ([{3}], {32})
    met.clear()
    shared(x)
    assert met == {3}


def test_it_is_still_recordable():
    recipe, two = Recipe("mine", CLASSES, (3, 8, 8)), torch.zeros(2, dtype=torch.int64)
    assert habits_of(network(plain), torch.randn(2, 3, 8, 8), two, recipe).recordable


def small(classes, shape):
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=4), nn.BatchNorm2d(24), nn.Conv2d(24, 24, 3, groups=24), nn.BatchNorm2d(24),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, classes),
    )  # fmt: skip


def lesson(count, round_):
    draw = np.random.default_rng([count, round_])
    x = draw.integers(0, 256, (count, *SHAPE), dtype=np.uint8)
    upload = ArrayUpload("a", round_, x, np.arange(count) % CLASSES)
    return Lesson(SegmentKey(0, round_), (Piece(upload, upload.positions),), count)


def test_segments_of_any_size_are_learned_pruned_and_predicted_with_whole_batches(met):
    def chain():
        recipe = Recipe("mine", CLASSES, SHAPE, epochs=2, batch_size=8, pruning="iterative", steps=1, round_to=1)
        learner = TorchLearner(recipe, make=small)
        one = learner.encode(learner.train(None, lesson(11, 1), b"s" * 32))
        met.clear()  # a pruner has followed two samples through the network
        two = learner.encode(learner.train(learner.decode(one), lesson(13, 2), b"t" * 32))
        trained = set(met)
        met.clear()
        told = learner.predict(learner.decode(two), np.zeros((3, *SHAPE), np.uint8))
        return two, trained, set(met), told.shape

    two, trained, predicted, shape = chain()
    assert (trained, predicted, shape) == ({8}, {32}, (3, CLASSES))
    assert chain()[0] == two


@pytest.mark.parametrize("filled", [True, False])
def test_filled_batches_are_part_of_the_environment(filled, monkeypatch):
    """They round otherwise: a replay without them could neither confirm nor refute."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    learner = TorchLearner(Recipe("mobilenetv2" if filled else "cnn", CLASSES, SHAPE))
    learner.device = torch.device("cuda")
    assert ("whole batches" in learner.environment) == filled
