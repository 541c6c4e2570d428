"""On a GPU: the same bits each time, in each process, recorded or not. Skipped where there is none."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.models.depthwise import Depthwise
from tests.learners.test_depthwise import Noted

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

CLASSES, SHAPE = 4, (3, 16, 16)
OURS: dict[str, Any] = {
    "optimizer": "sgd",
    "lr": 0.05,
    "nesterov": True,
    "weight_decay": 1e-3,
    "schedule": "warm-cosine",
}
OURS |= {"augmentation": "crop-flip", "label_smoothing": 0.1, "compute": "bf16"}


def upload(user="a", round_=1, count=100, dtype=np.uint8):
    draw = np.random.default_rng([ord(user), round_, count])
    x, y = draw.integers(0, 256, (count, *SHAPE)).astype(dtype), draw.integers(0, CLASSES, count)
    x[:, :, :4] = (60 * y[:, None, None, None]).astype(dtype)
    return ArrayUpload(user, round_, x, y)


def lesson(*uploads):
    pieces = tuple(Piece(each, each.positions) for each in uploads)
    return Lesson(SegmentKey(0, 1), pieces, sum(len(p.positions) for p in pieces))


def learner(make=None, graphs=True, **changes):
    settings = {"epochs": 6, "batch_size": 16, "mean": 120.0, "std": 64.0, **changes}
    options = () if make else (("width", 16),)
    recipe = Recipe("mine" if make else "cnn", CLASSES, SHAPE, **{"options": options, **settings})
    return TorchLearner(recipe, make=make, device="cuda", graphs=graphs)


@pytest.fixture
def replays(monkeypatch):
    """How many recorded steps were replayed."""
    counted, replay = [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: (counted.append(1), replay(self))[1])
    return counted


def chain(trainer):
    """Two segments, encoded: the second starts from what the first left, with a last batch of its own size."""
    one = trainer.encode(trainer.train(None, lesson(upload()), b"s" * 32))
    return one, trainer.encode(trainer.train(trainer.decode(one), lesson(upload("b", 2, 59)), b"t" * 32))


def dropping(classes, shape):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(768, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 4)
    )


def with_frozen(classes, shape):
    torch.manual_seed(99)
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    return nn.Sequential(backbone, nn.Linear(8 * 14 * 14, classes))


class Viewing(nn.Module):
    """A network that depends on the memory layout of its input (`view`)."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8 * 14 * 14, CLASSES)

    def forward(self, x):
        x = self.conv(x)
        return self.out(x.view(len(x), -1))


class Waiting(Viewing):
    def forward(self, x):
        return super().forward(x) * (1.0 if x.mean().item() < 99 else 2.0)


class Synchronizing(Viewing):
    def forward(self, x):
        torch.cuda.synchronize()
        return super().forward(x)


class Drawing(Viewing):
    def forward(self, x):
        return super().forward(x) * (0.5 + random.random())


class Counting(Viewing):
    steps = 0

    def forward(self, x):
        self.steps = self.steps + 1
        return super().forward(x) / self.steps


def depthwise(classes, shape):
    return nn.Sequential(
        nn.Conv2d(3, 16, 1), Depthwise(16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes),
    )  # fmt: skip


