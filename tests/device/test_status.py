"""What a device says of itself, its history as a trace, and its exports."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cause.cli.init import key_of_options
from cause.device.device import Cause
from cause.device.exports import export
from cause.device.status import status
from cause.engine.presets import parse_system
from cause.engine.samples import SegmentKey
from cause.engine.voting import VOTES
from cause.errors import InputError
from cause.lab.home_trace import history
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import parse_trace
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner
from tests.device.homes import CLASSES, bayes, learn, opened, samples
from tests.quick import quick_only


def test_status_tells_who_serves_below_strength_and_since_when(tmp_path):
    device = opened(tmp_path / "home", shards=2, storage="1MB")
    device.home.time.now = lambda: 1_000.0
    learn(device, a=30, b=30)
    learn(device, a=10, b=10)
    before = status(device)
    assert [shard.behind for shard in before.shards] == [0, 0]
    assert (before.round, before.samples, before.voting, before.requests) == (2, 80, 2, ())
    assert (before.storage_budget_bytes, before.repair.trainings) == (2**20, 0)
    device.home.time.now = lambda: 2_000.0
    device.forget("a", rounds=[2], count=4, repair="later")
    now = status(device)
    (hit,) = [shard for shard in now.shards if shard.behind]
    assert (hit.serving, hit.newest, hit.since) == (SegmentKey(hit.shard, 1), SegmentKey(hit.shard, 2), 2_000.0)
    assert (now.repair.rsn, now.samples) == (6, 76)
    (request,) = now.requests
    assert (request.received, request.effective, request.samples) == (2_000.0, 2_000.0, 4)
    assert request.deadline == 2_000.0 + 30 * 86_400
    assert 0 < now.memory_bytes < before.memory_bytes <= now.memory_budget_bytes
    assert now.storage_bytes < before.storage_bytes
    device.repair()
    assert status(device).requests == ()
    assert [shard.since for shard in status(device).shards] == [None, None]
    device.close()


def test_what_never_was_trained_is_no_retraining(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    learn(device, a=30)
    device.forget("a", rounds=[1], count=1, repair="later")
    device.learn({"a": samples("a", 2, 7)}, repair="later")
    cost = status(device).repair
    assert (cost.trainings, cost.samples, cost.rsn) == (2, 36, 29)
    device.close()


def test_status_of_a_device_in_memory_is_refused():
    with pytest.raises(InputError, match="`status` needs a device with a home, and this one is in memory"):
        status(Cause(learner=bayes(), shards=1, slots=4))


def test_reading_the_status_changes_nothing(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=30)
    device.close()
    before = {path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()}
    with Cause(tmp_path / "home", read_only=True) as reader:
        status(reader)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("system", "one_shard_each"),
    [("cause", True), ("cause-no-sc", True), ("sisa", False), ("arcane", False), ("cause-u:policy=cost", False)],
)
def test_the_history_simulated_gives_what_really_happened(tmp_path, system, one_shard_each):
    device = opened(tmp_path / "home", system=system, shards=3, slots=6, seed=5)
    requests = {1: [("b", [1], 4)], 2: [("a", [1], 3), ("a", [1], 2), ("c", None, None)], 3: []}
    rsn = []
    for users in ({"a": 40, "b": 30, "c": 20, "d": 9}, {"a": 5, "c": 11}, {"b": 6, "e": 8}):
        t = learn(device, **users).round
        served = [device.forget(user, rounds=rounds, count=count) for user, rounds, count in requests[t]]
        rsn.append(sum(each.rsn for answers in served for each in answers))
    lines = list(history(device.home).lines())
    assert not any(f'"{user}"' in line for line in lines for user in "abcde")
    trace = parse_trace(lines, partitions=["given"], classes=CLASSES)
    name, parts = parse_system(system)
    given = replace(parts, partition="given")
    simulation = simulate(trace, name, given, Setting(shards=3, slots=6, classes=CLASSES, seed=5))
    assert [tuple(key) for key in simulation.stored] == [tuple(key[:2]) for key in device.memory.stored()]
    assert simulation.rsn_per_round == rsn
    assert sum(rsn) > 0
    assert (trace.requests == 4) is one_shard_each  # elsewhere a request is one for each shard
    device.close()


def test_who_returns_is_another_user_in_the_history(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    learn(device, a=10)
    device.forget("a")
    learn(device, a=5)
    adds = [json.loads(line)["add"]["user"] for line in history(device.home).lines() if '"add"' in line]
    assert adds == ["u1", "u2"]
    device.close()


def network(**parts):
    return TorchLearner(
        "mlp", classes=CLASSES, shape=(6,), epochs=2, options=(("width", 16),), round_to=2, std=2.0, **parts
    )


def test_exported_tensors_answer_as_the_device_does(tmp_path):
    from safetensors.torch import load_file

    device = opened(tmp_path / "home", learner=network(), memory="1MB", slots=None)
    learn(device, a=30, b=20)
    done = export(device, tmp_path / "out", "safetensors")
    card = json.loads((tmp_path / "out" / "ensemble.json").read_text())
    x, probabilities, weights = samples("x", 1, 40)[0], [], []
    for head in card["heads"]:
        state = load_file(tmp_path / "out" / f"{head['name']}.safetensors")
        fresh = network().composed(device.system)
        probabilities.append(fresh.predict(state, x))
        weights.append(head["weight"])
    assert (VOTES[card["vote"]](np.stack(probabilities), np.array(weights)) == device.predict(x)).all()
    assert card["recipe"]["std"] == 2.0
    assert set(done.files) == {path.name for path in (tmp_path / "out").iterdir()}
    device.close()


def test_exported_arrays_answer_as_the_device_does_and_hold_no_pickle(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    device = opened(tmp_path / "home")
    learn(device, a=60, b=50)
    export(device, tmp_path / "out")
    x, probabilities = samples("x", 1, 40)[0], []
    learner = SklearnLearner(GaussianNB(), classes=CLASSES, features=6)
    for path in sorted((tmp_path / "out").glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays:
            probabilities.append(learner.predict(dict(arrays), x))
    assert (VOTES["majority"](np.stack(probabilities), np.ones(len(probabilities))) == device.predict(x)).all()
    device.close()


@pytest.mark.parametrize("vote", quick_only(VOTES, ("weighted-soft",)))
def test_exported_onnx_answers_as_the_device_does(tmp_path, vote):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    device = opened(tmp_path / "home", learner=network(), memory="1MB", slots=None, system=f"frugal:vote={vote}")
    learn(device, a=30, b=20)
    export(device, tmp_path / "out", "onnx")
    session = runtime.InferenceSession(str(tmp_path / "out" / "ensemble.onnx"))
    x = samples("x", 1, 40)[0]
    label, probabilities = session.run(None, {"x": x})
    assert (label == device.predict(x)).all()
    assert probabilities.shape == (2, 40, CLASSES)
    device.close()


def test_an_export_is_recorded_and_a_later_forget_taints_it(tmp_path):
    device = opened(tmp_path / "home", shards=2)
    learn(device, a=30, b=30)
    done = export(device, tmp_path / "out")
    (before,) = status(device).exports
    assert (before.id, before.tainted, set(before.heads)) == (done.id, None, set(done.heads))
    learn(device, a=5)
    device.forget("a", rounds=[2])
    assert status(device).exports[0].tainted is None  # it had not learned round 2
    device.forget("b", rounds=[1], count=1, repair="later")
    assert status(device).exports[0].tainted is not None
    device.close()


def test_a_failed_export_leaves_neither_record_nor_files(tmp_path, monkeypatch):
    device = opened(tmp_path / "home")
    with pytest.raises(Exception, match="nothing to export"):
        export(device, tmp_path / "out")
    learn(device, a=30)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    with pytest.raises(InputError, match="there already"):
        export(device, tmp_path / "taken")
    with pytest.raises(InputError, match="is exported as npz"):
        export(device, tmp_path / "out", "onnx")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(Exception, match="No space left"):
        export(device, tmp_path / "out")
    assert status(device).exports == ()
    assert not (tmp_path / "out").exists()
    device.close()


def test_one_place_names_the_key():
    assert key_of_options(None, None, "tpm2_unseal -c 0x81") == {"command": ["tpm2_unseal", "-c", "0x81"]}
    with pytest.raises(InputError, match="one place"):
        key_of_options(None, "A", "b")
