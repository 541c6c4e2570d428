"""The commands for an upload on which every training fails."""

import json

import numpy as np
import pytest

from cause.cli.app import main
from tests.device.homes import CLASSES, MASTER, opened, samples


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    opened(tmp_path / "home", system="frugal:partition=hash", shards=1).close()
    parts = {user: samples(user, 1, 6)[0].astype(np.float64) for user in ("ann", "bob")}
    parts["bob"][4, 2] = 1e300
    x, users = np.concatenate(list(parts.values())), np.repeat(list(parts), 6)
    np.savez("round.npz", x=x, y=np.arange(12) % CLASSES, users=users)
    return "home"


def run(capsys, *args, code=0):
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    assert ended.value.code == code, err
    return json.loads(out) if "--json" in args else out + err


def test_it_is_named_learned_around_and_dropped(home, capsys):
    result = run(capsys, "learn", home, "round.npz")
    assert "6 samples of user 'bob' are in quarantine" in " ".join(result.split())
    status = run(capsys, "status", home, "--json")
    (aside,) = status["quarantined"]
    assert (aside["user"], aside["round"], aside["shard"], aside["samples"]) == ("bob", 1, 0, 6)
    assert status["samples"] == 6
    assert "In quarantine" in run(capsys, "status", home)
    assert "no upload 77 in quarantine" in run(capsys, "drop", home, "--upload", 77, code=2)
    done = run(capsys, "drop", home, "--upload", aside["upload"], "--json")
    assert done["samples"] == 6
    receipts = run(capsys, "receipts", home, "--json")
    assert done["request"] in json.dumps(receipts)
    assert run(capsys, "status", home, "--json")["quarantined"] == []


def test_files_must_have_the_inputs_that_the_settings_name(home, capsys):
    run(capsys, "config", home, "input_dtype=float32", "input_shape=6", "--yes")
    result = run(capsys, "learn", home, "round.npz", code=2)
    assert "inputs of user 'bob': row 4 holds 1e+300, which float32 cannot hold" in " ".join(result.split())
    assert run(capsys, "status", home, "--json")["round"] == 0
