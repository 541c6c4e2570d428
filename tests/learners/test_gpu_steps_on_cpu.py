"""What a GPU does in other ways than a CPU, tried on a CPU: the same numbers come out."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cause.engine.presets import FIXED, System
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.errors import InputError
from cause.lab.recipes import REHEARSAL, ours, paper
from cause.lab.reproduce.paper import EPOCHS_PER_ROUND
from cause.learners.recipe import Recipe
from cause.learners.torch.augment import PAD, crop_flip_rows
from cause.learners.torch.batches import batches, epochs_of, uses
from cause.learners.torch.cuda_graph_steps import DeviceSteps
from cause.learners.torch.data import Resident, Scaled
from cause.learners.torch.eager_steps import PlainSteps
from cause.learners.torch.gpu_probe import Habits, habits_of
from tests.learners.test_torch import compare, learner, lesson, upload

CPU, CLASSES, SHAPE = torch.device("cpu"), 3, (2, 6, 5)
DRAWN = np.random.default_rng(0)
BYTES = DRAWN.integers(0, 256, (30, 6, 5, 2), dtype=np.uint8)
LABELS = torch.from_numpy(DRAWN.integers(0, CLASSES, 30))


def recipe(**changes) -> Recipe:
    return Recipe("mine", CLASSES, SHAPE, **{"mean": 120.0, "std": 64.0, "lr": 0.01, "batch_size": 8, **changes})


def network() -> Any:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(48, CLASSES)
    )


@pytest.mark.parametrize("schedule", ["constant", "cosine", "warm-cosine"])
@pytest.mark.parametrize(
    "optimizer",
    [
        {"optimizer": "adam", "weight_decay": 0.01},
        {"optimizer": "sgd", "nesterov": True, "weight_decay": 0.01},
        {"optimizer": "sgd", "label_smoothing": 0.1},
        {"optimizer": "rmsprop"},
    ],
    ids=lambda parts: "-".join(map(str, parts.values())),
)
def test_steps_that_can_be_recorded_are_the_plain_ones(schedule, optimizer):
    how, cuts, epochs = recipe(schedule=schedule, **optimizer), batches(30, 8), 4
    plain, device = network(), network()
    masks = {"4.weight": torch.rand(CLASSES, 48) < 0.5}
    one = PlainSteps(plain, Scaled.of(BYTES, how, CPU), LABELS, how, masks, len(cuts) * epochs)
    other = DeviceSteps(device, Resident.of(BYTES, how, CPU), LABELS, how, masks, uses(cuts, epochs), record=False)
    before = network().state_dict()
    for _ in range(epochs):
        order = torch.randperm(30)
        one.epoch(order, cuts)
        other.epoch(order, cuts)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(device.state_dict()[name], tensor, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(plain[0].weight, before["0.weight"], atol=1e-3)
    assert not device[4].weight[~masks["4.weight"]].any()


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (BYTES, SHAPE),
        (np.moveaxis(BYTES, -1, 1), SHAPE),
        (BYTES.astype(np.float64), SHAPE),
        (BYTES.reshape(30, 60), (60,)),
        (BYTES[..., :1], (1, 6, 5)),
    ],
    ids=["bytes", "channels first", "doubles", "table", "grey"],
)
def test_samples_scaled_on_the_device_have_the_same_bits(x, shape):
    how = Recipe("mine", CLASSES, shape, mean=120.0, std=64.0)
    chosen = torch.tensor([7, 0, 29, 7])
    resident, scaled = Resident.of(x, how, CPU), Scaled.of(x, how, CPU)
    assert torch.equal(resident.batch(chosen, augmented=False), scaled.batch(chosen, augmented=False))
    assert torch.equal(torch.cat(list(resident.parts(7))), torch.cat(list(scaled.parts(7))))
    assert resident.x.dtype == (torch.uint8 if x.dtype == np.uint8 else torch.float32)
    if len(shape) == 3 and shape[0] > 1:
        laid = resident.laid(torch.channels_last).batch(chosen, augmented=False)
        assert laid.is_contiguous(memory_format=torch.channels_last)


def test_crops_are_shifted_by_at_most_the_border_and_half_are_mirrored():
    torch.manual_seed(0)
    x = torch.rand(400, 6, 5, 2) + 1  # nothing is as dark as the border
    seen = Counter()
    for image, cropped in zip(x, crop_flip_rows(x), strict=True):
        padded = nn.functional.pad(image, (0, 0, PAD, PAD, PAD, PAD))
        matches = [
            (down, across, mirrored)
            for down in range(2 * PAD + 1)
            for across in range(2 * PAD + 1)
            for mirrored in (False, True)
            if torch.equal(cropped, _cut(padded, down, across, mirrored))
        ]
        assert matches
        seen.update(matches[:1])
    assert {down for down, _, _ in seen} == {across for _, across, _ in seen} == set(range(2 * PAD + 1))
    assert 150 < sum(times for (_, _, mirrored), times in seen.items() if mirrored) < 250


def _cut(padded, down, across, mirrored):
    cut = padded[down : down + 6, across : across + 5]
    return cut.flip(1) if mirrored else cut


class Viewing(nn.Module):
    """A network that depends on the memory layout of its input (`view`)."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 4, 3), nn.Linear(48, CLASSES)

    def forward(self, x):
        return self.out(self.conv(x).view(len(x), -1))


