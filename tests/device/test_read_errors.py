"""An error while something is read is not damage: it is tried again, or refused, and nothing is dropped."""

import errno
import os
from pathlib import Path

import pytest

from cause.device.backup.archive import Archive
from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.disk import ATTEMPTS, Disk
from cause.device.vault import EnvKeySource, Vault
from cause.errors import CauseError
from tests.device.homes import learn, opened
from tests.quick import quick_only

ERRORS = [errno.EMFILE, errno.EACCES, errno.EIO]
TIMES = {"once": 1, "for good": 10**6}


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Replace waiting by a counter of the pauses."""
    seen = []
    monkeypatch.setattr("cause.device.disk.pause", seen.append)
    return seen


class Reads:
    """Lets reading a chosen file fail: `number` is which of the files that are read counts."""

    def __init__(self, monkeypatch):
        self.number, self.left, self.error, self.chosen = -1, 0, 0, None
        self.seen: list[Path] = []
        original = Disk.read_once

        def read_once(disk, path):
            if path not in self.seen:
                self.seen.append(path)
            if self.seen.index(path) == self.number and self.left:
                self.left -= 1
                raise OSError(self.error, os.strerror(self.error))
            return original(disk, path)

        monkeypatch.setattr(Disk, "read_once", read_once)

    def fail(self, number, error, times):
        self.seen, self.number, self.error, self.left = [], number, error, times


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


def made(home):
    device = opened(home, shards=2)
    learn(device, a=140, b=40)
    device.forget("b", repair="later")
    learn(device, c=30)
    device.close()


def keys(home):
    with Vault.open(home / "vault", EnvKeySource("CAUSE_TEST_KEY"), read_only=True) as vault:
        return vault.names()


def held(home):
    with opened(home) as device:
        stored = device.memory.stored()
        samples = {
            (piece.upload.user, piece.upload.round): len(piece.upload.arrays(piece.positions)[1])  # type: ignore[attr-defined]
            for shard in device.ledger.shards()
            for segment in device.ledger.lineage(shard)
            for piece in segment.pieces
        }
    return stored, samples


CALLS = {
    "predict": lambda device: device.predict([[0.0] * 6]),
    "learn": lambda device: learn(device, a=10),
    "repair": lambda device: device.repair(),
}


@pytest.mark.parametrize("times", list(TIMES))
@pytest.mark.parametrize("error", quick_only(ERRORS, ERRORS[:1]), ids=errno.errorcode.get)
@pytest.mark.parametrize("call", list(CALLS))
def test_a_read_that_fails_drops_nothing(tmp_path, reads, call, error, times):
    home, number, failed = tmp_path / "home", 0, 0
    made(home)
    before = held(home), keys(home)
    while True:
        device = None
        reads.fail(number, error, TIMES[times])
        try:
            device = opened(home)
            CALLS[call](device)
        except CauseError as refused:
            assert times == "for good"
            assert "\n" not in str(refused)  # noqa: PT017
            failed += 1
        finally:
            if device is not None:
                device.close()
        reads.fail(-1, 0, 0)
        (stored, samples), names = held(home), keys(home)
        assert set(before[0][0]) <= set(stored)
        assert before[0][1].items() <= samples.items()
        assert before[1] <= names
        number += 1
        if number > 6:
            break
    assert failed or times == "once"


@pytest.mark.parametrize("error", quick_only(ERRORS, ERRORS[:1]), ids=errno.errorcode.get)
@pytest.mark.parametrize("part", ["blocks", "sub-models"])
def test_a_restore_that_cannot_read_a_file_is_refused_and_drops_nothing(tmp_path, reads, part, error):
    home = tmp_path / "home"
    made(home)
    with opened(home, read_only=True) as device:
        backup(device.home, tmp_path / "old.tar")
    with opened(home) as device:
        learn(device, d=60)
    before = held(home), keys(home)
    for number, path in enumerate(sorted((home / part).iterdir())):
        for times in TIMES:
            reads.fail(0, error, TIMES[times])
            reads.seen = [path]
            if times == "for good":
                with pytest.raises(CauseError, match="cannot read"):
                    restore(tmp_path / "old.tar", home)
            else:
                restore(tmp_path / "old.tar", home)
            reads.fail(-1, 0, 0)
            assert (held(home), keys(home)) == before, number


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_ledger_that_cannot_be_read_now_is_not_replaced(tmp_path, error, monkeypatch):
    home = tmp_path / "home"
    made(home)
    with opened(home, read_only=True) as device:
        backup(device.home, tmp_path / "old.tar")
    with opened(home) as device:
        learn(device, d=60)
    before = held(home), keys(home)
    (home / "ledger.db").chmod(0)
    if os.access(home / "ledger.db", os.R_OK):  # root may read everything: let SQLite fail as for anybody else
        import sqlite3

        def connect(path, read_only):
            failure = sqlite3.OperationalError("unable to open database file")
            failure.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise failure

        monkeypatch.setattr("cause.device.backup.restore.connect", connect)
    with pytest.raises(CauseError, match="cannot read the ledger"):
        restore(tmp_path / "old.tar", home, discard_later=True)
    monkeypatch.undo()
    (home / "ledger.db").chmod(0o600)
    monkeypatch.setenv("CAUSE_TEST_KEY", "11" * 32)
    assert (held(home), keys(home)) == before


def test_an_archive_that_cannot_be_read_now_is_not_called_damaged(tmp_path, monkeypatch):
    made(tmp_path / "home")
    with opened(tmp_path / "home", read_only=True) as device:
        backup(device.home, tmp_path / "old.tar")
    with Archive(tmp_path / "old.tar") as archive:

        def fail(*_):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(archive._tar, "extractfile", fail)
        with pytest.raises(CauseError, match=r"cannot read.*Input/output error"):
            archive.read("ledger.db")


def test_waiting_between_attempts_is_bounded(tmp_path, reads, pauses):
    (tmp_path / "file").write_bytes(b"x")
    reads.fail(0, errno.EIO, ATTEMPTS - 1)
    assert Disk().read(tmp_path / "file") == b"x"
    assert len(pauses) == ATTEMPTS - 1
    assert sum(pauses) < 1
    with pytest.raises(FileNotFoundError):
        Disk().read(tmp_path / "missing")
    assert len(pauses) == ATTEMPTS - 1
