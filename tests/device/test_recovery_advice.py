"""The way out that doctor, status and the messages name really leads out."""

import os
import shutil
import signal
from contextlib import closing

import numpy as np
import pytest

from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.repairing import drop_damaged, repair
from cause.errors import CauseError, HomeError
from tests.device.bit_flips import run
from tests.device.homes import FEATURES, killed, learn, opened

INPUTS = np.random.default_rng(0).normal(size=(20, FEATURES)).astype(np.float32)


# A repair that was killed after its last segment


def test_the_next_repair_signs_what_a_killed_one_had_not(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=40, b=30)
        device.forget("a", repair="later")

    def die_before_the_receipt():
        monkeypatch.setattr(
            "cause.device.home.home.Home.caught_up", lambda self, waiting: os.kill(os.getpid(), signal.SIGKILL)
        )
        opened(tmp_path / "home").repair()

    killed(die_before_the_receipt)
    with opened(tmp_path / "home") as device:
        assert device.waiting() == []
        assert len(device.status().requests) == 1
        repair(device)
        assert device.status().requests == ()
        kinds = [kind for (kind,) in device.home.database.rows("SELECT kind FROM leaves ORDER BY number")]
        assert kinds == ["effect", "repair"]


# Sub-models whose files are lost or damaged


def truncated(path):
    path.write_bytes(path.read_bytes()[:50])


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncated, flipped, lambda path: path.unlink()], ids=["cut off", "flipped", "lost"])
def test_repair_trains_damaged_sub_models_again(tmp_path, damage):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40, b=30)
        learn(device, a=20, c=10)
        expected = device.predict(INPUTS)
    for path in (home / "sub-models").iterdir():
        damage(path)
    assert any("cause repair" in problem.remedy for problem in examine_home(home).problems)
    with closing(Cause(home, read_only=True)) as reader, pytest.raises(CauseError, match="cause repair"):
        reader.predict(INPUTS)
    code, out, err = run(["repair", "{}"], home)
    assert (code, err) == (0, "")
    assert "damaged or lost" in out
    assert examine_home(home).problems == []
    with opened(home) as device:
        assert (device.predict(INPUTS) == expected).all()
        assert device.verify(processes=0).mismatched == []


def test_sub_models_that_cannot_be_read_now_are_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=40)
        monkeypatch.setattr("cause.device.disk.pause", lambda seconds: None)
        monkeypatch.setattr("cause.device.disk.Disk.read_once", _eio)
        with pytest.raises(HomeError):
            drop_damaged(device)
        monkeypatch.undo()
        assert drop_damaged(device) == []


def _eio(self, path):
    raise OSError(5, "Input/output error", str(path))


# A backup that is older than what the home holds


@pytest.fixture
def aged(tmp_path):
    """A home, a backup of it after its first round, and one after its second."""
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40, b=30)
        backup(device.home, tmp_path / "older.tar")
        learn(device, a=20, c=10)
        backup(device.home, tmp_path / "newer.tar")
    return home


def lose_everything_but_the_keys(home):
    for path in home.iterdir():
        if path.name != "vault":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def lose_the_blocks(home):
    for path in (home / "blocks").iterdir():
        path.unlink()


def lose_blocks_and_ledger(home):
    lose_the_blocks(home)
    (home / "ledger.db").unlink()


@pytest.mark.parametrize("lose", [lose_everything_but_the_keys, lose_the_blocks, lose_blocks_and_ledger])
def test_an_older_backup_does_not_destroy_what_a_newer_one_holds(aged, lose):
    lose(aged)
    key = None if (aged / "cause.toml").exists() else {"env": "CAUSE_TEST_KEY"}
    with pytest.raises(HomeError, match="--discard-later"):
        restore(aged.parent / "older.tar", aged, key=key)
    restore(aged.parent / "newer.tar", aged, key=key)
    with opened(aged) as device:
        assert device.status().samples == 100
        device.repair()
        assert device.verify(processes=0).mismatched == []
    assert examine_home(aged).problems == []


@pytest.mark.parametrize("lose", [lose_everything_but_the_keys, lose_the_blocks])
def test_with_discard_later_an_older_backup_replaces_what_is_lost(aged, lose):
    lose(aged)
    key = None if (aged / "cause.toml").exists() else {"env": "CAUSE_TEST_KEY"}
    restore(aged.parent / "older.tar", aged, key=key, discard_later=True)
    with opened(aged) as device:
        assert device.status().samples == 70


# Things in a file's place that are no files


def places(home):
    return sorted(path.relative_to(home) for path in home.rglob("*") if path.is_file() and path.name != "lock")


def test_a_pipe_in_a_files_place_blocks_no_command(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=20)
    for place in places(home):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(home, tmp_path / "copy")
        path = tmp_path / "copy" / place
        path.unlink()
        os.mkfifo(path)
        for command in (["doctor", "--home", "{}"], ["status", "{}"], ["repair", "{}"]):
            signal.signal(signal.SIGALRM, lambda *args: pytest.fail(f"{command[0]} waits for {place}"))  # noqa: B023
            signal.alarm(20)
            try:
                code, _, err = run(command, tmp_path / "copy")
            finally:
                signal.alarm(0)
            assert code in (0, 1, 2), f"{command[0]}, {place}: {err}"
            assert err.count("\n") <= 1


def test_a_link_in_a_files_place_is_not_written_through(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    with opened(home) as device:
        learn(device, a=20)
    for place in places(home):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(home, tmp_path / "copy")
        path = tmp_path / "copy" / place
        path.rename(outside)
        path.symlink_to(outside)
        before = outside.read_bytes()
        try:
            with opened(tmp_path / "copy") as device:
                learn(device, b=20)
                device.forget("a")
        except CauseError:
            pass
        assert outside.read_bytes() == before, place


# What the length of something sealed tells


def test_the_length_of_a_name_is_not_revealed(tmp_path):
    lengths = []
    for number, name in enumerate(("bo", "bartholomew the elder")):
        with opened(tmp_path / str(number)) as device:
            device.learn({name: (INPUTS, np.zeros(20, dtype=int))})
            device.stage(name, INPUTS, np.zeros(20, dtype=int))
            device.forget(name, repair="later")
            device.learn({name: (INPUTS, np.zeros(20, dtype=int))})
            device.stage(name, INPUTS, np.zeros(20, dtype=int))
            database = device.home.database
            sealed = [
                row[0]
                for table, column in (("uploads", "sealed_user"), ("staged", "sealed_user"), ("directory", "sealed"))
                for row in database.rows(f"SELECT length({column}) FROM {table}")
            ]
            lengths.append(sealed)
    assert lengths[0] == lengths[1]
    assert lengths[0]
