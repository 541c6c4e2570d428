"""The rules that make the law hold, each with a test of its own; docs/laws.md lists them with all their tests."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cause.common.hashing import derive, root_key
from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.requests import Request
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch import learner as torch_learner
from cause.learners.torch.pruning import one_shot
from tests.exactness.case_runner import build_learner
from tests.exactness.clean import clean_room, mismatches, sub_models_of
from tests.exactness.dimensions import DIMENSIONS, Case, feasible
from tests.exactness.observer import CLASSES, ROUNDS, SHAPE, Observed, picture
from tests.exactness.sequences import SEQUENCES
from tests.exactness.test_training_leaks import SETTING, SYSTEM, learner
from tests.learners.test_torch import lesson
from tests.quick import quick_only


def upload(user: str = "a", round_: int = 1, count: int = 6) -> ArrayUpload:
    pictures = [picture(user, number) for number in range(count)]
    return ArrayUpload(user, round_, np.stack([x for x, _ in pictures]), [y for _, y in pictures])


# Masks


def trained_on_from_a_kept_zero() -> tuple[float, bool]:
    """What becomes of a weight that is zero but kept, and whether the mask is as it was."""
    recipe = replace(learner().recipe, pruning="one-shot", epochs=3)
    trainer = TorchLearner(recipe)
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    name = "5.weight"
    moved = (trainer.train(state, lesson(upload("b")), b"t" * 32)[name] - state[name]).abs()
    at = tuple(np.unravel_index(int(moved.argmax()), moved.shape))  # a kept one that has something to learn
    state[name][at] = 0.0
    later = trainer.train(trainer.decode(trainer.encode(state)), lesson(upload("b")), b"t" * 32)
    mask = later.get(name + one_shot.MASK)
    return float(later[name][at]), mask is not None and torch.equal(mask, state[name + one_shot.MASK])


def test_a_kept_weight_that_became_zero_is_trained_on(monkeypatch):
    weight, same_mask = trained_on_from_a_kept_zero()
    assert weight != 0
    assert same_mask

    def inferred(state, device):
        masked = [] if state is None else [n for n in state if n + one_shot.MASK in state]
        return {name: state[name] != 0 for name in masked}

    monkeypatch.setattr(torch_learner, "masks_of", inferred)
    weight, same_mask = trained_on_from_a_kept_zero()
    assert weight == 0
    assert not same_mask


# A forget never fails because of what remains


LITTLE = [
    (name, pruning, left)
    for name in DIMENSIONS["learner"]
    for pruning in DIMENSIONS["pruning"]
    for left in ("one sample", "one class")
    if feasible({"preset": "frugal", "learner": name, "pruning": pruning})
]


@pytest.mark.parametrize(
    ("name", "pruning", "left"),
    quick_only(LITTLE, [case for case in LITTLE if case[0] == "cnn" or case[1:] == ("none", "one sample")]),
)
def test_a_forget_that_leaves_little_never_fails(name, pruning, left):
    case = Case("frugal", name, "one-old", pruning, "fp32", 0.0, 1, 1, "memory", "same")
    device = Cause(learner=build_learner(case), system=case.system, memory="1MB", **{**SETTING, "shards": 1})
    observed = Observed(device)
    observed.learn({"a": 9})
    labels = {sample: observed.label(sample) for sample in observed.retained}
    common = np.bincount(list(labels.values())).argmax()
    kept = sorted(sample for sample in labels if labels[sample] == common)
    kept = kept[:1] if left == "one sample" else kept
    assert left == "one sample" or len(kept) > 1
    observed.learn({"b": 5})
    to_delete = tuple((round_, position) for user, round_, position in labels if (user, round_, position) not in kept)
    observed.serve(Request("a", samples=to_delete))
    clean = clean_room(build_learner(case), case.system, observed.left(), **{**SETTING, "shards": 1})
    assert mismatches(sub_models_of(device), clean) == []


# Frozen parts


def public_backbone(classes: int, shape: tuple[int, ...]) -> nn.Module:
    """A public network with batch normalisation, frozen, below a head that learns."""
    torch.manual_seed(99)  # "downloaded": the same for everybody
    backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    return nn.Sequential(backbone, nn.Linear(16, classes))


def frozen_apart() -> list[str]:
    """A device with a frozen backbone that forgets, beside its clean room."""
    model = "tests.exactness.test_rules:public_backbone"
    recipe = Recipe(model, CLASSES, SHAPE, epochs=2, batch_size=4, lr=0.01)
    observed = Observed(Cause(learner=TorchLearner(recipe), system=SYSTEM, memory="1MB", **SETTING))
    for counts in ROUNDS:
        observed.learn(counts)
    SEQUENCES["one-old"](observed)
    clean = clean_room(TorchLearner(recipe), SYSTEM, observed.left(), **SETTING)
    return mismatches(sub_models_of(observed.device), clean)


def test_a_frozen_backbone_has_the_clean_rooms_bits(monkeypatch):
    assert frozen_apart() == []
    honest_build, honest_samples = TorchLearner._build, TorchLearner._samples

    def shared(self, state=None) -> Any:
        """One backbone for all segments: its statistics are of all that ever passed."""
        network: Any = honest_build(self, state)
        network[0] = self.__dict__.setdefault("backbone", network[0])
        return network

    def samples(self, x):
        given: Any = honest_samples(self, x)
        self.backbone.train()(given.x)
        self.backbone.eval()
        return given

    monkeypatch.setattr(TorchLearner, "_build", shared)
    monkeypatch.setattr(TorchLearner, "_samples", samples)
    assert any(each.endswith("other bits") for each in frozen_apart())


# Rehearsal


def test_the_rehearsed_are_the_earlier_ones_of_lowest_keyed_hash():
    system = replace(SYSTEM, rehearsal=0.5)
    device = Cause(learner=learner(), system=system, memory="1MB", **{**SETTING, "shards": 1})
    uploads = [upload("a", 1, 9), upload("b", 2, 8), upload("c", 3, 7)]
    for each in uploads:
        device.learn([each])
    device.forget("a", rounds=[1], count=2)
    key = derive(root_key(SETTING["seed"]), "rehearsal")
    for number, (_, lesson_given) in enumerate(device.engine.rehearsal.lessons(device.ledger.lineage(0), None)):
        earlier = [
            (u, int(p)) for u in uploads[:number] for p in u.positions if (u.user, p) not in {("a", 0), ("a", 1)}
        ]
        ranked = sorted(earlier, key=lambda one: int(one[0].hashes(key, range(one[1], one[1] + 1))[0]))
        expected = {(each.user, position) for each, position in ranked[: lesson_given.count // 2]}
        assert {(piece.upload.user, int(p)) for piece in lesson_given.rehearsed for p in piece.positions} == expected
        assert number == 0 or expected


# Who returns


def test_data_uploaded_again_after_an_erasure_is_new_data():
    device = Cause(learner=learner(), system=SYSTEM, memory="1MB", **SETTING)
    device.learn([upload("a", 1), upload("b", 1)])
    device.forget("a")
    device.learn([upload("a", 2)])  # the same pictures
    assert device.ledger.rounds_of("a") == [2]
    assert upload("a", 2).names(range(6)) != upload("a", 1).names(range(6))
    home = device.ledger.placement("a")
    assert device.heads()[home].key.round == 2
    device.forget("a")
    assert device.ledger.placement("a") is None


# The environment


def test_the_environment_of_a_network_is_in_its_identity(monkeypatch):
    def head():
        device = Cause(learner=learner(), system=SYSTEM, memory="1MB", **{**SETTING, "shards": 1})
        device.learn([upload()])
        return device.heads()[0]

    here = head()
    assert head() == here
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "1.0")
        assert head().identity != here.identity
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another ISA")
        assert head().identity != here.identity
