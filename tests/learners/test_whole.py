"""Grouped convolutions meet few sizes of batches, and nothing else of a network notices."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from cause.arrays import ArrayUpload
from cause.learners.torch import TorchLearner
from cause.learners.torch.habits import habits_of
from cause.learners.torch.whole import doublings, fill, grouped, multiples
from cause.recipe import Recipe
from cause.samples import Lesson, Piece, SegmentKey

CLASSES, SHAPE = 4, (3, 32, 32)


@pytest.fixture
def met(monkeypatch):
    """The sizes of batches that grouped convolutions have met."""
    sizes, forward = set(), nn.Conv2d._conv_forward

    def noted(self, x, *rest):
        if self.groups > 1:
            sizes.add(len(x))
        return forward(self, x, *rest)

    monkeypatch.setattr(nn.Conv2d, "_conv_forward", noted)
    return sizes


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, CLASSES),
    )  # fmt: skip


@pytest.mark.parametrize("count", [1, 5, 8, 9])
def test_outputs_gradients_and_statistics_are_those_of_the_batch_itself(count, met):
    plain, filled = network(), network()
    x = torch.randn(count, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    wanted = plain(x)
    met.clear()
    fill(filled, multiples(8))
    told = filled(x)
    assert met == {8 if count <= 8 else 16}
    torch.testing.assert_close(told, wanted)
    wanted.square().sum().backward()
    told.square().sum().backward()
    for (name, one), two in zip(plain.named_parameters(), filled.parameters(), strict=True):
        torch.testing.assert_close(two.grad, one.grad, msg=name, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(filled[2].running_var, plain[2].running_var)
    assert filled.state_dict().keys() == plain.state_dict().keys()


def test_a_copy_computes_with_its_own_weights():
    filled = network()
    fill(filled, multiples(8))
    x = torch.randn(3, 3, 8, 8)
    twin, before = copy.deepcopy(filled), filled(x)
    nn.init.zeros_(twin[1].weight)
    assert torch.equal(filled(x), before)
    assert not torch.equal(twin(x), before)
    assert type(twin[1]) is type(filled[1])


def test_filling_again_changes_the_size_only(met):
    filled = network()
    fill(filled, multiples(8))
    kind = type(filled[1])
    fill(filled, doublings)
    assert type(filled[1]) is kind
    assert isinstance(filled[1], nn.Conv2d)
    filled(torch.randn(3, 3, 8, 8))
    assert met == {64}


def test_a_single_picture_without_a_batch_stays_one(met):
    filled = nn.Conv2d(8, 8, 3, groups=8)
    wanted = filled(picture := torch.randn(8, 5, 5))
    fill(filled, multiples(8))
    torch.testing.assert_close(filled(picture), wanted)


def test_a_network_without_groups_is_left_alone():
    plain = nn.Sequential(nn.Conv2d(3, 8, 1))
    fill(plain, multiples(8))
    assert grouped(plain) == []
    assert type(plain[0]) is nn.Conv2d


def test_it_is_still_recordable():
    filled, recipe = network(), Recipe("mine", CLASSES, (3, 8, 8))
    fill(filled, multiples(8))
    assert habits_of(filled, torch.randn(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64), recipe).recordable


def lesson(count, round_):
    draw = np.random.default_rng([count, round_])
    x = draw.integers(0, 256, (count, *SHAPE), dtype=np.uint8)
    upload = ArrayUpload("a", round_, x, np.arange(count) % CLASSES)
    return Lesson(SegmentKey(0, round_), (Piece(upload, upload.positions),), count)


def test_segments_of_any_size_are_learned_pruned_and_predicted_with_whole_batches(met):
    """As on a card, where it is done; here it is asked for."""

    def chain():
        recipe = Recipe("mobilenetv2", CLASSES, SHAPE, epochs=2, batch_size=8, pruning="iterative", steps=1, mean=120.0)
        learner = TorchLearner(recipe)
        assert not learner._fills  # a processor compiles nothing
        learner._fills = True
        one = learner.encode(learner.train(None, lesson(11, 1), b"s" * 32))
        met.clear()  # a pruner has followed two samples through the network
        two = learner.encode(learner.train(learner.decode(one), lesson(13, 2), b"t" * 32))
        trained = set(met)
        met.clear()
        told = learner.predict(learner.decode(two), np.zeros((3, *SHAPE), np.uint8))
        return two, trained, set(met), told.shape

    two, trained, predicted, shape = chain()
    assert (trained, predicted, shape) == ({8}, {64}, (3, CLASSES))
    assert chain()[0] == two


@pytest.mark.parametrize("fills", [True, False])
def test_filled_batches_are_part_of_the_environment(fills, monkeypatch):
    """They round otherwise: a replay without them could neither confirm nor refute."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    learner = TorchLearner(Recipe("cnn", CLASSES, SHAPE))
    learner.device, learner._fills = torch.device("cuda"), fills
    assert ("whole batches" in learner.environment) == fills
