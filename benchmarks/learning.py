"""What real training costs: beside a plain loop, with two workers, pruned, stored. Each case in its own process."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.cases import peak_mb
from benchmarks.turns import Pause, Took, Work, by_turns
from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.executors import Processes
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner, batches
from cause.learners.torch.models import factory
from cause.learners.torch.models.resnet34 import resnet

SAMPLES, EPOCHS = 5_000, 10


def resnet20(classes: int, shape: tuple[int, ...]) -> nn.Module:
    """The CIFAR network of 20 layers (0.27 M parameters)."""
    return resnet(classes, shape[0], (3, 3, 3), 16)


def digits(count: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Digits, some of them several times with other noise."""
    from sklearn.datasets import load_digits

    draw = np.random.default_rng(0)
    data = load_digits()
    chosen = draw.integers(len(data.target), size=count)
    x = data.images[chosen] + draw.normal(size=(count, 8, 8))
    return x.astype(np.float32)[:, None], data.target[chosen]


def pictures(count: int, side: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Noise in the shape of colour pictures: time does not depend on what is seen."""
    draw = np.random.default_rng(0)
    return draw.normal(size=(count, 3, side, side)).astype(np.float32), draw.integers(10, size=count)


def plain_loop(recipe: Recipe, x: np.ndarray, y: np.ndarray, pause: Pause) -> None:
    """What one would write by hand for the same recipe."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = factory(recipe.model)(recipe.classes, recipe.shape).train()
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.Adam(network.parameters(), recipe.lr)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(labels))
        for start, stop in batches(len(labels), recipe.batch_size):
            chosen = order[start:stop]
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
            optimizer.step()
        pause()


def learn(recipe: Recipe, x: np.ndarray, y: np.ndarray, pause: Pause) -> None:
    """A device of one shard, made and taught."""
    device = Cause(learner=TorchLearner(recipe), system="sisa", shards=1, memory="1GB", watch=lambda step: pause())
    device.learn({"alice": (x, y)})


CASES: dict[str, tuple[Recipe, Callable[[int], tuple[np.ndarray, np.ndarray]]]] = {
    "digits CNN": (Recipe("cnn", 10, (1, 8, 8), epochs=EPOCHS), digits),
    # 16×16: with larger pictures each step takes longer, and what we add to a step weighs less
    "ResNet-20, 16×16": (Recipe("benchmarks.learning:resnet20", 10, (3, 16, 16), epochs=EPOCHS), pictures),
}


def _ready(train: Callable[..., None], which: str, samples: int) -> Work:
    recipe, data = CASES[which]
    x, y = data(samples)
    train(replace(recipe, epochs=1), x[:128], y[:128], lambda: None)  # what torch loads and chooses at first
    return lambda pause: train(recipe, x, y, pause)


def plain_ready(which: str, samples: int) -> Work:
    """The plain loop, warm."""
    return _ready(plain_loop, which, samples)


def learn_ready(which: str, samples: int) -> Work:
    """Our way, warm."""
    return _ready(learn, which, samples)


def overhead(which: str, samples: str, pairs: str) -> dict[str, Any]:
    """`learn` with one shard beside a plain loop, epoch by epoch in turns; of each turn the quickest of the pairs."""
    count = int(samples)
    found: list[tuple[Took, Took]] = []
    for number in range(int(pairs)):
        told = f"{which}, {count:,} × {EPOCHS}, pair {number + 1} of {pairs}"
        # who begins changes: the second one may find the machine warmer
        sides = (plain_ready, learn_ready) if number % 2 == 0 else (learn_ready, plain_ready)
        took = by_turns(*sides, which, count, what=told)
        found.append(took if number % 2 == 0 else took[::-1])
    plain_s, learn_s = (
        sum(min(turn) for turn in zip(*(each.turns for each in side), strict=True)) for side in zip(*found, strict=True)
    )
    return {
        "case": which, "samples": count, "epochs": EPOCHS, "pairs": len(found), "plain_s": plain_s, "learn_s": learn_s,
        "ratio": learn_s / plain_s, "ratios": [ours.wall_s / plain.wall_s for plain, ours in found],
        "cpu_ratio": statistics.median(ours.cpu_s / plain.cpu_s for plain, ours in found),
    }  # fmt: skip


def workers() -> dict[str, Any]:
    """The same four shards with one worker and with two, by turns, warm."""
    x, y = digits()
    recipe = Recipe("cnn", 10, (1, 8, 8), epochs=EPOCHS)
    uploads = {f"user {shard}": (x[shard::4], y[shard::4]) for shard in range(4)}
    took: dict[int, list[float]] = {1: [], 2: []}
    pools = {count: Processes(count) for count in took}
    for turn in range(4):
        for count, pool in pools.items():
            learner = TorchLearner(recipe)
            device = Cause(learner=learner, system="cause-no-sc:pruning=none", shards=4, memory="1GB", executor=pool)
            took[count].append(timed(partial(device.learn, uploads)))
            if turn == 0:
                took[count].clear()  # the first one starts the workers
    for pool in pools.values():
        pool.close()
    one, two = min(took[1]), min(took[2])
    return {"one_s": one, "two_s": two, "ratio": one / two}


def pruned(count: int = 256) -> dict[str, Any]:
    """An epoch of ResNet-34, dense and with 70 % of its parameters gone."""
    x, y = pictures(count, 32)
    upload = ArrayUpload("alice", 1, x, y)
    lesson = Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), count)
    took = {}
    for pruning in ("none", "iterative"):
        first = TorchLearner(Recipe("resnet34", 10, (3, 32, 32), epochs=2, pruning=pruning, steps=1))
        few = Lesson(SegmentKey(0, 1), (Piece(upload, range(8)),), 8)
        blob = first.encode(first.train(None, few, bytes(32)))
        later = TorchLearner(Recipe("resnet34", 10, (3, 32, 32), epochs=1, pruning=pruning))
        parent = later.decode(blob)
        later.train(parent, few, bytes(32))
        took[pruning] = min(timed(partial(later.train, parent, lesson, bytes(32))) for _ in range(2))
    return {"dense_s": took["none"], "pruned_s": took["iterative"], "ratio": took["none"] / took["iterative"]}


def codec(count: int = 1_000) -> dict[str, Any]:
    """Storing and loading a dense ResNet-34 beside an epoch on 1,000 pictures; and the peak memory of that `learn`."""
    x, y = pictures(count, 32)
    learner = TorchLearner(Recipe("resnet34", 10, (3, 32, 32), epochs=1))
    device = Cause(learner=learner, system="sisa", shards=1, memory="100MB")
    before = peak_mb()
    epoch_s = timed(lambda: device.learn({"alice": (x, y)}))
    peak = peak_mb()
    state = learner.decode(device.memory.shelf.get(SegmentKey(0, 1)))
    blob = learner.encode(state)
    encode_s = min(timed(lambda: learner.encode(state)) for _ in range(3))
    decode_s = min(timed(lambda: learner.decode(blob)) for _ in range(3))
    return {
        "epoch_s": epoch_s, "encode_s": encode_s, "decode_s": decode_s, "ratio": (encode_s + decode_s) / epoch_s,
        "before_mb": before, "peak_mb": peak, "budget_mb": device.memory.budget_bytes / 2**20,
        "stored_mb": len(blob) / 2**20, "samples_mb": x.nbytes / 2**20,
    }  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
