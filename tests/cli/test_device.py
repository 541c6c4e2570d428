"""The commands of a device, for real, and what they refuse."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cause.cli import main
from cause.cli.homes import format_duration, format_time, key_of, opened
from cause.device.device import Cause
from cause.device.energy.model import EnergyModel, Line
from cause.errors import LearnerError
from tests.device.homes import CLASSES, FEATURES, MASTER, samples

BAYES = ["--estimator", "GaussianNB", "--features", FEATURES, "--classes", CLASSES]
SMALL = ["--system", "frugal", "--shards", 2, "--slots", 8, *BAYES]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    return tmp_path


@pytest.fixture
def cause(capsys):
    """Run a command that must succeed, and return its output, parsed if it is JSON."""

    def run(*args, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (code, ""), err
        return json.loads(out) if "--json" in args else out

    return run


@pytest.fixture
def refused(capsys):
    """Run a command that must fail: the one line that it prints."""

    def run(*args):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, ""), out
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return run


def upload(path, round_, **counts):
    """An npz file with several users."""
    parts = {user: samples(user, round_, count) for user, count in counts.items()}
    np.savez(
        path,
        x=np.concatenate([x for x, _ in parts.values()]),
        y=np.concatenate([y for _, y in parts.values()]),
        users=np.concatenate([[user] * len(y) for user, (_, y) in parts.items()]),
    )
    return path


@pytest.fixture
def device(cause):
    """A home with two rounds of three users."""
    cause("init", "home", *SMALL, "--key-env", "CAUSE_TEST_KEY")
    cause("learn", "home", upload("r1.npz", 1, alice=40, bob=30, carol=20))
    cause("learn", "home", upload("r2.npz", 2, alice=10, bob=12))
    np.savez("test.npz", x=samples("t", 1, 50)[0], y=samples("t", 1, 50)[1])
    return Path("home")


def contents(folder):
    """All bytes of a home, besides what SQLite puts beside a ledger for its readers."""
    files = {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    return {path: data for path, data in files.items() if not path.name.endswith("-shm") and data}


def test_init_shows_what_is_in_force_and_config_shows_it_again(cause):
    result = cause("init", "home", *SMALL, "--storage", "1MB", "--repair", "later", "--deadline", 7, "--json")
    assert result["device"] == {
        "system": "frugal", "shards": 2, "memory": "2GB", "slots": 8, "classes": CLASSES, "seed": 0, "storage": "1MB",
        "retain": None, "repair": "later", "deadline_days": 7.0, "workers": 0, "input_shape": None, "input_dtype": None,
    }  # fmt: skip
    assert result["key"] == {"file": "../home.key"}
    assert Path("home.key").stat().st_mode & 0o077 == 0
    assert cause("config", "home", "--json") == result
    assert "# retain is not set" in cause("config", "home")


@pytest.mark.parametrize("key", [["--key-env", "CAUSE_TEST_KEY"], []], ids=["variable", "file"])
def test_what_config_prints_makes_the_same_home(cause, key):
    first = cause("init", "one", *SMALL, *key, "--json")
    Path("device.toml").write_text(cause("config", "one"))
    second = cause("init", "two", "--config", "device.toml", "--json")
    assert {**second, "home": "one"} == first


@pytest.mark.parametrize("source", ["file", "env", "command"])
def test_the_master_key_comes_from_where_it_was_said(cause, refused, monkeypatch, source):
    Path("master.hex").write_text(MASTER)
    option = {
        "file": ["--key-file", "master.hex"],
        "env": ["--key-env", "CAUSE_TEST_KEY"],
        "command": ["--key-command", f"cat {Path('master.hex').resolve()}"],
    }[source]
    cause("init", "home", *SMALL, *option)
    cause("learn", "home", upload("r1.npz", 1, alice=40))
    Path("master.hex").write_text("22" * 32)
    monkeypatch.setenv("CAUSE_TEST_KEY", "22" * 32)
    assert "master key does not open" in refused("status", "home")


def test_a_network_learns_and_answers(cause):
    cause(
        "init", "home", "--model", "mlp", "--shape", FEATURES, "--classes", CLASSES, "--epochs", 2, "--shards", 2,
        "--memory", "1MB", "--width", 64, "--std", 2, "--lr", 0.01,
    )  # fmt: skip
    cause("learn", "home", upload("r1.npz", 1, alice=40, bob=30))
    np.savez("x.npz", x=samples("t", 1, 9)[0])
    assert len(cause("predict", "home", "x.npz").split()) == 9
    result = cause("export", "home", "--out", "served", "--json")
    assert sorted(result["files"]) == ["ensemble.json", *(f"shard-{k[0]}.safetensors" for k in sorted(result["heads"]))]


def test_a_network_is_tried_before_its_home_is_made_and_a_note_names_what_cannot_be_pruned(cause, refused, monkeypatch):
    Path("nets.py").write_text(
        "from torch import nn\n"
        "def narrow(classes, shape):\n    return nn.Sequential(nn.Flatten(), nn.Linear(6, classes))\n"
        "def broken(classes, shape):\n    return nn.Sequential(nn.Linear(5, classes))\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    options = ["--shape", FEATURES, "--classes", CLASSES, "--memory", "1MB"]
    assert "layer '0' does not fit" in refused("init", "home", "--system", "cause", "--model", "nets:broken", *options)
    assert "fails on inputs of shape (6,)" in refused(
        "init", "home", "--system", "sisa", "--model", "nets:broken", *options
    )
    assert not Path("home").exists()
    assert not Path("home.key").exists()
    note = "no layer of this network can lose filters: it is trained whole"
    assert note in cause("init", "home", "--system", "cause", "--model", "nets:narrow", *options)
    assert note in cause("status", "home")
    assert note in cause("status", "home", "--json")["notes"][0]


@pytest.mark.usefixtures("one_process_trial")
def test_a_file_is_refused_before_the_learner_is_loaded_and_a_module_that_is_not_found_is_explained(
    cause, refused, monkeypatch
):
    Path("late.py").write_text(
        "from torch import nn\ndef net(classes, shape):\n    return nn.Sequential(nn.Linear(6, classes))\n"
    )
    options = ["--model", "late:net", "--shape", FEATURES, "--classes", CLASSES]
    assert "the current folder, which is searched with PYTHONPATH=." in refused("init", "home", *options)
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(Path.cwd()))
        cause("init", "home", *options)
        del sys.modules["late"]
    Path("late.py").unlink()
    np.savez("nan.npz", x=np.full((1, 6), np.nan), y=[0], users=["a"])
    assert "holds nan" in refused("learn", "home", "nan.npz")
    assert "cannot find the model 'late:net'" in refused("learn", "home", upload("r1.npz", 1, alice=4))


def test_learn_says_how_many_samples_retention_deleted(cause):
    cause("init", "home", *SMALL, "--key-env", "CAUSE_TEST_KEY", "--retain", "1 rounds")
    assert cause("learn", "home", upload("r1.npz", 1, alice=40), "--json")["expired"] == 0
    assert "note: 40 samples were deleted: they were older" in cause("learn", "home", upload("r2.npz", 2, bob=10))
    assert cause("learn", "home", upload("r3.npz", 3, bob=10), "--json")["expired"] == 10


def test_status_says_how_many_shards_take_new_data(cause):
    cause("init", "home", *SMALL, "--shards", "4", "--slots", "8", "--system", "cause", "--key-env", "CAUSE_TEST_KEY")
    assert "3 of 4 shards (the shard controller" in cause("status", "home")
    status = cause("status", "home", "--json")
    assert (status["active_shards"], status["most_shards"]) == (3, 4)


@pytest.mark.usefixtures("one_process_trial")
def test_init_takes_class_weights_a_loss_and_numbers_for_each_channel(cause, refused, monkeypatch):
    Path("losses.py").write_text("def mine(outputs, labels):\n    return outputs.logsumexp(1).mean()\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    options = ["--model", "mlp", "--features", 2, "--classes", 3, "--memory", "1MB", "--epochs", 1]
    result = cause("init", "one", *options, "--class-weights", "1,1,4", "--mean", "1,2", "--std", "2", "--json")
    assert {"class_weights": [1, 1, 4], "mean": [1, 2], "std": 2, "shape": [2]}.items() <= result["learner"].items()
    result = cause("init", "two", *options, "--loss", "losses:mine", "--network-dtype", "float32", "--json")
    assert {"loss": "losses:mine", "input_dtype": "float32"}.items() <= result["learner"].items()
    np.savez("r.npz", x=np.ones((6, 2), np.float32), y=np.arange(6) % 3, users=np.array(["a", "b"] * 3))
    for home in ("one", "two"):
        cause("learn", home, "r.npz")
        with Cause(home) as device:
            assert device.verify(processes=0).holds
    assert "--mean takes numbers" in refused("init", "home", *options, "--mean", "a")
    assert "1 class weights, but there are 3 classes" in refused("init", "home", *options, "--class-weights", "1")


def test_a_network_without_a_usual_shape_needs_to_know_its_inputs(refused):
    assert "--model mlp needs to know an input: --features 64" in refused("init", "home", "--model", "mlp")
    assert "--model cnn needs to know an input: --shape 1,8,8" in refused("init", "home", "--model", "cnn")
    assert "--model a.b:c needs to know an input" in refused("init", "home", "--model", "a.b:c")
    Path("cnn.toml").write_text('[learner]\nkind = "torch"\nmodel = "cnn"\nclasses = 3\n')
    assert "say the shape of one, channels first" in refused("init", "home", "--config", "cnn.toml")


def test_labels_of_a_file_may_be_booleans(cause):
    cause("init", "home", "--estimator", "GaussianNB", "--features", 2, "--classes", 2, "--shards", 1, "--slots", 4)
    np.savez("b.npz", x=np.arange(8.0).reshape(4, 2), y=np.array([True, False, True, True]), users=["a"] * 4)
    cause("learn", "home", "b.npz")
    with Cause("home") as device:
        assert sorted(sample.label for sample in device.samples_of("a")) == [0, 1, 1, 1]


def test_learn_reads_npz_tables_and_folders_of_pictures(cause):
    from PIL import Image

    cause("init", "home", "--estimator", "GaussianNB", "--features", 16, "--classes", 3, "--shards", 1, "--slots", 4)
    draw = np.random.default_rng(0)
    for user in ("u1", "u2"):
        for label in ("0", "2"):
            Path("pictures", user, label).mkdir(parents=True)
            for number in range(3):
                pixels = draw.integers(256, size=(4, 4)).astype(np.uint8)
                Image.fromarray(pixels).save(Path("pictures", user, label, f"{number}.png"))
    result = cause("learn", "home", "pictures", "--json")
    assert (result["users"], result["samples"], result["round"]) == (2, 12, 1)
    header = ",".join(["label", "user", *(f"p{i}" for i in range(16))])
    rows = [",".join(["1", user, *map(str, draw.random(16))]) for user in ("u1", "u3", "u3")]
    Path("t.csv").write_text("\n".join([header, *rows]))
    assert cause("learn", "home", "t.csv", "--json")["users"] == 2
    np.savez("mine.npz", x=draw.random((4, 16), dtype=np.float32), y=[0, 1, 2, 0])
    assert cause("learn", "home", "mine.npz", "--user", "u9", "--json")["samples"] == 4
    with Cause("home", read_only=True) as device:
        assert device.ledger.rounds_of("u1") == [1, 2]
        assert device.ledger.rounds_of("u9") == [3]


def test_folders_named_otherwise_than_by_numbers_need_class_names(cause, refused):
    from PIL import Image

    cause("init", "home", "--estimator", "GaussianNB", "--features", 16, "--classes", 2, "--shards", 1, "--slots", 4)
    for name in ("cat", "dog"):
        Path("pictures", "u1", name).mkdir(parents=True)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(Path("pictures", "u1", name, "a.png"))
    assert "--class-names" in refused("learn", "home", "pictures")
    assert "1 classes are named, but the device has 2" in refused("learn", "home", "pictures", "--class-names", "cat")
    cause("learn", "home", "pictures", "--class-names", "dog,cat")
    with Cause("home", read_only=True) as device:
        assert sorted(device.ledger.lineage(0).after(None)[0].pieces[0].upload.labels(range(2)).tolist()) == [0, 1]


def test_one_users_files_are_one_upload_and_must_be_alike(cause, refused, device):
    np.savez("a.npz", x=samples("a", 1, 5)[0], y=samples("a", 1, 5)[1])
    np.savez("b.npz", x=samples("b", 1, 6)[0], y=samples("b", 1, 6)[1])
    np.savez("wide.npz", x=np.zeros((2, 9), np.float32), y=[0, 1])
    assert "must be alike" in refused("learn", "home", "a.npz", "wide.npz", "--user", "dave")
    result = cause("learn", "home", "a.npz", "b.npz", "--user", "dave", "--json")
    assert (result["users"], result["samples"]) == (1, 11)


def test_a_plan_changes_nothing_and_the_forget_does_what_it_said(cause, device):
    before = contents("home")
    plan = cause("forget", "home", "--user", "alice", "--rounds", 1, "--count", 5, "--plan", "--json")
    assert contents("home") == before
    assert "nothing was changed" in cause("forget", "home", "--user", "alice", "--plan")
    done = cause("forget", "home", "--user", "alice", "--rounds", 1, "--count", 5, "--json")
    same = ("samples", "shards", "destroyed", "rsn")
    assert {name: done[name] for name in same} == {name: plan[name] for name in same}
    assert (done["samples"], done["waiting"]) == (5, [])


def test_a_plan_tells_seconds_and_joules_from_a_calibration(cause, device):
    EnergyModel("nb", "RAPL", Line(0.5, 0.0, 1.0, 0.0), Line(0.25, 0.0, 1.0, 0.0)).save("energy.json")
    args = ["forget", "home", "--user", "carol", "--plan", "--calibration", "energy.json"]
    plan = cause(*args, "--json")
    assert plan["rsn"] > 0
    assert (plan["seconds"], plan["joules"]) == (plan["rsn"] / 4, plan["rsn"] / 2)
    assert "Retraining: about" in cause(*args)


def test_forget_takes_rounds_and_samples(cause, device):
    assert cause("forget", "home", "--user", "alice", "--samples", "1:0,2:3", "--json")["samples"] == 2
    assert cause("forget", "home", "--user", "bob", "--rounds", "1,2", "--json")["samples"] == 42
    with Cause("home", read_only=True) as reader:
        assert reader.ledger.rounds_of("bob") == []


def test_forget_later_falls_back_and_repair_ends_where_forget_now_does(cause, device):
    cause("backup", "home", "copy.tar")
    result = cause("forget", "home", "--user", "alice", "--rounds", 1, "--repair", "later", "--json")
    assert (result["rsn"], len(result["waiting"])) == (0, 1)
    state = cause("status", "home", "--json")
    assert [shard["behind"] for shard in state["shards"] if shard["shard"] in result["waiting"]] != [0]
    assert [request["id"] for request in state["requests"]] == [result["request"]]
    assert "Requests that wait" in cause("status", "home")
    assert len(cause("predict", "home", "test.npz").split()) == 50
    assert "nothing done: no deadline is nearer" in cause("repair", "home", "--when", "deadline")
    done = cause("repair", "home", "--when", "deadline", "--margin", "40d", "--json")
    assert (done["begun"], done["waiting"]) == (True, [])
    assert cause("status", "home", "--json")["requests"] == []


def test_a_repair_can_wait_for_an_idle_machine(cause, device, monkeypatch):
    cause("forget", "home", "--user", "alice", "--rounds", 1, "--repair", "later")
    monkeypatch.setattr(os, "getloadavg", lambda: (999.0, 0.0, 0.0))
    assert cause("repair", "home", "--when", "idle", "--json")["begun"] is False
    assert "not idle" in cause("repair", "home", "--when", "idle")
    done = cause("repair", "home", "--when", "idle", "--margin", "40d", "--json")
    assert (done["begun"], done["waiting"]) == (True, []), "a deadline beats idleness"
    cause("forget", "home", "--user", "bob", "--rounds", 1, "--count", 1, "--repair", "later")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert cause("repair", "home", "--when", "idle", "--json")["waiting"] == []


def test_a_repair_keeps_to_its_budget_and_says_what_is_left(cause, device):
    cause("forget", "home", "--user", "alice", "--rounds", 1, "--count", 1, "--repair", "later")
    EnergyModel("nb", "RAPL", Line(0.0, 10.0, 1.0, 0.0), Line(0.0, 60.0, 1.0, 0.0)).save("energy.json")
    budget = ["repair", "home", "--calibration", "energy.json"]
    assert cause(*budget, "--within", "59s", "--json")["trained"] == 0
    assert "still wait" in cause(*budget, "--within", "59s")
    from cause.device.energy import find_meter

    if find_meter("cpu").unavailable is not None:  # then the calibration counts
        done = cause(*budget, "--energy", "15J", "--json")
        assert (done["trained"], done["joules"], len(done["waiting"])) == (1, 10.0, 1)
    assert "nothing waits" in cause("repair", "home", "--within", "10m")


def test_an_energy_budget_without_a_meter_is_refused_plainly(refused, device):
    from cause.device.energy import find_meter

    if find_meter("cpu").unavailable is None:
        pytest.skip("this machine has a meter")
    assert "there is no meter (" in refused("repair", "home", "--energy", "500J")
    EnergyModel("nb", "none", None, Line(1.0, 0.0, 1.0, 0.0), unavailable="no meter there").save("energy.json")
    line = refused("repair", "home", "--energy", "500J", "--calibration", "energy.json")
    assert "the calibration has none (no meter there)" in line


def test_the_homes_own_way_of_repairing_is_the_default(cause):
    cause("init", "home", *SMALL, "--repair", "later")
    cause("learn", "home", upload("r1.npz", 1, alice=40, bob=30))
    assert cause("forget", "home", "--user", "alice", "--count", 3, "--rounds", 1, "--json")["waiting"]
    assert cause("learn", "home", upload("r2.npz", 2, alice=4), "--json")["waiting"]
    assert cause("learn", "home", upload("r3.npz", 3, alice=4), "--repair", "now", "--json")["waiting"] == []


def test_predict_and_evaluate_agree(cause, device):
    x, y = samples("t", 1, 50)
    labels = cause("predict", "home", "test.npz", "--json")["labels"]
    result = cause("evaluate", "home", "test.npz", "--json")
    assert result["accuracy"] == np.mean(np.array(labels) == y)
    assert sum(each["samples"] for each in result["classes"].values()) == 50
    assert len(result["heads"]) == 2
    assert "Each head alone" in cause("evaluate", "home", "test.npz")
    cause("predict", "home", "test.npz", "--out", "labels.csv")
    assert Path("labels.csv").read_text().split() == ["label", *map(str, labels)]
    Path("x.csv").write_text("\n".join([",".join("abcdef"), *(",".join(map(repr, row)) for row in x.tolist())]))
    assert cause("predict", "home", "x.csv", "--json")["labels"] == labels


def test_status_is_a_table_or_the_whole_record(cause, device):
    cause("export", "home", "--out", "served")
    cause("forget", "home", "--user", "alice", "--rounds", 1, "--count", 1)
    EnergyModel("nb", "RAPL", Line(0.5, 0.0, 1.0, 0.0), Line(0.25, 0.0, 1.0, 0.0)).save("energy.json")
    result = cause("status", "home", "--calibration", "energy.json", "--json")
    assert (result["round"], result["voting"], result["samples"]) == (2, 2, 111)
    assert result["exports"][0]["tainted"] is not None
    text = cause("status", "home")
    assert "tainted since" in text
    assert "up to date" in text


def test_a_trace_of_the_home_can_be_simulated(cause, device, monkeypatch):
    cause("forget", "home", "--user", "alice", "--rounds", 1, "--count", 5)
    lines = cause("trace", "home")
    assert "alice" not in lines
    assert cause("trace", "home", "--out", "t.jsonl", "--json") == {
        "file": "t.jsonl", "rounds": 2, "samples": 112, "requests": 1,
    }  # fmt: skip
    assert Path("t.jsonl").read_text() == lines
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    result = cause("simulate", "--trace", "-", "--system", "frugal", "--partition", "given", "--slots", 8, "--json")
    with Cause("home", read_only=True) as reader:
        assert result["stored"] == [list(key[:2]) for key in reader.memory.stored()]


def test_backup_and_restore_by_command(cause, device, monkeypatch):
    result = cause("backup", "home", "b.tar", "--json")
    assert (result["file"], result["round"], result["bytes"]) == ("b.tar", 2, Path("b.tar").stat().st_size)
    before = cause("predict", "home", "test.npz")
    for path in Path("home/blocks").iterdir():
        path.unlink()
    assert "way out: `cause restore`" in cause("doctor", "--home", "home", code=1)
    assert cause("doctor", "--home", "home", "--json", code=1)["healthy"] is False
    result = cause("restore", "b.tar", "home", "--json")
    assert (result["ledger"], result["lost"]["samples"]) == ("live", 0)
    assert cause("doctor", "--home", "home", "--json")["healthy"] is True
    assert "is whole" in cause("doctor", "--home", "home")
    assert cause("predict", "home", "test.npz") == before
    cause("forget", "home", "--user", "carol")
    for path in Path("home").glob("ledger.db*"):
        path.unlink()
    assert "left out: 20 samples" in cause("restore", "b.tar", "home")
    with Cause("home", read_only=True) as reader:
        assert reader.ledger.rounds_of("carol") == []


def test_readers_work_while_another_process_holds_the_home(cause, refused, device):
    with Cause("home"):
        assert f"in use by process {os.getpid()}" in refused("learn", "home", "r1.npz")
        assert f"in use by process {os.getpid()}" in refused("forget", "home", "--user", "alice")
        assert f"in use by process {os.getpid()}" in refused("export", "home", "--out", "served")
        cause("status", "home", "--json")
        cause("predict", "home", "test.npz")
        cause("trace", "home")
        cause("backup", "home", "b.tar")
        cause("doctor", "--home", "home")


def test_a_damaged_head_does_not_keep_readers_from_answering(cause, device):
    with Cause("home", read_only=True) as reader:
        name = reader.home.shelf.names[reader.memory.stored()[-1]]
    path = Path("home/sub-models") / name.hex()
    path.write_bytes(path.read_bytes()[:-1])
    before = contents("home")
    assert len(cause("predict", "home", "test.npz").split()) == 50
    assert contents("home") == before
    assert cause("doctor", "--home", "home", "--json", code=1)["problems"][0]["remedy"].startswith("`cause repair`")


def bad_inputs(refused, cases, device=True):
    """Each is refused with its words, and the home is as before."""
    before = contents("home") if device else None
    for args, message in cases:
        line = refused(*args)
        assert message in line, (args, line)
        if device:
            assert contents("home") == before, args


def test_bad_homes_are_refused_by_every_command(refused):
    Path("photos").mkdir()
    Path("photos/me.jpg").touch()
    np.savez("r.npz", x=np.zeros((2, 6)), y=[0, 1])
    for home in ("photos", "nowhere", "photos/me.jpg"):
        for command in (
            ["config", home], ["learn", home, "r.npz", "--user", "a"], ["forget", home, "--user", "a"],
            ["forget", home, "--user", "a", "--plan"], ["repair", home], ["predict", home, "r.npz"],
            ["evaluate", home, "r.npz"], ["status", home], ["export", home, "--out", "e"], ["trace", home],
            ["backup", home, "b.tar"], ["doctor", "--home", home], ["restore", "r.npz", home],
        ):  # fmt: skip
            line = refused(*command)
            assert "is not a home" in line or "r.npz" in line, (command, line)
    assert sorted(path.name for path in Path().iterdir()) == ["photos", "r.npz"]
    assert [path.name for path in Path("photos").iterdir()] == ["me.jpg"]


def test_bad_data_is_refused_and_the_home_is_as_before(refused, device):
    np.savez("nobody.npz", x=np.zeros((2, 6), np.float32), y=[0, 1])
    np.savez("label.npz", x=np.zeros((2, 6), np.float32), y=[0, CLASSES], users=["a", "a"])
    np.savez("shape.npz", x=np.zeros((2, 7), np.float32), y=[0, 1], users=["a", "a"])
    np.savez("nan.npz", x=np.full((2, 6), np.nan, np.float32), y=[0, 1], users=["a", "a"])
    np.savez("noy.npz", x=np.zeros((2, 6), np.float32))
    np.savez("user.npz", x=np.zeros((1, 6), np.float32), y=[0], users=["x" * 300])
    np.savez("object.npz", x=np.array([{}], dtype=object), y=[0], allow_pickle=True)
    Path("bad.csv").write_text("label,a\n1,x\n")
    Path("ragged.csv").write_text("a,b\n1\n")
    Path("what.bin").write_bytes(b"\x80\x04what")
    bad_inputs(refused, [
        (["learn", "home", "none.npz"], "there is no such file"),
        (["learn", "home", "nobody.npz"], "say it with --user"),
        (["learn", "home", "r1.npz", "--user", "x"], "leave out --user"),
        (["learn", "home", "label.npz"], f"row 1 (user 'a') has label {CLASSES}, but there are"),
        (["learn", "home", "shape.npz"], "have 7 features, not 6"),
        (["learn", "home", "nan.npz"], "row 0 (user 'a') holds nan: inputs must be finite"),
        (["learn", "home", "noy.npz"], "no 'y'"),
        (["learn", "home", "user.npz"], "1 to 256 characters"),
        (["learn", "home", "object.npz"], "object.npz"),
        (["learn", "home", "bad.csv", "--user", "a"], "numbers and a whole number"),
        (["learn", "home", "what.bin"], "none of the known formats"),
        (["learn", "home", "r1.npz", "--split", "half"], "unknown split 'half'"),
        (["learn", "home", "r1.npz", "--repair", "never"], "unknown repair 'never'"),
        (["learn", "home", "r1.npz", "none.npz"], "there is no such file"),
        (["learn", "home"], "Missing argument"),
        (["predict", "home", "none.npz"], "there is no such file"),
        (["predict", "home", "shape.npz"], "7 features, not 6"),
        (["predict", "home", "nan.npz"], "must be finite"),
        (["predict", "home", "ragged.csv"], "1 values, but 2 columns"),
        (["predict", "home", "test.npz", "--out", "/dev/null/x"], "is not a directory"),
        (["evaluate", "home", "noy.npz"], "no 'y'"),
    ])  # fmt: skip


def test_bad_requests_are_refused_and_the_home_is_as_before(refused, device):
    Path("bad.json").write_text("{}")
    bad_inputs(refused, [
        (["forget", "home", "--user", "zoe"], "unknown user 'zoe'"),
        (["forget", "home", "--user", "alice", "--rounds", "9"], "nothing retained of round 9"),
        (["forget", "home", "--user", "alice", "--rounds", "one"], "--rounds takes whole numbers"),
        (["forget", "home", "--user", "alice", "--rounds", "1,2", "--count", "5"], "exactly one round"),
        (["forget", "home", "--user", "alice", "--count", "5"], "exactly one round"),
        (["forget", "home", "--user", "alice", "--rounds", "1", "--count", "0"], "at least one sample"),
        (["forget", "home", "--user", "alice", "--rounds", "1", "--count", "41"], "has 40 samples of round 1"),
        (["forget", "home", "--user", "alice", "--samples", "1"], "--samples takes round:position"),
        (["forget", "home", "--user", "alice", "--samples", "1:99"], "no retained sample 99"),
        (["forget", "home", "--user", "alice", "--samples", "1:0", "--rounds", "1"], "either samples or rounds"),
        (["forget", "home", "--user", "zoe", "--plan"], "unknown user 'zoe'"),
        (["forget", "home", "--user", "alice", "--plan", "--repair", "later"], "leave one out"),
        (["forget", "home", "--user", "alice", "--calibration", "bad.json"], "is for --plan"),
        (["forget", "home", "--user", "alice", "--plan", "--calibration", "bad.json"], "not an energy model"),
        (["forget", "home"], "Missing option"),
        (["repair", "home", "--within", "soon"], "not a duration"),
        (["repair", "home", "--energy", "much"], "not an energy"),
        (["repair", "home", "--when", "never"], "unknown when 'never'"),
        (["repair", "home", "--when", "deadline", "--margin", "x"], "not a duration"),
        (["repair", "home", "--when", "idle", "--threshold", "0"], "load above 0"),
        (["repair", "home", "--calibration", "none.json"], "cannot read"),
        (["export", "home", "--out", "home"], "there already"),
        (["export", "home", "--out", "e", "--form", "pickle"], "unknown form 'pickle'"),
        (["export", "home", "--out", "e", "--form", "onnx"], "is exported as npz"),
        (["trace", "home", "--json"], "give --out too"),
        (["trace", "home", "--out", "/"], "it is a directory"),
        (["backup", "home", "home/b.tar"], "inside the home"),
        (["backup", "home", "bad.json"], "there already"),
        (["backup", "home", "/dev/null/b.tar"], "is not a directory"),
        (["restore", "none.tar", "home"], "cannot read the backup"),
        (["restore", "bad.json", "home"], "not a backup"),
        (["restore", "r1.npz", "home"], "not a backup"),
        (["status", "home", "--calibration", "none.json"], "cannot read"),
    ])  # fmt: skip
    assert not Path("e").exists()


def test_bad_configurations_are_refused_and_leave_nothing_behind(refused):
    Path("bad.toml").write_text("[device\n")
    Path("unknown.toml").write_text("[device]\nshard = 2\n")
    Path("nothing.toml").write_text("[device]\nshards = 2\n")
    Path("model.toml").write_text('[learner]\nkind = "torch"\nmodel = "mlp"\nshape = 6\nclasses = 4\n')
    Path("kind.toml").write_text('[learner]\nkind = "magic"\n')
    Path("keys.toml").write_text('[key]\nenv = "A"\nfile = "b"\n[learner]\nkind = "sklearn"\n')
    Path("full").mkdir()
    Path("full/x").touch()
    Path("short.key").write_text("abc")
    before = sorted(path.name for path in Path().iterdir())
    bad_inputs(refused, [
        (["init", "home"], "say what learns"),
        (["init", "full", *SMALL], "is not empty"),
        (["init", "home", "--config", "none.toml"], "cannot read"),
        (["init", "home", "--config", "bad.toml"], "not TOML"),
        (["init", "home", "--config", "unknown.toml"], "has no 'shard'"),
        (["init", "home", "--config", "nothing.toml"], "no table [learner]"),
        (["init", "home", "--config", "model.toml"], "not a learner"),
        (["init", "home", "--config", "kind.toml"], "kind is one of"),
        (["init", "home", "--config", "keys.toml"], "[key] names one of"),
        (["init", "home", "--config", "bad.toml", "--shards", "2"], "say it in one place"),
        (["init", "home", "--model", "nonet", "--shape", "6"], "unknown model 'nonet'"),
        (["init", "home", "--model", "no.module:make", "--shape", "6"], "cannot find the model"),
        (["init", "home", "--model", "mlp", "--shape", "a,b"], "--shape takes whole numbers"),
        (["init", "home", "--model", "mlp", "--shape", "6", "--epochs", "0"], "epochs must be at least 1"),
        (["init", "home", "--model", "mlp", "--shape", "6", "--lr", "-1"], "learning rate"),
        (["init", "home", "--model", "mlp", "--shape", "6", "--features", "6"], "give either --features or --shape"),
        (["init", "home", "--estimator", "GaussianNB"], "needs --features"),
        (["init", "home", "--estimator", "RandomForest", "--features", "6"], "an estimator is one of"),
        (["init", "home", "--estimator", "GaussianNB", "--features", "6", "--model", "mlp"], "is for a network"),
        (["init", "home", *SMALL, "--system", "caus"], "unknown system 'caus'"),
        (["init", "home", *SMALL, "--shards", "0"], "number of shards"),
        (["init", "home", *SMALL, "--slots", "1"], "heads of 2 shards need"),
        (["init", "home", *SMALL, "--memory", "1GB"], "either --memory or --slots"),
        (["init", "home", *SMALL, "--storage", "big"], "not a size"),
        (["init", "home", *SMALL, "--retain", "forever"], "N rounds"),
        (["init", "home", *SMALL, "--repair", "never"], "unknown repair 'never'"),
        (["init", "home", *SMALL, "--deadline", "0"], "number of days"),
        (["init", "home", *SMALL, "--seed", "-1"], "must not be negative"),
        (["init", "home", *SMALL, "--key-env", "NO_SUCH_KEY"], "the environment has no 'NO_SUCH_KEY'"),
        (["init", "home", *SMALL, "--key-file", "none.key"], "cannot read the key file"),
        (["init", "home", *SMALL, "--key-file", "short.key"], "are no key"),
        (["init", "home", *SMALL, "--key-command", "false"], "failed with 1"),
        (["init", "home", *SMALL, "--key-command", "'"], "--key-command"),
        (["init", "home", *SMALL, "--key-command", "true", "--key-env", "A"], "one place"),
    ], device=False)  # fmt: skip
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_damaged_ledger_is_one_line_and_a_way_out(refused, cause, device):
    cause("backup", "home", "b.tar")
    ledger = Path("home/ledger.db")
    data = bytearray(ledger.read_bytes())
    data[100:8_000] = b"\xff" * 7_900
    ledger.write_bytes(data)
    assert "cause doctor --home" in refused("status", "home")
    assert "restore" in cause("doctor", "--home", "home", "--json", code=1)["problems"][0]["remedy"]
    assert cause("restore", "b.tar", "home", "--json")["ledger"] == "backup"
    assert len(cause("predict", "home", "test.npz").split()) == 50


def test_a_broken_configuration_of_a_home_is_one_line(refused, device):
    Path("home/cause.toml").write_text("[device]\nshards = 'two'\n")
    for command in (["status", "home"], ["config", "home"], ["restore", "r1.npz", "home"]):
        assert "error: " in refused(*command)


def test_the_commands_work_as_processes(place, device):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "from cause.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "status", "home", "--json"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["round"] == 2


def test_status_needs_nothing_that_learns(cause, device):
    with Cause("home", read_only=True) as whole:
        result = {**json.loads(json.dumps(whole.status().as_dict())), "expected_accuracy": None}
    code = "import sys; sys.modules['sklearn'] = sys.modules['torch'] = None; from cause.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, "status", "home", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == result


def test_status_of_a_home_that_remembers_nothing_of_its_learner(cause, device):
    result = cause("status", "home", "--json")
    with closing(sqlite3.connect("home/ledger.db")) as ledger, ledger:
        assert ledger.execute("DELETE FROM meta WHERE name='sub_model_bytes'").rowcount == 1
    assert cause("status", "home", "--json") == result


def test_who_only_looks_cannot_learn_or_predict(device):
    with (
        opened(Path("home"), read_only=True, without_learner=True) as looked_at,
        pytest.raises(LearnerError, match="learner"),
    ):
        looked_at.predict(np.zeros((1, 6)))


def test_small_things_people_read():
    assert format_time(None) == "–"
    assert format_time(0.0) == "1970-01-01 00:00"
    assert [format_duration(each) for each in (0.5, 100, 7200, 2 * 86_400)] == ["0.5 s", "100 s", "2.0 h", "2.0 days"]
    assert [key_of((0, 1, 0)), key_of((0, 1, 2))] == [[0, 1], [0, 1, 2]]


def test_what_is_older_than_the_home_keeps_samples_expires_also_where_nothing_is_learned(cause, refused):
    cause("init", "home", *SMALL, "--key-env", "CAUSE_TEST_KEY", "--retain", "30 days")
    cause("learn", "home", upload("r1.npz", 1, alice=40, bob=30))
    cause("learn", "home", upload("r2.npz", 2, alice=10))
    with Cause("home") as device:
        device.stage("carol", *samples("carol", 3, 7))
    assert cause("expire", "home", "--json")["samples"] == 0
    with closing(sqlite3.connect("home/ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE uploads SET arrived=0 WHERE round=1")
        ledger.execute("UPDATE staged SET arrived=0")
    done = cause("expire", "home", "--repair", "later", "--json")
    assert (done["retain"], done["samples"], done["staged"], done["rsn"]) == ("30 days", 70, 7, 0)
    assert done["waiting"]
    assert "0 samples, 0 sub-models that saw them, and 0 samples" in cause("expire", "home")
    cause("init", "other", *SMALL, "--key-env", "CAUSE_TEST_KEY")
    assert "without --retain" in refused("expire", "other")


def test_the_recommended_system_learns_on_after_it_was_opened_again(cause):
    cause("init", "dev", "--system", "frugal", "--shards", 2, "--slots", 3, "--estimator", "GaussianNB",
          "--features", 8, "--classes", 2, "--key-env", "CAUSE_TEST_KEY")  # fmt: skip
    draw = np.random.default_rng(0)
    for number, user in enumerate(("alice", "alice", "alice", "bob"), start=1):
        np.savez("part.npz", x=draw.normal(size=(30, 8)), y=draw.integers(2, size=30), users=[user] * 30)
        assert cause("learn", "dev", "part.npz", "--json")["round"] == number
    assert cause("status", "dev", "--json")["samples"] == 120
    cause("forget", "dev", "--user", "alice")
    assert cause("status", "dev", "--json")["samples"] == 30