WAYS: dict[str, dict[str, Any]] = {
    "adam": {},
    "ours": OURS,
    "tf32": {"compute": "tf32"},
    "rmsprop": {"optimizer": "rmsprop", "schedule": "cosine", "compute": "bf16"},
    "one-cycle": {**OURS, "schedule": "one-cycle"},
    "iterative": {**OURS, "pruning": "iterative", "steps": 2, "round_to": 1},
    "by gradient": {**OURS, "pruning": "iterative", "steps": 2, "round_to": 1, "importance": "gradient"},
    "one-shot": {**OURS, "pruning": "one-shot"},
    "half size": {**OURS, "precision": "bf16"},
    "dropout": {**OURS, "make": dropping},
    "depthwise": {**OURS, "make": depthwise},
    "frozen": {**OURS, "make": with_frozen},
    "views": {**OURS, "make": lambda classes, shape: Viewing()},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_bits_are_the_same_again_and_without_a_recording(way, replays):
    first = chain(learner(**WAYS[way]))
    used = len(replays)
    assert (used > 0) == (way != "one-cycle")
    assert chain(learner(**WAYS[way])) == first
    assert chain(learner(**WAYS[way], graphs=False)) == first
    assert len(replays) == 2 * used


@pytest.mark.parametrize("model", ["resnet34", "vgg16", "mobilenetv2", "densenet121"])
def test_every_network_is_trained_with_the_same_bits(model, replays):
    def make():
        recipe = Recipe(model, CLASSES, (3, 32, 32), epochs=3, batch_size=32, **OURS, pruning="iterative", steps=1)
        return TorchLearner(recipe, device="cuda")

    draw = np.random.default_rng(0)
    given = lesson(ArrayUpload("a", 1, draw.integers(0, 256, (200, 32, 32, 3), dtype=np.uint8), np.arange(200) % 4))
    one, two = (make().encode(make().train(None, given, b"s" * 32)) for _ in range(2))
    assert one == two
    assert replays


def test_depthwise_convolutions_meet_few_sizes_of_batches():
    """For each size of a batch a card stands still, for seconds."""
    trainer = learner(depthwise, **{**OURS, "batch_size": 48}, graphs=False)
    with Noted() as noted:
        chain(trainer)
    assert noted.sizes == {32, 64}
    assert "whole batches" in trainer.environment
    assert "whole batches" not in learner(**OURS).environment


@pytest.mark.parametrize("module", [Waiting, Drawing, Counting, Synchronizing])
def test_what_cannot_be_recorded_is_trained_all_the_same(module, replays):
    def make(classes, shape):
        return module()

    first = chain(learner(make, **OURS))
    assert not replays
    assert chain(learner(make, **OURS, graphs=False)) == first
    assert chain(learner(**OURS)) == chain(learner(**OURS, graphs=False))  # nothing is left behind


@pytest.mark.filterwarnings("ignore:2 processes share a GPU")
def test_a_replay_in_another_process_has_the_same_bits():
    recipe = Recipe("cnn", CLASSES, SHAPE, epochs=6, batch_size=16, options=(("width", 16),), **OURS, round_to=1)
    device = Cause(learner=TorchLearner(recipe, device="cuda"), system="cause", shards=2, slots=9, workers=2)
    for t in (1, 2):
        device.learn([upload(user, t) for user in "abcd"])
    device.forget("a", rounds=[1])
    verification = verify(device, processes=1)
    assert (len(verification.identical), verification.mismatched, verification.unverifiable) == (
        len(device.memory),
        [],
        [],
    )
    device.engine.executor.close()


def test_other_numbers_are_seen():
    """The comparisons above can fail."""
    assert chain(learner(**OURS)) != chain(learner(**{**OURS, "lr": 0.0500001}))
    assert chain(learner(**OURS)) != chain(learner(**{**OURS, "compute": "tf32"}))


def test_bytes_and_floats_of_the_same_value_train_the_same():
    whole = learner(**OURS).train(None, lesson(upload()), b"s" * 32)
    x, y = upload().arrays(range(100))
    floats = ArrayUpload("a", 1, x.astype(np.float32), y)
    floats._ids, floats._digests = upload()._ids, upload()._digests
    floats._x, floats._y = x.astype(np.float32), y
    other = learner(**OURS).train(None, lesson(floats), b"s" * 32)
    assert all(torch.equal(whole[name], other[name]) for name in whole)


def test_it_learns_and_predicts_in_parts():
    trainer = learner(**{**OURS, "epochs": 12})
    state = trainer.train(None, lesson(upload(count=400)), b"s" * 32)
    x, y = upload("z", 9, 5000).arrays(range(5000))
    probabilities = trainer.predict(state, x)
    assert probabilities.shape == (5000, CLASSES)
    assert (probabilities.argmax(1) == y).mean() > 0.9


def test_the_callers_flags_and_generators_are_left_alone():
    torch.cuda.manual_seed(3)
    before = torch.cuda.get_rng_state(), torch.get_float32_matmul_precision(), torch.cuda.current_stream()
    flags = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled
    chain(learner(**{**OURS, "compute": "tf32"}))
    assert torch.equal(torch.cuda.get_rng_state(), before[0])
    assert (torch.get_float32_matmul_precision(), torch.cuda.current_stream()) == before[1:]
    assert (
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.enabled,
    ) == flags


def test_one_segment_after_the_other_takes_no_more_of_the_card():
    trainer = learner(**OURS)
    taken = []
    for _ in range(6):
        state = trainer.train(None, lesson(upload()), b"s" * 32)
        trainer.predict(state, upload("z", 9, 2000).arrays(range(2000))[0])
        taken.append(torch.cuda.memory_reserved())
    assert taken[5] <= 1.2 * taken[1]
