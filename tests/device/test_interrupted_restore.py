"""A restore that is cut off anywhere loses nothing: run again, it ends where an uncut one does."""

import shutil

import pytest

from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.fsck import examine_home
from cause.device.receipts.transparency_log import RESTORE
from cause.errors import CauseError
from tests.device.homes import learn, opened
from tests.recording_disk import RecordingDisk, crash_states
from tests.torture.recorded_home import on


def damaged(home, archive):
    """A home with a backup, later receipts, a damaged ledger and lost files."""
    with opened(home, shards=1) as device:
        learn(device, a=40, b=30, c=10)
        device.forget("c")
        backup(device.home, archive)
        device.forget("b", repair="later")
        entries = device.home.receipts.size
    data = bytearray((home / "ledger.db").read_bytes())
    data[100:200] = b"\xff" * 100  # the first page: the tables can be read no more, or not all
    (home / "ledger.db").write_bytes(data)
    sorted((home / "blocks").iterdir())[0].unlink()
    return entries


def retained(home):
    with opened(home, shards=1) as device:
        device.repair()
        assert device.verify(processes=0).mismatched == []
        samples = sum(segment.count for shard in device.ledger.shards() for segment in device.ledger.lineage(shard))
        kinds = [kind for (kind,) in device.home.database.rows("SELECT kind FROM leaves ORDER BY number")]
        return samples, kinds


@pytest.mark.parametrize(
    "older", [pytest.param(False, id="damaged", marks=pytest.mark.long), pytest.param(True, id="older")]
)
def test_a_restore_that_is_cut_off_can_be_run_again(tmp_path, older):
    root, archive = tmp_path / "life", tmp_path / "b.tar"
    root.mkdir()
    if older:
        with opened(root / "home", shards=1) as device:
            learn(device, a=40, b=30, c=10)
            old = (root / "home" / "ledger.db").read_bytes()
        with opened(root / "home", shards=1) as device:
            device.forget("c")
            backup(device.home, archive)
        (root / "home" / "ledger.db").write_bytes(old)
    else:
        damaged(root / "home", archive)
    reference = tmp_path / "reference"
    shutil.copytree(root / "home", reference)
    restore(archive, reference, discard_later=True)
    samples, kinds = retained(reference)
    assert kinds.count(RESTORE) == 1
    disk = RecordingDisk(root)
    with on(disk):
        restore(archive, root / "home", discard_later=True, disk=disk)
    tried = 0
    for _, state in list(crash_states(disk, most=2))[:: max(1, len(disk.operations) // 14)]:
        state.write_to(tmp_path / "state")
        home = tmp_path / "state" / "home"
        try:  # it may be whole already
            opened(home, shards=1).close()
        except CauseError:
            restore(archive, home, discard_later=True)
        held, entries = retained(home)
        assert held == samples
        assert entries[: len(kinds) - 1] == kinds[:-1]
        assert RESTORE in entries
        assert examine_home(home).problems == []
        assert not list(home.rglob("*.part*"))
        assert not list(home.rglob("*.replaced*"))
        shutil.rmtree(tmp_path / "state")
        tried += 1
    assert tried > 10
