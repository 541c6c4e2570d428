"""On a GPU, batches of depthwise convolutions are padded to few sizes, without changing any result."""

import contextlib
import copy
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner, switches
from cause.learners.torch.models import depthwise
from cause.learners.torch.models.depthwise import Depthwise, is_filled
from cause.learners.torch.models.mobilenetv2 import mobilenetv2

CLASSES, SHAPE = 4, (3, 32, 32)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def on_a_processor(monkeypatch):
    """Pad batches on the CPU too; outside this test they are padded on GPUs only."""
    assert depthwise.DEVICES == ("cuda",)
    monkeypatch.setattr(depthwise, "DEVICES", ("cpu",))


class Noted(TorchDispatchMode):
    """Records the batch sizes that convolutions computed, forward and backward, in this thread."""

    def __init__(self):
        super().__init__()
        self.sizes, self.others = set(), set()

    def __enter__(self):
        # training switches the host's modes off, and this is one
        self._patch = mock.patch.object(switches, "_disable_current_modes", contextlib.nullcontext)
        self._patch.start()
        return super().__enter__()

    def __exit__(self, *error):
        self._patch.stop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default:
            self._sizes(args[8]).add(len(args[0]))
        if func is torch.ops.aten.convolution_backward.default:
            self._sizes(args[9]).update({len(args[0]), len(args[1])})
        return func(*args, **(kwargs or {}))

    def _sizes(self, groups):
        return self.sizes if groups > 1 else self.others


@pytest.fixture
def noted():
    with Noted() as noted:
        yield noted


def network():
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 8, 1), Depthwise(8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(512, CLASSES))


def unfilled():
    net = network()
    net[1].__class__ = nn.Conv2d
    return net


def learned(net, x):
    output = net(x)
    output.square().sum().backward()
    return output


@pytest.mark.parametrize(("count", "filled"), [(1, 1), (5, 32), (32, 32), (40, 64), (64, 64), (65, 128)])
def test_outputs_gradients_and_statistics_are_those_of_the_batch_itself(count, filled, noted):
    one, two = unfilled(), network()
    x = torch.randn(count, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    expected = learned(one, x)
    assert noted.sizes == {count}
    noted.sizes.clear()
    output = learned(two, x)
    assert (noted.sizes, noted.others) == ({filled}, {count})
    torch.testing.assert_close(output, expected)
    for (name, ours), theirs in zip(one.named_parameters(), two.named_parameters(), strict=True):
        assert name == theirs[0]
        torch.testing.assert_close(theirs[1].grad, ours.grad, msg=name, rtol=1e-3, atol=1e-3)
    for name, buffer in one.named_buffers():
        torch.testing.assert_close(two.get_buffer(name), buffer, msg=name)


def test_a_single_picture_and_an_empty_batch_are_as_ever():
    conv = Depthwise(8, 3)
    plain = copy.deepcopy(conv)
    plain.__class__ = nn.Conv2d  # type: ignore[assignment]
    for x in (torch.randn(8, 5, 5), torch.randn(0, 8, 5, 5)):
        assert torch.equal(conv(x), plain(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_it_may_be_computed_again_on_the_way_back(reentrant):
    """torch compares the sizes of both times."""
    one, two, x = network(), network(), torch.randn(5, 8, 8, 8, requires_grad=True)
    expected = one[1](x)
    expected.sum().backward()
    output = checkpoint(two[1], x, use_reentrant=reentrant)
    output.sum().backward()
    assert torch.equal(output, expected)
    assert torch.equal(two[1].weight.grad, one[1].weight.grad)


ANY = ({0: torch.export.Dim("some", min=2)},)
TRACED: dict[str, Any] = {
    "trace": torch.jit.trace,
    "symbolic": lambda net, x: torch.fx.symbolic_trace(net),
    "compile": lambda net, x: torch.compile(net, backend="eager", fullgraph=True),
    "export": lambda net, x: torch.export.export(net, (x,), dynamic_shapes=ANY, strict=False).module(),
    "strict": lambda net, x: torch.export.export(net, (x,), dynamic_shapes=ANY, strict=True).module(),
}


@pytest.mark.parametrize("how", TRACED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")
def test_what_was_traced_is_for_batches_of_any_size(how):
    net = network().eval()
    traced = TRACED[how](net, torch.randn(5, 3, 8, 8))
    for count in range(2, 14):  # more than torch compiles anew for
        x = torch.randn(count, 3, 8, 8)
        torch.testing.assert_close(traced(x), net(x))


def test_only_our_own_are_filled_and_only_on_a_card(monkeypatch, noted):
    ours = mobilenetv2(CLASSES, SHAPE, width=0.1)
    assert is_filled(ours, CPU)
    nn.Conv2d(8, 8, 3, groups=8)(torch.randn(5, 8, 8, 8))  # a user's layer
    assert noted.sizes == {5}
    assert not is_filled(unfilled(), CPU)
    monkeypatch.setattr(depthwise, "DEVICES", ("cuda",))
    assert not is_filled(ours, CPU)
    assert is_filled(ours, torch.device("cuda:1"))
    ours(torch.randn(7, *SHAPE))
    assert noted.sizes == {5, 7}


def lesson(count, round_):
    draw = np.random.default_rng([count, round_])
    x = draw.integers(0, 256, (count, *SHAPE), dtype=np.uint8)
    upload = ArrayUpload("a", round_, x, np.arange(count) % CLASSES)
    return Lesson(SegmentKey(0, round_), (Piece(upload, upload.positions),), count)


@pytest.mark.long
def test_segments_of_any_size_are_learned_pruned_and_predicted_with_whole_batches(noted, thorough):
    def chain():
        settings: dict[str, Any] = {"epochs": 2, "batch_size": 8, "pruning": "iterative", "steps": 1, "round_to": 1}
        learner = TorchLearner(Recipe("mobilenetv2", CLASSES, SHAPE, options=(("width", 0.1),), **settings))
        one = learner.encode(learner.train(None, lesson(11, 1), b"s" * 32))
        two = learner.encode(learner.train(learner.decode(one), lesson(13, 2), b"t" * 32))
        return one, two, learner.predict(learner.decode(two), np.zeros((3, *SHAPE), np.uint8))

    one, two, output = chain()
    assert noted.sizes == {1, 32}  # a pruner follows one sample through the network
    assert 5 in noted.others
    assert output.shape == (3, CLASSES)
    if thorough:  # `test_every_network_is_bit_exact` is the quick one
        assert chain()[:2] == (one, two)


@pytest.mark.long
def test_pruning_takes_the_same_channels_as_without(monkeypatch):
    def shapes():
        settings: dict[str, Any] = {"epochs": 1, "batch_size": 8, "pruning": "iterative", "steps": 1, "round_to": 1}
        learner = TorchLearner(Recipe("mobilenetv2", CLASSES, SHAPE, options=(("width", 0.1),), **settings))
        state = learner.train(None, lesson(11, 1), b"s" * 32)
        return {name: tuple(tensor.shape) for name, tensor in state.items()}

    filled = shapes()
    monkeypatch.setattr(depthwise, "DEVICES", ())
    assert shapes() == filled


@pytest.mark.parametrize("filled", [True, False])
def test_filled_batches_are_part_of_the_environment(filled, monkeypatch):
    """They round otherwise: a replay without them could neither confirm nor refute."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    learner = TorchLearner(Recipe("mobilenetv2" if filled else "cnn", CLASSES, SHAPE))
    learner.device = torch.device("cuda")
    assert ("whole batches" in learner.environment) == filled
