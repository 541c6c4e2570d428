"""One network, trained on all samples and pruned on the way, or not at all."""

import time
from typing import Any

import numpy as np
import torch

from cause.common.hashing import derive, root_key
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.lab.reproduce.data import Split
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.recipes import scaling
from cause.lab.reproduce.resources import Resources
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.models import factory
from cause.learners.torch.pruning import one_shot
from cause.learners.torch.pruning.iterative import IterativePruner

RATES = {"sgd": 0.05, "adam": 1e-3, "rmsprop": 1e-3}
"""Learning rates by optimizer; the paper's table has none."""


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Train and prune a network; return its accuracy, parameters, bytes and times."""
    data, method = resources.data(settings["dataset"]), settings["method"]
    recipe = Recipe(
        settings["backbone"],
        data.classes,
        data.shape,
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        optimizer=settings["optimizer"],
        lr=RATES[settings["optimizer"]],
        schedule="cosine",
        compute="bf16",
        **scaling(data),
        pruning=method,
        target=settings["rate"] / 100 if settings["rate"] else None,
    )
    learner = TorchLearner(recipe, device=resources.device)
    lesson = lesson_of(data, max(2, round(settings["share"] * len(data.y))))
    started = time.perf_counter()
    state = learner.train(None, lesson, derive(root_key(settings["seed"]), "prune"))
    train_s = time.perf_counter() - started
    blob = learner.encode(state)
    x, y = data.tests(settings["tests"])
    return {
        "accuracy": float((learner.predict(learner.decode(blob), x).argmax(axis=1) == y).mean()),
        "parameters": _parameters(state),
        "bytes": len(blob),
        "train_s": round(train_s, 3),
        "prune_s": None if method == "none" else round(_prune_s(recipe, learner.device), 3),
        "samples": lesson.total,
        "together": resources.together,
        "environment": learner.environment,
    }


def lesson_of(data: Split, samples: int) -> Lesson:
    """Return a lesson of so many samples, always the same."""
    chosen = np.resize(np.random.default_rng(0).permutation(len(data.y)), samples)
    upload = ArrayUpload("anybody", 1, data.x[chosen], data.y[chosen])
    return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), samples)


def _parameters(state: dict[str, torch.Tensor]) -> int:
    """Return the number of weights, without masked ones and without running statistics."""
    masked = sum(int((~mask).sum()) for name, mask in state.items() if name.endswith(one_shot.MASK))
    weights = (t for name, t in state.items() if t.is_floating_point() and "running_" not in name)
    return sum(t.numel() for t in weights) - masked


def _prune_s(recipe: Recipe, device: torch.device) -> float:
    """Return the time that pruning alone takes, on a network of the same kind."""
    network = factory(recipe.model)(recipe.classes, recipe.shape).to(device)
    share = recipe.target or 0.0
    started = time.perf_counter()
    if recipe.pruning == "iterative":
        example = torch.zeros(2, *recipe.shape, device=device)
        IterativePruner(network, example, importance=recipe.importance, round_to=recipe.round_to).prune_to(share)
    else:
        one_shot.apply(network, one_shot.choose(network, share))
    return time.perf_counter() - started
