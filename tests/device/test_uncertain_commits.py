"""A failed commit may have reached the disk: nothing that it names is destroyed until a later commit settles it."""

import contextlib
import errno
import os
import shutil
from pathlib import Path

import pytest

from cause.device.store.garbage import Garbage
from cause.errors import CauseError, HomeError, RequestError, VaultError
from tests.device.homes import learn, opened, samples
from tests.quick import quick_only
from tests.recording_disk import RecordingDisk, Sync, crash_states
from tests.torture.recorded_home import on


class FailingSyncs(RecordingDisk):
    """Once armed, the next sync of the ledger's write-ahead log fails; if `lasting`, so does each later one."""

    armed = broken = False
    lasting = True

    def step(self, operation):
        if isinstance(operation, Sync):
            names = {inode: path for path, inode in self.now.names.items()}
            ledger = any(names.get(inode, Path()).name.startswith("ledger.db") for inode in operation.inodes)
            self.broken |= self.armed and ledger
            if self.broken and ledger:
                self.armed = self.broken = self.lasting
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().step(operation)


def stage_one(device):
    device.stage("c", *samples("c", 9, 20), call="the call")


CALLS = {
    "learn": lambda device: learn(device, b=20),
    "stage": stage_one,
    "forget all": lambda device: device.forget("a"),
    "forget some": lambda device: device.forget("a", rounds=[1], count=5),
    "repair": lambda device: device.repair(),
}


def before(folder):
    device = opened(folder, shards=1)
    learn(device, a=150)
    learn(device, b=30)
    device.forget("b", repair="later")
    learn(device, b=20)
    return device


def failed_commit(root, call, *, skip):
    """A device whose disk fails for good at the commit of the given number within a call; the disk."""
    root.mkdir()
    before(root / "home").close()
    disk = FailingSyncs(root)
    with on(disk):
        device = opened(root / "home", shards=1)
        syncs = 0
        transaction = device.home.database.transaction

        @contextlib.contextmanager
        def counted(**options):
            nonlocal syncs
            with transaction(**options):
                yield
                disk.armed = syncs == skip
                syncs += 1

        device.home.database.transaction = counted
        with contextlib.suppress(CauseError):
            CALLS[call](device)
        for again in (call, "stage"):  # it goes on, and meets the same error
            if disk.broken:
                with pytest.raises(CauseError):
                    CALLS[again](device)
        with contextlib.suppress(CauseError):
            device.close()
    return disk


@pytest.mark.parametrize("call", ["learn", "stage"])
def test_a_failed_commit_says_that_its_outcome_is_open(tmp_path, monkeypatch, call):
    """The caller must not simply repeat it: after an opening the samples may be there."""
    device = before(tmp_path / "home")
    run = device.home.database.run

    def failing(statement, values=()):
        if statement == "COMMIT":
            raise HomeError("cannot use the ledger: disk I/O error")
        return run(statement, values)

    monkeypatch.setattr(device.home.database, "run", failing)
    with pytest.raises(HomeError, match="it may have been recorded all the same") as error:
        CALLS[call](device)
    assert "idempotency key" in error.value.recorded
    device.journal.close()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for a while"])
def test_samples_of_a_failed_upload_cannot_appear_later(tmp_path, lasting):
    """The commit is in the log, and its sync failed: the device knows nothing of the samples, and a reader would."""
    root = tmp_path / "life"
    root.mkdir()
    before(root / "home").close()
    disk = FailingSyncs(root)
    disk.lasting = lasting
    with on(disk):
        device = opened(root / "home", shards=1)
        disk.armed = True
        with pytest.raises(HomeError, match="Input/output error") as error:
            learn(device, c=20)
        assert ("may have been recorded" in str(error.value)) == lasting
        disk.armed = disk.broken = False
        if lasting:
            with pytest.raises(RequestError, match="unknown user 'c'"):
                device.forget("c")
    disk.now.write_to(tmp_path / "after a power loss")  # in which all that was written has reached the disk
    with opened(tmp_path / "after a power loss" / "home", shards=1) as after:
        assert after.ledger.rounds_of("c") == []


