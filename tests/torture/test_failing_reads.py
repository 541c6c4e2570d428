"""A read that fails temporarily costs no sample and no sub-model."""

import errno
from contextlib import suppress

import pytest

from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.errors import CauseError, HomeError
from tests.device.homes import learn, opened
from tests.quick import quick_only
from tests.recording_disk import RecordingDisk
from tests.torture.failing_reads import X, failing_reads
from tests.torture.kills import torture
from tests.torture.test_kills import EVICTING, SHORT


@pytest.mark.parametrize(
    ("case", "call", "error", "for_good"),
    [
        pytest.param(EVICTING, 2, errno.EMFILE, False, id="too many open files", marks=pytest.mark.long),
        pytest.param(EVICTING, 3, errno.EACCES, False, id="no access"),
        pytest.param(SHORT, 1, errno.EIO, True, id="broken for a while", marks=pytest.mark.long),
    ],
)
def test_a_read_that_fails_drops_nothing(case, call, error, for_good, deep):
    with torture(case) as tortured:
        failures, problems = failing_reads(
            tortured, call, error=error, for_good=for_good, every=1 if deep else 12, first=3
        )
    assert problems == []
    assert failures > 3


@pytest.mark.parametrize("error", quick_only([errno.EMFILE, errno.EACCES, errno.EIO], (errno.EMFILE,)))
def test_a_read_that_fails_during_a_restore_of_a_whole_home_costs_no_sample(scratch, error):
    with opened(scratch / "home") as device:
        learn(device, a=30, b=20)
        backup(device.home, scratch / "backup")
        learn(device, a=30, c=20)
        held = sum(
            len(piece.positions) for s in device.ledger.shards() for g in device.ledger.lineage(s) for piece in g.pieces
        )
    number, failed = 0, True
    while failed:
        disk = RecordingDisk(scratch)
        disk.fail_read_at, disk.read_error = number, error
        try:
            restore(scratch / "backup", scratch / "home", disk=disk)
        except CauseError as failure:
            assert "\n" not in str(failure)  # noqa: PT017
        failed = disk.reads > number
        with opened(scratch / "home") as device:
            left = sum(
                len(piece.positions)
                for s in device.ledger.shards()
                for g in device.ledger.lineage(s)
                for piece in g.pieces
            )
        assert left == held, f"read {number}"
        number += 1
    assert number > 5


@pytest.mark.parametrize("kind", ["bayes", "additive"])
def test_a_device_that_could_not_be_loaded_again_after_an_error_is_loaded_by_the_next_call(scratch, monkeypatch, kind):
    """Whichever query fails: no call sees a ledger and a memory that do not fit together."""
    with opened(scratch / "home", kind=kind) as device:
        learn(device, a=30, b=20)
        learn(device, a=10)
        heads, held, rows = device.heads(), device.ledger.rounds_of("a"), device.home.database.rows
        failed = 0
        while True:
            left = failed  # queries that succeed before the disk fails

            def failing(*arguments):
                nonlocal left
                left -= 1
                if left < 0:
                    raise HomeError("the disk cannot be read")
                return rows(*arguments)

            with monkeypatch.context() as broken:
                broken.setattr(device.home.database, "rows", failing)
                try:
                    device.state.reload()
                    break
                except HomeError:
                    left = failed
                    with suppress(HomeError):  # receipts alone may have been left unfinished
                        device.predict(X)
            assert (device.repair(), device.heads(), device.ledger.rounds_of("a")) == (0, heads, held), failed
            failed += 1
    assert failed > 5