class Drawing(Viewing):
    def forward(self, x):
        return super().forward(x) * random.random()


class Counting(Viewing):
    steps = 0

    def forward(self, x):
        self.steps = self.steps + 1
        return super().forward(x) / self.steps


class Uncopied(Viewing):
    def __deepcopy__(self, memo):
        raise RuntimeError("there is one of me")


@pytest.mark.parametrize(
    ("made", "compute", "expected"),
    [
        (network(), "bf16", Habits(channels_last=True, recordable=True)),
        (network(), "fp32", Habits(channels_last=False, recordable=True)),
        (Viewing(), "bf16", Habits(channels_last=False, recordable=True)),
        (Drawing(), "bf16", Habits(channels_last=False, recordable=False)),
        (Counting(), "bf16", Habits(channels_last=False, recordable=False)),
        (Uncopied(), "bf16", Habits(channels_last=False, recordable=False)),
    ],
    ids=["plain", "fp32", "views", "draws", "counts", "uncopied"],
)
def test_what_a_network_bears_is_found_out_on_a_copy(made, compute, expected):
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    state = torch.get_rng_state()
    two = torch.zeros(2, dtype=torch.int64)
    how = recipe(compute=compute)
    assert habits_of(made, Resident.of(BYTES, how, CPU).batch(two, augmented=False), two, how) == expected
    assert all(torch.equal(made.state_dict()[name], tensor) for name, tensor in before.items())
    assert torch.equal(torch.get_rng_state(), state)
    assert getattr(made, "steps", 0) == 0


# Recipes


def test_our_way_of_training_is_bit_exact():
    ways = {"optimizer": "sgd", "nesterov": True, "label_smoothing": 0.1, "schedule": "warm-cosine", "pace": "visits"}
    assert compare(System(gamma=FIXED, rehearsal=2.0), **ways, epochs=3) == []


def test_rehearsed_samples_count_against_the_visits():
    ticks = []
    given = lesson(upload(count=6))
    rehearsing = Lesson(given.segment, given.pieces, 18, lesson(upload("b", count=12)).pieces)
    for pace, each in (("epochs", rehearsing), ("visits", rehearsing), ("visits", given)):
        learner("mlp", epochs=9, pace=pace).train(None, each, b"s" * 32, lambda *seen: ticks.append(seen))
    totals = [total for done, total in ticks if done == total]
    assert totals == [9, 3, 9]
    assert len(ticks) == sum(totals)


@pytest.mark.parametrize("earlier", [0, 1, 3, 500, 4500])
def test_our_recipe_visits_no_more_samples_than_the_papers(earlier):
    new, old = TraceUpload("a", 10, (Part(500),)), TraceUpload("a", 1, (Part(4500),))
    rehearsed = (Piece(old, range(earlier)),) if earlier else ()
    segment = Lesson(SegmentKey(0, 10), (Piece(new, new.positions),), 500 + earlier, rehearsed)
    visits = epochs_of(ours(), segment) * (500 + earlier)
    assert 0.9 * EPOCHS_PER_ROUND * 500 < visits <= EPOCHS_PER_ROUND * 500 == epochs_of(paper(), segment) * 500
    assert earlier <= REHEARSAL * 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compute": "fp8"}, "fp8"),
        ({"pace": "minutes"}, "minutes"),
        ({"label_smoothing": 1.0}, "from 0 to below 1, not 1.0"),
        ({"nesterov": True}, "nesterov is for sgd with momentum, not adam"),
        ({"nesterov": True, "optimizer": "sgd", "momentum": 0.0}, "not sgd with 0.0"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        recipe(**changes)


def test_how_a_gpu_computes_is_part_of_the_recipe_and_a_cpu_does_not_mind():
    one, other = learner("mlp"), learner("mlp", compute="bf16")
    assert one.recipe_digest != other.recipe_digest
    assert one.encode(one.train(None, lesson(upload()), b"s" * 32)) == other.encode(
        other.train(None, lesson(upload()), b"s" * 32)
    )