def test_a_disk_that_cannot_take_a_failed_upload_back_refuses_requests(tmp_path):
    root = tmp_path / "life"
    root.mkdir()
    before(root / "home").close()
    disk = FailingSyncs(root)
    with on(disk):
        device = opened(root / "home", shards=1)
        disk.armed = True
        for call in (lambda: learn(device, c=20), lambda: device.forget("c"), device.repair):
            with pytest.raises(HomeError, match="Input/output error"):
                call()
        with contextlib.suppress(CauseError):
            device.close()


def whole(home):
    with opened(home, shards=1) as device:
        device.repair()
        assert device.verify(processes=0).mismatched == []
        for shard in device.ledger.shards():
            for segment in device.ledger.lineage(shard):
                for piece in segment.pieces:
                    piece.upload.arrays(piece.positions)  # type: ignore[attr-defined]
        for key in device.memory.stored():
            device.memory.shelf.get(key)
        return {user: device.ledger.rounds_of(user) for user in ("a", "b")}


@pytest.mark.parametrize("skip", quick_only([0, 1, 2], (0, 1)))
@pytest.mark.parametrize("call", list(CALLS))
def test_a_disk_that_fails_for_good_at_a_commit_costs_no_key(tmp_path, call, skip):
    disk = failed_commit(tmp_path / "life", call, skip=skip)
    if not disk.broken:
        pytest.skip(f"{call} has no commit {skip}")
    whole(tmp_path / "life" / "home")


@pytest.mark.parametrize("call", ["learn", "forget all", "forget some"])
def test_what_an_opening_reads_is_durable_before_keys_go(tmp_path, call):
    """The failed commit is in the page cache only; a new process reads it there, and then the power fails."""
    root = tmp_path / "life"
    disk = failed_commit(root, call, skip=1 if call.startswith("forget") else 0)
    assert disk.broken
    disk.broken = disk.armed = False
    reopened = len(disk.operations)
    with on(disk):
        opened(root / "home", shards=1).close()
    seen = 0
    states = list(crash_states(disk, first=reopened, most=1))
    for number, state in states[:: max(1, len(states) // 20)]:
        state.write_to(tmp_path / "state")
        whole(tmp_path / "state" / "home")
        shutil.rmtree(tmp_path / "state")
        seen += 1
        assert number
    assert seen > 10


def test_a_training_that_ends_meanwhile_signs_no_receipt_of_keys_that_are_still_there(tmp_path, monkeypatch):
    """A training that had begun before the erasure ends after it, without looking at what the erasure left undone."""
    with opened(tmp_path / "home") as device:
        learn(device, ann=6, bob=6)
        home, erase = device.home, device.home.vault.erase
        with monkeypatch.context() as broken:
            broken.setattr(home.vault, "erase", lambda names: (_ for _ in ()).throw(VaultError("the disk is gone")))
            with pytest.raises(VaultError):
                device.forget("ann", repair="later")
            with pytest.raises(VaultError):
                device.journal.caught_up([])
            assert home.receipts.listed() == []
            assert home.database.row("SELECT destroyed, repaired FROM requests") == (None, None)
        assert home.vault.erase == erase
        device.repair()
        effect, repair = home.receipts.listed()
        assert (effect["kind"], repair["kind"]) == ("effect", "repair")
        assert not home.garbage


def test_what_a_failed_commit_has_written_all_the_same_is_not_destroyed():
    garbage = Garbage()
    garbage.add_uncertain([b"written", b"lost"])
    assert garbage.to_destroy(lambda: {b"written"}) == frozenset()
    garbage.committed()
    assert garbage.to_destroy(lambda: {b"written"}) == {b"lost"}
    assert set(garbage) == {b"lost"}
