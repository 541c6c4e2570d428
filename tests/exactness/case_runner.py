"""Where a case's device, learner and clean room come from, and the processes that the cases share."""

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

from sklearn import linear_model, naive_bayes

from cause.device.device import Cause
from cause.engine.executor import Executor
from cause.engine.learner import Learner
from cause.executors import Processes
from cause.learners.additive import AdditiveLearner
from cause.learners.recipe import Recipe
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner
from tests.exactness.cached_training import Remembered
from tests.exactness.clean import SubModels, clean_room
from tests.exactness.dimensions import ADDING, TORCH, Case
from tests.exactness.observer import CLASSES, ROUNDS, SHAPE, Kept, Observed
from tests.folder_shelf import FolderShelf

SHARDS, SLOTS, SEED = 2, 4, 7
remembered = Remembered()
"""Of the clean rooms of this process; the device's workers are other processes."""


class OneSlotEach(TorchLearner):
    """Headers weigh more than the weights of networks as small as these: here each sub-model counts as one slot."""

    def stored_bytes(self, blob: bytes) -> int:
        return self.sub_model_bytes


def build_learner(case: Case) -> Learner:
    """Return a new learner at each call."""
    if case.learner in TORCH:
        model, options = TORCH[case.learner]
        # pruning comes before the second epoch; without it a second one is the first again with other seeds
        epochs = 1 if case.pruning == "none" else 2
        # sgd where there are many small tensors: Adam spends as long on them as the network does
        optimizer = "adam" if case.learner in ("mlp", "own-dropout") else "sgd"
        recipe = Recipe(model, CLASSES, SHAPE, options, epochs, 8, optimizer, lr=0.01, round_to=1, steps=1)
        return OneSlotEach(recipe.composed(case.system))
    if case.learner in ADDING:
        return AdditiveLearner(shape=SHAPE, scale=(0, 2), classes=CLASSES, **ADDING[case.learner])
    family = getattr(linear_model, case.learner, None) or getattr(naive_bayes, case.learner)
    return SklearnLearner(family(), classes=CLASSES, features=16, epochs=2)


def shards_of(case: Case) -> int:
    """One sum has no shards."""
    return 1 if case.learner in ADDING else SHARDS


def recipe_in_words(case: Case) -> str:
    """Everything besides data, parent and seed on which a trained sub-model depends: what the cache tells apart."""
    system = case.system
    return f"{case.learner} {system.pruning} {system.precision} {system.min_steps} {system.estimators} " + str(
        build_learner(case).recipe
    )


def build_clean_room(case: Case, rounds: Sequence[Sequence[Kept]]) -> SubModels:
    """The clean room of a case, in whichever process this is called."""
    learner = build_learner(case)
    remembered.recipe = recipe_in_words(case)
    setting = {"shards": shards_of(case), "classes": CLASSES, "seed": SEED}
    return clean_room(learner, case.system, rounds, **setting, executor=remembered)


class Workshop:
    """Worker processes and the clean room's own process stay warm: starting one costs as much as many trainings."""

    def __init__(self) -> None:
        self._executors: dict[int, Executor] = {workers: Processes(workers) for workers in (1, 2)}
        self._another = multiprocessing.get_context("spawn").Pool(1)  # a daemon: it ends with this process

    def close(self) -> None:
        """End them."""
        self._another.terminate()
        self._another.join()
        for executor in self._executors.values():
            executor.close()

    def device(self, case: Case, folder: Path) -> Observed:
        """A device that has learned the rounds, as many workers and such storage as the case says."""
        device = Cause(
            learner=build_learner(case),
            system=case.system,
            shards=shards_of(case),
            slots=SLOTS,
            classes=CLASSES,
            seed=SEED,
            executor=self._executors[case.workers],
            shelf=FolderShelf(folder) if case.storage == "disk" else None,
        )
        observed = Observed(device)
        for counts in ROUNDS:
            observed.learn(counts)
        return observed

    def clean_room(self, case: Case, rounds: Sequence[Sequence[Kept]]) -> SubModels:
        """Every sub-model of the clean room, run where the case says."""
        if case.process == "same":
            return build_clean_room(case, rounds)
        return self._another.apply(build_clean_room, (case, rounds))
