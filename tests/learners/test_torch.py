"""Real training, bit for bit: after forgetting, every sub-model is the clean room's."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from torch import nn

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload, TraceData
from cause.engine.presets import FIXED, PRESETS, System
from cause.engine.requests import Request
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.errors import InputError, LearnerError
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import Add, Round, Trace
from cause.learners.recipe import Recipe
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner, batches
from tests.clean_room import clean_room, differences, live
from tests.executors.torch_worker_learners import with_frozen_backbone
from tests.quick import quick_only

CLASSES, SHAPE = 4, (1, 8, 8)


def image(user: str, round_: int, position: int) -> tuple[np.ndarray, int]:
    """Return the small picture of a sample, the same at each call."""
    draw = np.random.default_rng(abs(hash((len(user), ord(user[-1]), round_, position))) % 2**32)
    label = int(draw.integers(CLASSES))
    picture = draw.normal(size=SHAPE).astype(np.float32)
    picture[:, label * 2 : label * 2 + 2] += 2
    return picture, label


def with_data(upload) -> TraceData:
    pairs = [image(upload.user, upload.round, int(p)) for p in upload.positions]
    return TraceData(upload, np.stack([x for x, _ in pairs]), [y for _, y in pairs])


def add(user, count):
    return Add(user, Part(count, None))


SCENE = Trace(
    [
        Round(1, [add("a", 6), add("b", 5), add("c", 1)]),
        Round(2, [add("a", 3), add("c", 7)], [Request("a", (1,), 2)]),
        Round(3, [add("b", 9)], [Request("c", (1,)), Request("b", (1,), 3)]),
        Round(4, [add("a", 4), add("d", 5)], [Request("a", (1,)), Request("b", (3,), 8), Request("d")]),
        Round(5, [add("d", 1)], [Request("c", (2,), 6)]),
    ]
)


def learner(model="cnn", **changes) -> TorchLearner:
    options: dict[str, Any] = {
        "cnn": (("width", 4),),
        "mlp": (("width", 8),),
        "resnet34": (("width", 2),),
        "vgg16": (("width", 2),),
    }
    options |= {"mobilenetv2": (("width", 0.1),), "densenet121": (("growth", 2),)}
    settings = {"epochs": 2, "batch_size": 4, "options": options.get(model, ()), **changes}
    return TorchLearner(Recipe(model, CLASSES, SHAPE, **settings))


def unpruned(system: System, precision="fp32") -> System:
    """Networks this small have little to lose; pruning has tests of its own."""
    return replace(system, pruning="none", precision=precision)


def compare(system: System, **changes) -> list[str]:
    system = unpruned(system, changes.get("precision", "fp32"))
    fits = {"slots": 12, "data": with_data}
    room = live(SCENE, system, shards=2, learner=learner(**changes), **fits)
    return differences(room.device, clean_room(room, SCENE, system, learner=learner(**changes), **fits))


# tests/exactness/test_pairwise.py has every preset and every kind of network, small, in the quick suite
@pytest.mark.parametrize("name", quick_only(PRESETS, ("cause", "sisa", "arcane", "frugal", "cause-printed")))
def test_every_preset_is_bit_exact(name):
    assert compare(PRESETS[name]) == []


@pytest.mark.parametrize(
    "model", quick_only(["mlp", "resnet34", "vgg16", "mobilenetv2", "densenet121"], ("mlp", "resnet34", "vgg16"))
)
def test_every_network_is_bit_exact(model):
    assert compare(System(gamma=FIXED, policy="unlimited"), model=model, epochs=1) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "sgd", "schedule": "one-cycle", "lr": 0.05},
        {"optimizer": "rmsprop", "schedule": "cosine", "weight_decay": 0.01},
        {"augmentation": "crop-flip"},
        {"precision": "bf16"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_way_of_training_is_bit_exact(changes):
    assert compare(System(gamma=FIXED, slices=2, rehearsal=0.5, requests="coalesced"), **changes) == []


def test_hash_is_exact_from_scratch():
    system, fits = unpruned(System(partition="hash")), {"slots": 12, "data": with_data}
    room = live(SCENE, system, shards=3, learner=learner(), **fits)
    assert differences(room.device, clean_room(room, SCENE, system, given=False, learner=learner(), **fits)) == []


def test_the_simulators_rsn_is_that_of_the_real_run():
    for name in PRESETS:
        if PRESETS[name].partition != "by-class" and name != "additive":  # which is of learners that add up
            room = live(SCENE, unpruned(PRESETS[name]), shards=2, slots=5, learner=CountedSizes(), data=with_data)
            assert simulate(SCENE, name, PRESETS[name], Setting(shards=2, slots=5)).rsn_per_round == room.rsn_per_round


class CountedSizes(TorchLearner):
    """A real learner whose sub-models count as one slot each, whatever they compress to."""

    def __init__(self):
        super().__init__(Recipe("mlp", CLASSES, SHAPE, epochs=1, options=(("width", 2),)))

    def stored_bytes(self, blob):
        return self.sub_model_bytes


# Red when the law is broken


def test_red_when_one_sample_differs():
    def corrupted(upload):
        data = with_data(upload)
        if (upload.user, upload.round) == ("c", 2):
            data._x[-1, 0, 0, 0] += 1e-3
        return data

    system = unpruned(System(gamma=FIXED))
    room = live(SCENE, system, shards=2, slots=12, learner=learner(), data=with_data)
    clean = clean_room(room, SCENE, system, learner=learner(), slots=12, data=corrupted)
    assert any("other bytes" in each for each in differences(room.device, clean))


# The rules


def lesson(*uploads):
    pieces = tuple(Piece(upload, upload.positions) for upload in uploads)
    return Lesson(SegmentKey(0, 1), pieces, sum(len(p.positions) for p in pieces))


def upload(user="a", round_=1, count=9):
    pairs = [image(user, round_, p) for p in range(count)]
    return ArrayUpload(user, round_, np.stack([x for x, _ in pairs]), [y for _, y in pairs])


def same(a, b) -> bool:
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


def test_training_is_a_pure_function_of_what_it_is_given():
    one = learner().train(None, lesson(upload()), b"s" * 32)
    torch.rand(5)
    random.random()
    again = learner().train(None, lesson(upload()), b"s" * 32)
    assert same(one, again)
    assert not same(one, learner().train(None, lesson(upload()), b"t" * 32))


def test_the_callers_generators_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1), np.random.get_state(legacy=False)["state"]["key"][0], random.getstate()
    torch.manual_seed(3)
    learner().train(None, lesson(upload()), b"s" * 32)
    assert torch.equal(torch.rand(1), expected[0])
    assert np.random.get_state(legacy=False)["state"]["key"][0] == expected[1]
    assert random.getstate() == expected[2]


def test_dropout_and_initialisation_in_a_users_module_are_seeded():
    def make(classes, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, classes))

    recipe = Recipe("mine", CLASSES, SHAPE, epochs=3, batch_size=4)
    one, two = (TorchLearner(recipe, make=make).train(None, lesson(upload()), b"s" * 32) for _ in range(2))
    assert same(one, two)


def test_the_order_in_which_samples_arrive_does_not_matter():
    mixed = upload()
    x, y = mixed.arrays(mixed.positions)
    turned = ArrayUpload("a", 1, x[::-1], y[::-1])
    assert same(learner().train(None, lesson(mixed), b"s" * 32), learner().train(None, lesson(turned), b"s" * 32))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_batches_and_segments_of_one_are_trained(count):
    state = learner("cnn").train(None, lesson(upload(count=count)), b"s" * 32)
    assert all(torch.isfinite(t).all() for t in state.values())
    assert all(stop - start > 1 or count == 1 for start, stop in batches(count, 4))


def test_a_segment_of_one_leaves_batch_statistics_as_they_were():
    trainer = learner("cnn")
    parent = trainer.train(None, lesson(upload()), b"s" * 32)
    child = trainer.train(parent, lesson(upload(count=1)), b"t" * 32)
    assert torch.equal(parent["1.running_mean"], child["1.running_mean"])
    assert not torch.equal(parent["0.weight"], child["0.weight"])


def frozen_backbone(classes, shape):
    torch.manual_seed(99)  # "downloaded": the same for everybody
    backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    return nn.Sequential(backbone, nn.Linear(144, classes))


def test_a_frozen_backbone_is_neither_changed_nor_stored():
    trainer = TorchLearner(Recipe("frozen", CLASSES, SHAPE, epochs=2, batch_size=4), make=frozen_backbone)
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    assert set(state) == {"1.weight", "1.bias"}
    assert trainer.sub_model_bytes == 4 * (144 * 4 + 4)
    before = trainer._frozen["0.1.running_mean"].clone()
    trainer.train(state, lesson(upload("b")), b"t" * 32)
    assert torch.equal(trainer._frozen["0.1.running_mean"], before)
    assert trainer.predict(state, upload().arrays(range(3))[0]).shape == (3, CLASSES)


def test_a_first_segment_learns_on_the_frozen_parts_that_will_serve():
    built = []

    def make(classes, shape):  # initialised at random: by a module of the user's that downloads nothing
        built.append(with_frozen_backbone(classes, shape))
        return built[-1]

    trainer = TorchLearner(Recipe("frozen", CLASSES, SHAPE, epochs=1, batch_size=4), make=make)
    trainer.train(None, lesson(upload()), b"s" * 32)
    trained, served = built[-1][0][1].weight, trainer._frozen["0.1.weight"]
    assert torch.equal(trained, served)


def test_a_frozen_batch_norm_neither_learns_nor_looks_at_the_batch():
    built = []

    def make(classes, shape):
        built.append(frozen_backbone(classes, shape))
        return built[-1]

    trainer = TorchLearner(Recipe("frozen", CLASSES, SHAPE, epochs=2, batch_size=4), make=make)
    trainer.train(None, lesson(upload()), b"s" * 32)
    norm = built[-1][0][1]
    assert not norm.training
    assert not norm.running_mean.any()  # as it was made
    assert built[-1][1].training


def test_bf16_rounds_as_part_of_training_so_that_storing_loses_nothing():
    trainer = learner(precision="bf16")
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    again = trainer.decode(trainer.encode(state))
    assert all(torch.equal(state[name].float(), again[name].float()) for name in state)
    assert trainer.sub_model_bytes < 0.6 * learner().sub_model_bytes


def test_identities_know_recipe_and_network():
    digests = {learner().recipe_digest, learner(lr=0.1).recipe_digest, learner("mlp").recipe_digest}
    digests.add(TorchLearner(Recipe("frozen", CLASSES, SHAPE), make=frozen_backbone).recipe_digest)
    assert len(digests) == 4
    assert learner().recipe_digest == learner().recipe_digest


def test_the_callers_inputs_are_left_alone():
    trainer = learner(mean=3.0, std=2.0)
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    x = upload().arrays(range(4))[0]
    before = x.copy()
    first = trainer.predict(state, x)
    assert (x == before).all()
    assert (trainer.predict(state, x) == first).all()


def test_it_learns():
    device = Cause(learner=learner(epochs=15, lr=0.01, batch_size=16), system="sisa", shards=2, slots=12)
    for t in (1, 2):
        device.learn([upload(user, t, 40) for user in "abcd"])
    x, y = upload("z", 9, 80).arrays(range(80))
    assert (device.predict(x) == y).mean() > 0.9


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 8, 8)), [0], "one label for each input"),
        (np.zeros((0, 8, 8)), [], "is empty"),
        (np.array([["a"]]), [0], "must be numbers"),
        (np.full((1, 8, 8), np.nan), [0], "must be finite"),
        (np.full((1, 8, 8), np.inf), [0], "must be finite"),
        (np.zeros((1, 8, 8)), [0.5], "whole numbers"),
        (np.zeros((1, 8, 8)), [-1], "start from 0"),
        (np.zeros((1, 8, 8)), np.array([2**63], np.uint64), r"below 2\^63, not 9223372036854775808 \(row 0\)"),
    ],
)
def test_bad_data_is_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        ArrayUpload("a", 1, x, y)


@pytest.mark.parametrize("kind", ["array", "trace"])
def test_what_the_caller_does_to_their_arrays_later_changes_nothing(kind):
    x, y = upload().arrays(range(9))
    made = ArrayUpload("a", 1, x, y) if kind == "array" else TraceData(TraceUpload("a", 1, (Part(9),)), x, y)
    before = made.arrays(range(9))[0].copy()
    x[:] = 0
    assert (made.arrays(range(9))[0] == before).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"b": (np.zeros((1, 8, 8)), [9])}, "label 9 of user 'b', but there are 4 classes"),
        ({"b": (np.zeros((1, 3, 3)), [0])}, "inputs of user 'b' of shape .* do not fit the recipe"),
        ({"b": (np.full((1, 8, 8), np.nan), [0])}, "inputs of user 'b' must be finite"),
        ({"b": (np.zeros((2, 8, 8)), [0])}, "one label for each input"),
        ({"b": (np.zeros((0, 8, 8)), [])}, "the upload of user 'b' is empty"),
        ({"": (np.zeros((1, 8, 8)), [0])}, "a user id"),
        ({"b" * 257: (np.zeros((1, 8, 8)), [0])}, "a user id"),
        ({7: (np.zeros((1, 8, 8)), [0])}, "a user id"),
        ({"\ud800": (np.zeros((1, 8, 8)), [0])}, "a user id"),
    ],
)
@pytest.mark.parametrize("kind", ["torch", "sklearn"])
def test_bad_input_is_refused_and_nothing_has_changed(kind, bad, message):
    trainer = learner("mlp") if kind == "torch" else SklearnLearner(GaussianNB(), classes=CLASSES, features=64)
    if kind == "sklearn":
        message = message.replace("of shape .* do not fit the recipe", "have 9 features, not 64")
    device, twin = (Cause(learner=trainer, system=unpruned(System()), shards=2, slots=9) for _ in range(2))
    good = {"a": (np.ones((3, 8, 8)), [0, 1, 2])}
    device.learn(good)
    with pytest.raises(InputError, match=message):
        device.learn({"a": (np.zeros((1, 8, 8)), [0]), **bad})
    for each in (device, twin):
        each.learn(good)
    twin.learn(good)
    assert device.ledger.round == twin.ledger.round == 2
    assert differences(device, twin) == []


def test_a_device_and_its_learner_agree_on_the_classes_and_on_pruning():
    assert Cause(learner=learner("mlp"), system="sisa", slots=9).classes == CLASSES
    with pytest.raises(InputError, match="10 classes, but its learner tells 4 apart"):
        Cause(learner=learner("mlp"), system="sisa", slots=9, classes=10)
    with pytest.raises(InputError, match="the recipe's pruning is 'iterative', but the system's is 'none'"):
        Cause(learner=learner("mlp", pruning="iterative"), system="sisa", slots=9)
    pruned = Cause(learner=learner("mlp"), system="omp-95", slots=9).learner.recipe
    assert (pruned.pruning, pruned.target, pruned.precision) == ("one-shot", 0.95, "fp32")
    with pytest.warns(UserWarning, match="trained whole"):  # so narrow that no filter may go
        assert Cause(learner=learner("mlp"), system="frugal", slots=9).learner.recipe.precision == "bf16"


def test_a_learner_is_made_from_a_name_a_path_or_a_function():
    for model in ("mlp", "tests.executors.torch_worker_learners:with_frozen_backbone", with_frozen_backbone):
        assert TorchLearner(model, classes=4, shape=SHAPE, epochs=3).recipe.epochs == 3
    assert TorchLearner("resnet34", classes=10).recipe.shape == (3, 32, 32)
    with pytest.raises(InputError, match="a cnn takes pictures of any size: say the shape"):
        TorchLearner("cnn", classes=10)
    with pytest.raises(InputError, match="epoch"):
        TorchLearner("mlp", classes=4, epoch=3)
    with pytest.raises(InputError, match="cannot train on 'tpu9'"):
        learner().__class__("mlp", classes=4, shape=(6,), device="tpu9")
    with pytest.raises(InputError, match="an mlp is for tables: say how many numbers an input has"):
        TorchLearner("mlp", classes=4)


def test_a_stored_sub_model_that_does_not_fit_or_is_damaged_is_refused():
    trainer = learner("cnn")
    blob = trainer.encode(trainer.train(None, lesson(upload()), b"s" * 32))
    with pytest.raises(LearnerError, match="does not fit the recipe"):
        learner("mlp").train(trainer.decode(blob), lesson(upload()), b"s" * 32)
    for at in range(0, len(blob), 97):
        damaged = bytearray(blob)
        damaged[at] ^= 1
        with pytest.raises(LearnerError):
            trainer.decode(bytes(damaged))
    with pytest.raises(LearnerError):
        trainer.decode(blob[:100])


def test_of_identical_samples_the_highest_ordinal_goes_first():
    x = np.zeros((3, 8, 8), dtype=np.float32)
    for named in range(3):
        system = unpruned(System(partition="hash", gamma=FIXED))
        device = Cause(learner=learner("mlp"), system=system, shards=2, slots=9)
        device.learn([ArrayUpload("a", 1, x, [1, 1, 1]), upload("b")])
        device.forget("a", samples=[(1, named)])
        clean = Cause(learner=learner("mlp"), system=system, shards=2, slots=9)
        clean.learn([ArrayUpload("a", 1, x[:2], [1, 1]), upload("b")])
        assert differences(device, clean) == []
