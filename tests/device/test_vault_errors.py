"""After an error of the disk in the vault a device goes on without being opened again, as its messages say."""

import errno

import numpy as np
import pytest

from cause.device.fsck import examine_home
from cause.device.vault.writing import Writer
from cause.errors import VaultError
from tests.device.homes import FEATURES, MASTER, learn, opened

INPUTS = np.random.default_rng(0).normal(size=(20, FEATURES)).astype(np.float32)
THEN = {
    "repair": lambda device: device.repair(),
    "catch_up": lambda device: device.catch_up(),
    "resume": lambda device: device.resume(),
    "forget": lambda device: device.forget("bob", rounds=[1], count=2),
    "expire": lambda device: device.expire(),
}


class Disk:
    """Whether syncs of the vault fail now."""

    fails = False


@pytest.fixture
def disk(monkeypatch):
    disk, sync = Disk(), Writer.sync

    def failing(self, *files):
        if disk.fails:
            raise OSError(errno.EIO, "Input/output error")
        sync(self, *files)

    monkeypatch.setattr(Writer, "sync", failing)
    return disk


def fail_once_accepted(device, disk, monkeypatch):
    """The disk fails from the moment on at which the next request is accepted."""
    accept = device.home.accept

    def accepted(*args):
        ids = accept(*args)
        disk.fails = True
        return ids

    monkeypatch.setattr(device.home, "accept", accepted)


@pytest.mark.parametrize("kind", ["bayes", "additive"])
@pytest.mark.parametrize("then", THEN)
def test_a_later_call_serves_what_was_accepted(tmp_path, disk, monkeypatch, kind, then):
    with opened(tmp_path / "home", kind=kind) as device:
        learn(device, ann=30, bob=30)
        fail_once_accepted(device, disk, monkeypatch)
        with pytest.raises(VaultError, match=r"accepted and not in effect yet.* or called \(`cause repair`"):
            device.forget("ann")
        for _ in range(2):
            with pytest.raises(VaultError, match="still has an error of the disk: Input/output error"):
                device.repair()
        assert len(device.predict(INPUTS)) == 20
        disk.fails = False
        monkeypatch.setattr(device.home, "accept", type(device.home).accept.__get__(device.home))
        monkeypatch.delenv("CAUSE_TEST_KEY")  # it is not needed again
        THEN[then](device)
        assert device.home.accepted() == []
        assert device.ledger.rounds_of("ann") == []
        device.repair()
        assert device.status().requests == ()
        assert device.verify(processes=0).mismatched == []
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    assert examine_home(tmp_path / "home").problems == []


def test_an_upload_that_failed_can_be_learned_by_the_next_call(tmp_path, disk):
    with opened(tmp_path / "home") as device:
        learn(device, ann=30)
        before = device.home.vault.names()
        disk.fails = True
        with pytest.raises(VaultError, match="keys may not have been stored"):
            learn(device, bob=30)
        disk.fails = False
        learn(device, bob=30)
        assert device.ledger.round == 2
        assert device.home.vault.names() > before
    assert examine_home(tmp_path / "home").problems == []
