"""The commands on a home with an additive learner."""

from pathlib import Path

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.fsck import examine_home
from tests.cli.test_device import cause, place, refused, upload
from tests.device.homes import CLASSES, FEATURES, samples
from tests.learners.additive.cases import state_of
from tests.learners.additive.test_backbones import exported

__all__ = ["cause", "place", "refused"]
ADDITIVE = ["--learner", "additive", "--features", FEATURES, "--scale=-3,3", "--classes", CLASSES]


def test_a_home_learns_forgets_predicts_and_verifies(cause):
    cause("init", "home", *ADDITIVE, "--expand", 32, "--squash")
    cause("learn", "home", upload("r1.npz", 1, alice=40, bob=30))
    cause("learn", "home", upload("r2.npz", 2, alice=10))
    plan = cause("forget", "home", "--user", "alice", "--rounds", 1, "--plan", "--json")
    assert plan["rsn"] == 0
    done = cause("forget", "home", "--user", "alice", "--rounds", 1, "--json")
    assert done["rsn"] == 0
    status = cause("status", "home", "--json")
    assert (status["samples"], status["repair"]["trainings"], status["voting"]) == (40, 0, 1)
    expected = status["expected_accuracy"]
    assert (expected["samples"], expected["held"], expected["method"]) == (40, 40, "leave-one-out")
    assert expected["accuracy"] == cause("accuracy", "home", "--json")["accuracy"]
    assert "leave-one-out on 40 samples" in " ".join(cause("status", "home").split())
    verified = cause("verify", "--home", "home", "--json")
    assert (verified["sub_models"], verified["mismatched"]) == (1, 0)
    np.savez("test.npz", x=samples("t", 1, 20)[0], y=samples("t", 1, 20)[1])
    assert cause("predict", "home", "test.npz", "--json")["samples"] == 20
    estimate = cause("accuracy", "home", "--json")
    assert (estimate["samples"], 0 <= estimate["accuracy"] <= 1) == (40, True)
    assert "without themselves" in cause("accuracy", "home")
    assert "is whole" in cause("doctor", "--home", "home")


def test_the_printed_configuration_makes_the_same_home(cause):
    scale = "--scale=" + ",".join(["-3"] * FEATURES) + ";" + ",".join(["4"] * FEATURES)
    first = cause("init", "one", *ADDITIVE[:4], scale, "--classes", CLASSES, "--json")
    Path("device.toml").write_text(cause("config", "one"))
    second = cause("init", "two", "--config", "device.toml", "--json")
    assert {**second, "home": "one", "key": first["key"]} == first


def test_a_scale_comes_from_public_rows(cause, refused):
    x = np.arange(101)[:, None] * np.arange(1, FEATURES + 1) + np.arange(FEATURES)  # other units in each column
    np.savez("public.npz", x=x.astype(float), y=np.zeros(101, dtype=int))
    public = ["--learner", "additive", "--features", FEATURES, "--classes", CLASSES, "--scale-from", "public.npz"]
    low, high = cause("init", "home", *public, "--json")["learner"]["scale"]
    assert np.allclose(low, np.arange(1, FEATURES + 1) + np.arange(FEATURES))
    assert np.allclose(high, 99 * np.arange(1, FEATURES + 1) + np.arange(FEATURES))
    Path("public.npz").unlink()  # the home has the numbers, not the file
    cause("learn", "home", upload("r1.npz", 1, alice=4))
    assert "give one of them" in refused("init", "two", *public, "--scale=0,1")
    np.savez("short.npz", x=x[:, 1:].astype(float), y=np.zeros(101, dtype=int))
    assert f"there are {FEATURES} features" in refused("init", "two", *public[:-1], "short.npz")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--learner", "magic"], "--learner is additive"),
        (["--bits", 8, "--model", "cnn"], "--bits is for --learner additive"),
        ([*ADDITIVE, "--epochs", 3], "--epochs is not for an additive learner"),
        ([*ADDITIVE, "--shards", 4], "shards must be 1"),
        ([*ADDITIVE[:4], "--scale", "5"], "--scale is LOW,HIGH"),
        ([*ADDITIVE, "--bits", 9], "8, 12 or 16"),
        ([*ADDITIVE, "--backbone", "no-such"], "no-such"),
    ],
)
def test_wrong_options_are_one_line(refused, args, message):
    assert message in refused("init", "home", *args)
    assert not Path("home").exists()


def test_a_network_starts_from_converted_public_weights(cause, refused):
    torch = pytest.importorskip("torch")
    from cause.learners.torch.models import factory

    torch.save(factory("mlp")(5, (FEATURES,), width=8).state_dict(), "public.pth")
    network = ["--model", "mlp", "--features", FEATURES, "--classes", CLASSES, "--width", 8, "--epochs", 1]
    assert "cause backbone convert public.pth" in refused("init", "home", *network, "--init", "public.pth")
    made = cause("backbone", "convert", "public.pth", "public.safetensors", "--json")
    home = cause("init", "home", *network, "--init", "public.safetensors", "--freeze", "1", "--json")
    assert home["learner"]["init_sha256"] == made["sha256"]
    assert home["learner"]["freeze"] == ["1"]
    assert "no layer 'stem'" in refused("init", "other", *network, "--freeze", "stem")
    Path("public.safetensors").unlink()
    assert "cannot be read" in refused("learn", "home", upload("r1.npz", 1, alice=40))


@pytest.mark.parametrize("harm", ["another file", "no file"])
def test_a_home_forgets_and_verifies_without_its_backbone(cause, refused, harm):
    """Stored features are subtracted: an erasure needs no backbone. New inputs do, and lose nothing."""
    exported(Path("linear.onnx"))
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 12))
    np.savez("data.npz", x=x, y=(x[:, 0] > 0).astype(int), users=np.array(["ann", "bob", "cem"] * 20))
    for home in ("home", "beside"):
        cause("init", home, "--learner", "additive", "--backbone", "linear.onnx", "--classes", 2, "--json")
        cause("learn", home, "data.npz", "--json")
    backbone = Path("linear.onnx").read_bytes()
    cause("forget", "beside", "--user", "ann", "--json")
    if harm == "no file":
        Path("linear.onnx").unlink()
    else:
        exported(Path("linear.onnx"), seed=1)
    message = {"no file": "cannot be read", "another file": "has the digest"}[harm]
    assert cause("forget", "home", "--user", "ann", "--json")["rsn"] == 0
    assert cause("verify", "--home", "home", "--json")["identical"] == 1
    assert cause("accuracy", "home", "--json")["samples"] == 40
    health = examine_home("home")
    assert health.problems == []
    assert not any("could not be added up" in note for note in health.notes)
    refused(message, "learn", "home", "data.npz")
    refused(message, "predict", "home", "data.npz")
    assert cause("status", "home", "--json")["samples"] == 40
    Path("linear.onnx").write_bytes(backbone)
    answers = [cause("predict", home, "data.npz", "--json") for home in ("home", "beside")]
    assert answers[0] == answers[1]
    with Cause("home") as device, Cause("beside") as beside:
        assert state_of(device) == state_of(beside)
