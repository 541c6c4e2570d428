"""Leaks put into training and storage on purpose: without them the comparison passes, with each of them it fails.

Leaks of the engine are in test_engine_leaks.py; docs/laws.md lists all of them.
"""

import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.partition.hash import Hash
from cause.engine.presets import FIXED, System
from cause.engine.training import Training
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch import eager_steps as eager_steps_module
from cause.learners.torch import learner as learner_module
from tests.clean_room import trained_on
from tests.exactness.clean import clean_room, mismatches, sub_models_of, uploads_of
from tests.exactness.observer import CLASSES, ROUNDS, SHAPE, Kept, Observed
from tests.exactness.sequences import SEQUENCES
from tests.folder_shelf import FolderShelf

# what a leak replaces is imported by these modules, and not for others to import from them
torch_learner: Any = learner_module
eager_steps: Any = eager_steps_module

SYSTEM = System(gamma=FIXED, pruning="none", policy="cost")
SETTING: dict[str, Any] = {"shards": 2, "classes": CLASSES, "seed": 7}
Forget = Callable[[Observed], None]
LEARNERS = ("mlp", "tests.exactness.networks:own")


def learner(model: str = "mlp") -> TorchLearner:
    options = (("width", 8),) if model == "mlp" else ()
    return TorchLearner(Recipe(model, CLASSES, SHAPE, options, epochs=2, batch_size=4, lr=0.01))


def forget_some(seen: Observed) -> None:
    for name in ("one-old", "overlapping", "whole-user"):
        SEQUENCES[name](seen)


def wrong(model: str = "mlp", forget: Forget = forget_some, system: System = SYSTEM) -> list[str]:
    """A device after its rounds and some requests, beside a clean room; both have the leak, if there is one."""
    observed = Observed(Cause(learner=learner(model), system=system, memory="1MB", **SETTING))
    for counts in ROUNDS:
        observed.learn(counts)
    forget(observed)
    return mismatches(sub_models_of(observed.device), clean_room(learner(model), system, observed.left(), **SETTING))


def other_bits(found_wrong: list[str]) -> bool:
    return any(each.endswith("other bits") for each in found_wrong)


@pytest.mark.parametrize("model", LEARNERS)
def test_green_without_a_leak(model):
    assert wrong(model) == []


def test_red_when_batches_are_cut_by_position(monkeypatch):
    def order(pieces, key):
        positions = [int(p) for _, held in pieces for p in held]
        return torch.from_numpy(np.argsort([(p % 3) * 1000 + p for p in positions], kind="stable"))

    monkeypatch.setattr(torch_learner, "order", order)
    assert other_bits(wrong(forget=SEQUENCES["one-old"]))


def test_red_when_a_replay_starts_from_the_newest_weights_at_hand(monkeypatch):
    honest = TorchLearner.train

    def train(self, parent, lesson, seed, *tick):
        newest = self.__dict__.setdefault("newest", {})
        state = newest[lesson.segment.shard] = honest(self, newest.get(lesson.segment.shard), lesson, seed, *tick)
        return state

    monkeypatch.setattr(TorchLearner, "train", train)
    assert other_bits(wrong())


# 5: preprocessing


def test_red_when_inputs_are_centred_by_all_that_was_ever_seen(monkeypatch):
    honest, seen = torch_learner.gather, []

    def gather(pieces, shape):
        x, y = honest(pieces, shape)
        seen.append(x)
        return x - np.concatenate(seen).mean(), y

    monkeypatch.setattr(torch_learner, "gather", gather)
    assert other_bits(wrong())


def test_red_when_inputs_are_centred_across_shards(monkeypatch):
    """By what is retained now, everywhere: a shard that was not touched has the mean of before."""
    honest, honest_catch_up, mean = torch_learner.gather, Cause._train, {"": 0.0}

    def catch_up(self, *args, **kwargs):
        pieces = [p for s in self.ledger.shards() for segment in self.ledger.lineage(s) for p in segment.pieces]
        inputs = [upload.arrays(held)[0] for upload, held in pieces]
        mean[""] = float(np.concatenate(inputs).mean()) if inputs else 0.0
        return honest_catch_up(self, *args, **kwargs)

    def gather(pieces, shape):
        x, y = honest(pieces, shape)
        return x - np.float32(mean[""]), y

    monkeypatch.setattr(Cause, "_train", catch_up)
    monkeypatch.setattr(torch_learner, "gather", gather)
    assert other_bits(wrong(forget=SEQUENCES["one-old"]))


