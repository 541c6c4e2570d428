"""Commands overwrite no file of a home, and an error of their output still says what was done."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cause.cli import main
from cause.device.device import Cause
from tests.device.homes import CLASSES, FEATURES, samples
from tests.quick import quick_only

INIT = ["--shards", 2, "--slots", 8, "--estimator", "GaussianNB", "--features", FEATURES, "--classes", CLASSES]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended("init", "h", *INIT)
    for round_ in (1, 2):
        x, y = samples("ann", round_, 20)
        np.savez(f"r{round_}.npz", x=x, y=y, users=np.array(["ann"] * 20))
    ended("learn", "h", "r1.npz")
    ended("forget", "h", "--user", "ann", "--rounds", 1, "--count", 1)
    return tmp_path / "h"


def ended(*args):
    with pytest.raises(SystemExit) as end:
        main([str(arg) for arg in args])
    return end.value.code


WRITING = {
    "labels": ["predict", "h", "r1.npz", "--out"],
    "a trace": ["trace", "h", "--out"],
    "a receipt": ["receipts", "h", "0", "--out"],
    "handles": ["learn", "h", "r2.npz", "--handles"],
    "a workload": ["workload", "--users", "2", "--rounds", "1", "--samples", "9", "--out"],
}
NEEDED = ["h/ledger.db", "h/cause.toml", "h/vault/root", "h/new.csv", "h/blocks/new.csv", "h.key"]


EVERY = [(command, needed) for command in WRITING for needed in NEEDED]


@pytest.mark.parametrize(("name", "needed"), quick_only(EVERY, EVERY[:: len(NEEDED) - 1]))
def test_no_command_writes_into_a_home_or_over_its_key(name, needed, home, capsys):
    command = WRITING[name]
    if command[0] == "workload" and needed == "h.key":
        pytest.skip("it knows no home")
    before = {path: path.read_bytes() for path in home.parent.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert ended(*command, needed) == 2
    assert "elsewhere" in (message := capsys.readouterr().err) or "name another" in message
    assert {path: path.read_bytes() for path in home.parent.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", [WRITING["labels"], ["learn", "h", "r1.npz", "--handles"]], ids=str)
def test_no_command_replaces_the_file_that_it_reads(command, capsys):
    before = Path("r1.npz").stat().st_mtime_ns
    assert ended(*command, "./r1.npz") == 2
    assert Path("r1.npz").stat().st_mtime_ns == before


@pytest.mark.parametrize("folder", ["sub-models", "blocks", "."])
def test_exports_and_homes_are_not_made_inside_a_home(folder, capsys):
    assert ended("export", "h", "--out", f"h/{folder}/out") == 2
    assert ended("init", f"h/{folder}/inner", *INIT) == 2
    assert "is inside the home" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["sub-models", "blocks"])
def test_a_folder_that_is_not_the_homes_stops_nothing_and_doctor_names_it(part, home, capsys):
    """`lost+found`, for one, where a part of the home is a file system of its own."""
    (home / part / "lost+found").mkdir()
    assert ended("learn", "h", "r2.npz") == 0
    assert ended("forget", "h", "--user", "ann") == 0
    capsys.readouterr()
    assert ended("doctor", "--home", "h") == 0
    assert "lost+found' is a folder that is not the home's" in " ".join(capsys.readouterr().out.split())
    assert (home / part / "lost+found").is_dir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("command", "effect"),
    [(["learn", "h", "r2.npz"], "round 2 is recorded"), (["forget", "h", "--user", "ann"], "is in effect")],
    ids=["learn", "forget"],
)
def test_an_output_that_fails_says_what_was_done(command, effect, home):
    run = [sys.executable, "-m", "cause", *command]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot write the output" in done.stderr
    assert effect in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_without_standard_output_does_its_work(home):
    done = subprocess.run(
        f"exec {sys.executable} -m cause learn h r2.npz >&-", shell=True, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    with Cause("h", read_only=True) as device:
        assert device.ledger.round == 2


def test_users_are_texts_or_whole_numbers(capsys):
    """1 and 1.0 would be two users, and an erasure of the one would miss the other."""
    x, y = samples("ann", 3, 4)
    for users, code in ((np.arange(4), 0), (np.arange(4.0), 2), (np.array([True] * 4), 2)):
        np.savez("u.npz", x=x, y=y, users=users)
        assert ended("learn", "h", "u.npz") == code
    assert "users are texts or whole numbers, not float64" in capsys.readouterr().err


def test_tokens_end_at_a_date_that_can_be_shown(capsys):
    assert ended("token", "create", "h", "--scope", "auditor", "--expires", "99999999999d") == 2
    assert ended("token", "create", "h", "--scope", "auditor", "--expires", "36500d") == 0
    assert ended("token", "list", "h") == 0
    capsys.readouterr()
    assert ended("token", "revoke", "h", "\udcff") == 2
    assert "there is no token" in capsys.readouterr().err
    assert ended("token", "list", "h", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["tokens"]) == 1
