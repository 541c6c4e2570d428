"""One writer at a time: links, forks, and file systems that cannot lock or write."""

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess

import pytest

from cause.cli import main
from cause.device.device import Cause
from cause.device.store.lock import Lock
from cause.engine.requests import Request
from cause.errors import HomeError, VaultError
from tests.device.homes import ERASE, bayes, learn, opened, samples


def refusal(path):
    with pytest.raises(HomeError) as refused:
        Lock(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_second_writer_learns_whose_the_lock_is(tmp_path):
    lock = Lock(tmp_path / "lock")
    assert f"in use by process {os.getpid()}: stop it" in refusal(tmp_path / "lock")
    lock.close()
    Lock(tmp_path / "lock").close()


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_left_alone(tmp_path):
    other = tmp_path / "precious"
    other.write_bytes(b"not yours")
    (tmp_path / "lock").symlink_to(other)
    assert "is a symbolic link: remove it" in refusal(tmp_path / "lock")
    assert other.read_bytes() == b"not yours"
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").symlink_to(tmp_path / "new")
    refusal(tmp_path / "lock")
    assert not (tmp_path / "new").exists()


def test_what_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "lock")
    assert "it is not a plain file: remove it" in refusal(tmp_path / "lock")
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refusal(tmp_path / "folder")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server, contextlib.chdir(tmp_path):
        server.bind("socket")
        assert "No such device or address" in refusal(tmp_path / "socket")


def test_a_held_lock_keeps_its_contents(tmp_path):
    first = Lock(tmp_path / "lock")
    before = (tmp_path / "lock").read_bytes()
    refusal(tmp_path / "lock")
    assert (tmp_path / "lock").read_bytes() == before == b"%d\n" % os.getpid()
    first.close()


@pytest.mark.parametrize(("code", "name"), [(errno.ENOLCK, "ENOLCK"), (errno.EIO, "EIO"), (errno.ENOSYS, "ENOSYS")])
def test_a_file_system_without_locks_is_named_not_a_process(tmp_path, monkeypatch, code, name):
    def fails(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fails)
    message = refusal(tmp_path / "lock")
    assert f"{os.strerror(code)} ({name})" in message
    assert "in use" not in message


# Processes that were forked


def forked(work):
    """Run something in a forked process; what it returned or raised, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            os.close(reading)
            try:
                outcome = repr(work())
            except (HomeError, VaultError) as error:
                outcome = f"refused: {error}"
            except BaseException as error:
                outcome = f"{type(error).__name__}: {error}"
            os.write(writing, outcome.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        outcome = pipe.read().decode()
    os.waitpid(child, 0)
    return outcome


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, alice=20)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(ready[1], b"1")
        os.read(done[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        device.close()
        with opened(tmp_path / "home") as again:
            learn(again, bob=20)
    finally:
        os.write(done[1], b"1")
        os.waitpid(child, 0)
        for end in (*ready, *done):
            os.close(end)


WRITES = {
    "learn": lambda device: learn(device, bob=20),
    "forget": lambda device: device.forget("alice"),
    "erase": lambda device: device.serve([Request("nobody")], **ERASE),
    "stage": lambda device: device.stage("bob", *samples("bob", 1, 3)),
    "a key": lambda device: device.home.vault.new_key(os.urandom(16)),
    "a sub-model": lambda device: device.home.shelf.put((0, 9, 0), b"weights"),
    "an erasure of keys": lambda device: device.home.vault.erase(list(device.home.vault.names())),
    "a transaction": lambda device: device.home.database.set("round", 9),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_forked_process_cannot_go_on_writing(tmp_path, write):
    with opened(tmp_path / "home") as device:
        learn(device, alice=20)
        device.forget("alice", rounds=[1], count=2)
        before = content(tmp_path / "home")
        message = forked(lambda: write(device))
        assert message.startswith("refused: this process was forked from the one that opened")
        assert content(tmp_path / "home") == before
        learn(device, carol=20)
        assert device.verify(processes=0).identical == device.memory.stored()


def content(folder):
    return {
        path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".db-shm"
    }


def test_a_forked_process_that_closes_the_home_closes_nothing_of_its_parents(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, alice=20)
        before = content(tmp_path / "home")
        assert forked(device.close) == "None"
        assert content(tmp_path / "home") == before
        assert "in use by process" in forked(lambda: opened(tmp_path / "home"))
        learn(device, bob=20)


def test_a_forked_process_may_open_the_home_itself(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, alice=20)

    def work():
        with Cause(tmp_path / "home", learner=bayes(), read_only=True) as reader:
            return reader.ledger.round

    assert forked(work) == "1"
    device.close()


# Read-only file systems


@pytest.fixture
def mounts(tmp_path):
    """Mount something for reading only, where that is permitted."""
    mounted = []

    def mount(folder):
        where = tmp_path / f"mount{len(mounted)}"
        where.mkdir()
        for options in (["--bind", str(folder), str(where)], ["-o", "remount,bind,ro", str(where)]):
            done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
            if where not in mounted:
                mounted.append(where)
        return where

    if os.geteuid():
        pytest.skip("mounting needs root")
    yield mount
    for where in mounted:
        subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.fixture
def folder(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, alice=20, bob=20)
        device.forget("bob", rounds=[1], count=2)
    return tmp_path / "home"


def test_readers_work_on_a_read_only_mount(folder, mounts, capsys):
    assert not (folder / "ledger.db-wal").exists()
    place = mounts(folder)
    with Cause(place, learner=bayes(), read_only=True) as reader:
        assert reader.ledger.round == 1
        assert len(reader.predict(samples("x", 1, 3)[0])) == 3
        assert reader.verify(processes=0).identical
        assert reader.status().samples == 38
    for command in (["status", place], ["doctor", "--home", place], ["receipts", place], ["verify", "--home", place]):
        with pytest.raises(SystemExit) as ended:
            main([str(each) for each in command])
        assert ended.value.code == 0, capsys.readouterr()


def test_a_writer_on_a_read_only_mount_is_refused_in_one_line(folder, mounts, capsys):
    place = mounts(folder)
    with pytest.raises(HomeError, match="is on a read-only file system: use a command that only reads"):
        Cause(place, learner=bayes())
    with pytest.raises(SystemExit) as ended:
        main(["forget", str(place), "--user", "alice"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(SystemExit):
        main(["token", "list", str(place)])
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_on_a_read_only_mount_follows_a_writer_elsewhere(folder, mounts):
    place = mounts(folder)
    with opened(folder) as writer:
        learn(writer, carol=5)
        with Cause(place, learner=bayes(), read_only=True) as reader:
            assert reader.ledger.round == 2
            learn(writer, carol=6)
            assert reader.status().round == 3


def test_what_a_killed_writer_left_is_read_or_refused_in_one_line(folder, mounts):
    """Its last transactions lie in the write-ahead log; without the index beside it only a writer can take them in."""

    def killed():
        device = opened(folder)
        learn(device, carol=5)
        os.kill(os.getpid(), signal.SIGKILL)

    forked(killed)
    assert (folder / "ledger.db-wal").stat().st_size
    place = mounts(folder)
    with Cause(place, learner=bayes(), read_only=True) as reader:
        assert reader.ledger.round == 2
    (folder / "ledger.db-shm").unlink()
    with pytest.raises(HomeError, match=r"has changes in 'ledger.db-wal' that only a writer can take in") as refused:
        Cause(place, learner=bayes(), read_only=True)
    assert "\n" not in str(refused.value)