def test_red_when_classes_are_numbered_as_they_were_first_met(monkeypatch):
    honest, honest_fit, numbers = torch_learner.gather, TorchLearner._fit, {}

    def fit(self, *args, **kwargs):
        own = numbers.setdefault(id(self), {})  # a device's list of classes, and the clean room's

        def gather(pieces, shape):
            x, y = honest(pieces, shape)
            return x, np.array([own.setdefault(int(label), len(own)) for label in y])

        with monkeypatch.context() as patch:
            patch.setattr(torch_learner, "gather", gather)
            return honest_fit(self, *args, **kwargs)

    monkeypatch.setattr(TorchLearner, "_fit", fit)
    assert other_bits(wrong())


def test_red_when_classes_are_weighted_by_all_that_was_ever_seen(monkeypatch):
    honest, counts = torch_learner.gather, np.ones(CLASSES)
    loss = torch.nn.functional.cross_entropy

    def gather(pieces, shape):
        x, y = honest(pieces, shape)
        counts[:] += np.bincount(y, minlength=CLASSES)
        return x, y

    def weighted(x, y, weight=None, **how):
        return loss(x, y, torch.tensor(1 / counts, dtype=torch.float32), **how)

    monkeypatch.setattr(torch_learner, "gather", gather)
    monkeypatch.setattr(torch.nn.functional, "cross_entropy", weighted)
    assert other_bits(wrong())


# 6: state that outlives a segment


def test_red_when_the_optimizer_outlives_a_segment(monkeypatch):
    honest, last = eager_steps.fresh, []

    def kept(recipe, network, steps):
        optimizer, schedule = honest(recipe, network, steps)
        if last:
            optimizer.load_state_dict(last[-1].state_dict())
        last.append(optimizer)
        return optimizer, schedule

    monkeypatch.setattr(eager_steps, "fresh", kept)
    assert other_bits(wrong())


@pytest.mark.parametrize("generator", ["torch", "numpy", "random"])
def test_red_when_a_generator_is_not_seeded(generator, monkeypatch):
    """A user's module draws from it, once for each training: noise on the inputs."""
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "random": random.getstate(),
    }
    honest_data, honest_seed = torch_learner.gather, torch_learner.seed_all

    def draw() -> float:
        return {"torch": lambda: float(torch.rand(1)), "numpy": np.random.rand, "random": random.random}[generator]()

    def put_back() -> None:
        if generator == "torch":
            torch.set_rng_state(state["torch"])
        elif generator == "numpy":
            np.random.set_state(state["numpy"])
        else:
            random.setstate(state["random"])

    def keep() -> None:
        state.update(torch=torch.get_rng_state(), numpy=np.random.get_state(), random=random.getstate())

    def data(pieces, shape):
        x, y = honest_data(pieces, shape)
        noisy = x + np.float32(draw())
        if leaking:
            keep()
        return noisy, y

    def seed_all(seed):
        honest_seed(seed)
        if leaking:
            put_back()  # this one goes on from where the last training left it

    monkeypatch.setattr(torch_learner, "gather", data)
    monkeypatch.setattr(torch_learner, "seed_all", seed_all)
    keep()
    leaking = False
    assert wrong() == []
    leaking = True
    assert other_bits(wrong())


def test_red_when_all_generators_outlive_a_segment(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch_learner, "seed_all", lambda seed: torch.manual_seed(seeds.append(seed) or len(seeds)))
    assert other_bits(wrong("tests.exactness.networks:own"))


def test_red_when_training_goes_on_from_a_live_object(monkeypatch):
    encode, train, live_states = TorchLearner.encode, TorchLearner.train, {}

    def lossy(self, state):
        return encode(self, {name: t.half() if t.dtype == torch.float32 else t for name, t in state.items()})

    def from_the_live_one(self, parent, lesson, seed, *tick):
        start = None if parent is None else live_states[id(self), lesson.segment.shard]
        state = live_states[id(self), lesson.segment.shard] = train(self, start, lesson, seed, *tick)
        return state

    monkeypatch.setattr(TorchLearner, "encode", lossy)
    forget = SEQUENCES["one-new"]  # replayed from the middle of a chain
    assert wrong(forget=forget) == []  # a lossy codec alone is exact: training starts from what was decoded
    monkeypatch.setattr(TorchLearner, "train", from_the_live_one)
    assert other_bits(wrong(forget=forget))


# 7: identities

CHANGED: dict[str, Any] = {
    "model": "cnn",
    "classes": 5,
    "shape": (1, 2, 8),
    "options": (("width", 9),),
    "epochs": 3,
    "batch_size": 5,
    "optimizer": "sgd",
    "lr": 0.02,
    "momentum": 0.8,
    "weight_decay": 0.1,
    "schedule": "cosine",
    "augmentation": "crop-flip",
    "precision": "bf16",
    "mean": 0.5,
    "std": 2.0,
    "pruning": "one-shot",
    "target": 0.6,
    "steps": 4,
    "importance": "gradient",
    "round_to": 4,
    "nesterov": True,
    "label_smoothing": 0.1,
    "compute": "tf32",
    "pace": "visits",
    "min_steps": 7,
    "class_weights": (1.0, 2.0, 1.0, 1.0),
    "loss": "tests.exactness.test_training_leaks:another_loss",
    "input_dtype": "int64",
}


def another_loss(outputs, labels):
    """A loss that is not ours."""
    return (outputs.logsumexp(1) - outputs.gather(1, labels[:, None])[:, 0]).square().mean()


def identities(recipe: Recipe) -> set[bytes]:
    """The identities of the heads that a recipe leads to."""
    pruning = "one-shot-70" if recipe.pruning == "one-shot" else "none"
    system = replace(SYSTEM, precision=recipe.precision, pruning=pruning)
    setting = {**SETTING, "classes": recipe.classes}
    device = Cause(learner=TorchLearner(recipe), system=system, memory="10MB", **setting)
    device.learn([ArrayUpload("a", 1, np.ones((2, *SHAPE), dtype=np.float32), [0, 1])])
    return {head.identity for head in device.heads().values()}


WEIGHTS: dict[str, Any] = {"init": "weights.safetensors", "init_sha256": "a" * 64}
PUBLIC_WEIGHTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "init": ({}, WEIGHTS),
    "init_sha256": (WEIGHTS, {**WEIGHTS, "init_sha256": "b" * 64}),
    "freeze": ({}, {"freeze": ("0",)}),
}


@pytest.mark.parametrize("name", [field.name for field in fields(Recipe)])
def test_red_when_identities_do_not_know_a_hyper_parameter(name, monkeypatch):
    one = learner().recipe
    if name in PUBLIC_WEIGHTS:  # `tests/learners/test_public_weights.py` trains with them
        first, second = (replace(one, **changes) for changes in PUBLIC_WEIGHTS[name])
        assert first.digest != second.digest
        return
    if name == "nesterov":
        one = replace(one, optimizer="sgd")
    other = replace(one, **{name: CHANGED[name]})
    if name == "input_dtype":  # this network cannot be given whole numbers
        assert one.digest != other.digest
        return
    assert identities(one) == identities(one)
    assert not identities(one) & identities(other)
    if name not in ("model", "classes", "shape", "options"):  # those change the network, which is named too
        honest = vars(Recipe)["digest"].fget
        monkeypatch.setattr(Recipe, "digest", property(lambda self: honest(replace(self, **{name: CHANGED[name]}))))
        assert identities(one) & identities(other)  # and so the line above would have been red


# 8: what stays on disk


def left_over(folder: Path, forget: Forget = forget_some) -> list[str]:
    """Files in a device's folder that are not of sub-models that it should have."""
    device = Cause(learner=learner(), system=SYSTEM, memory="1MB", shelf=FolderShelf(folder), **SETTING)
    observed = Observed(device)
    for counts in ROUNDS:
        observed.learn(counts)
    forget(observed)
    clean = clean_room(learner(), SYSTEM, observed.left(), **SETTING)
    own = {f"{key.shard}-{key.round}-{key.slice}.sub" for key in clean}
    return sorted(path.name for path in folder.rglob("*") if path.name not in own)


def test_red_when_a_tainted_file_stays_in_the_folder(tmp_path, monkeypatch):
    forget = SEQUENCES["last-of-a-shard"]
    assert left_over(tmp_path / "green", forget) == []
    monkeypatch.setattr(FolderShelf, "destroy", lambda self, key: None)
    assert left_over(tmp_path / "red", forget)


def test_red_when_a_temporary_file_stays_in_the_folder(tmp_path, monkeypatch):
    honest = FolderShelf.put

    def put(self, key, blob):
        honest(self, key, blob)
        (self.folder / f"{key.shard}-{key.round}.tmp").write_bytes(blob)

    assert left_over(tmp_path / "green") == []
    monkeypatch.setattr(FolderShelf, "put", put)
    assert left_over(tmp_path / "red")


# 9: interrupted, and taken up again


def interrupted(fails_at: int) -> tuple[Cause, list[list[Kept]]]:
    """A device whose power went at a training and which repaired that, and what is left."""
    trainer, calls = learner(), []
    honest = trainer.train

    def train(*args):
        calls.append(args)
        if len(calls) == fails_at:
            raise OSError("power")
        return honest(*args)

    trainer.train = train
    device = Cause(learner=trainer, system=SYSTEM, memory="1MB", **SETTING)
    observed = Observed(device)
    taken_up = 0
    for method in ("learn", "serve"):  # after an interruption both repair first
        honest_method = getattr(device, method)

        def repairing(given, honest_method=honest_method, **how):
            nonlocal taken_up
            try:
                honest_method(given, **how)
            except OSError:
                taken_up += 1
                device.repair()

        setattr(device, method, repairing)
    for counts in ROUNDS:
        observed.learn(counts)
    SEQUENCES["one-old"](observed)
    assert taken_up == 1
    return device, observed.left()


@pytest.mark.parametrize("fails_at", [1, 3, 4, 7, 8])
def test_red_when_it_is_taken_up_again_one_segment_too_late(fails_at, monkeypatch):
    device, left = interrupted(fails_at)
    assert mismatches(sub_models_of(device), clean_room(learner(), SYSTEM, left, **SETTING)) == []
    honest_repair, honest_behind = Cause.repair, Training.behind
    done = set()  # a mark of how far it came, set before the training instead of after it

    def repair(self):
        done.add(
            next(
                segment.key
                for shard in self.ledger.shards()
                for segment, _ in honest_behind(self.engine.training, shard)
            )
        )
        return honest_repair(self)

    def behind(self, shard):
        return [(segment, lesson) for segment, lesson in honest_behind(self, shard) if segment.key not in done]

    with monkeypatch.context() as patch:
        patch.setattr(Cause, "repair", repair)
        patch.setattr(Training, "behind", behind)
        device, left = interrupted(fails_at)
    assert mismatches(sub_models_of(device), clean_room(learner(), SYSTEM, left, **SETTING))


# 10: the partition


def wrong_from_scratch() -> list[str]:
    """Beside a clean room that partitions by itself."""
    system = replace(SYSTEM, partition="hash")
    observed = Observed(Cause(learner=learner(), system=system, memory="1MB", **SETTING))
    for counts in ROUNDS:
        observed.learn(counts)
    SEQUENCES["whole-user"](observed)
    clean = trained_on(uploads_of(observed.left()), learner(), replace(system, policy="unlimited"), **SETTING)
    return mismatches(sub_models_of(observed.device), sub_models_of(clean))


def test_red_when_shards_depend_on_forgotten_users(monkeypatch):
    assert wrong_from_scratch() == []
    honest = Hash.assign

    def assign(self, arrivals):
        seen = self.__dict__.setdefault("seen", set())
        seen |= set(arrivals.uploads)
        return {user: (shard + len(seen)) % arrivals.shards for user, shard in honest(self, arrivals).items()}

    monkeypatch.setattr(Hash, "assign", assign)
    assert wrong_from_scratch()
