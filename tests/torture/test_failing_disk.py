"""A full or broken disk, at any write: one clear line, a device that goes on or says what to do, and nothing lost."""

import errno
import os

import pytest

from cause.device.store.shelf import HomeShelf
from cause.errors import CauseError, HomeError
from tests.device.homes import learn, opened
from tests.recording_disk import RecordingDisk
from tests.torture.failing_writes import failing_writes
from tests.torture.kills import torture
from tests.torture.life import open_device, perform
from tests.torture.recorded_home import on
from tests.torture.sample_ids import translated
from tests.torture.test_kills import EVICTING, SHORT


@pytest.mark.parametrize(
    ("case", "error", "for_good"),
    [
        pytest.param(SHORT, errno.ENOSPC, True, id="short-full"),
        pytest.param(SHORT, errno.EIO, False, id="short-broken", marks=pytest.mark.long),
        pytest.param(EVICTING, errno.ENOSPC, True, id="evicting-full", marks=pytest.mark.long),
        pytest.param(EVICTING, errno.EIO, False, id="evicting-broken", marks=pytest.mark.long),
    ],
)
def test_a_write_that_fails_does_no_harm(case, error, for_good, deep):
    with torture(case) as tortured:
        failures = 0
        for call in range(len(case.calls)):
            count, problems = failing_writes(tortured, call, error=error, for_good=for_good, every=16 if deep else 48)
            assert problems == []
            failures += count
    assert failures > (9 if deep else 3)


@pytest.mark.long
@pytest.mark.parametrize("call", [pytest.param(0, id="learn", marks=pytest.mark.long), pytest.param(1, id="forget")])
def test_a_file_whose_syncs_fail_for_good_loses_nothing(call, deep):
    """Others go on being written: what is destroyed while the ledger cannot say so is missed by the next opening."""
    with torture(SHORT) as tortured:
        assert tortured.reference
        failures, problems = failing_writes(
            tortured, call, error=errno.EIO, for_good=True, same_file=True, syncs=True, cuts=4 if deep else 1
        )
    assert problems == []
    assert failures > 3


def test_a_leftover_that_is_never_destroyed_is_caught(monkeypatch):
    def put(self, key, blob):
        name = os.urandom(16)
        self._store.vault.new_key(name)
        self.files.write([(name, self._store.vault.seal(name, blob, b"sub-model"))])
        self.names[key] = name

    monkeypatch.setattr(HomeShelf, "put", put)  # what was written before the error stays
    with torture(SHORT) as tortured:
        _, problems = failing_writes(tortured, 2, error=errno.EIO, for_good=False, every=3)
    assert any("opens to a sub-model that saw" in problem for problem in problems)


def test_an_opening_that_fails_leaves_the_next_one_all_it_needs(scratch):
    """The process died before a forget was in effect; then the disk fails at each write of the opening."""
    device = open_device(scratch / "home", SHORT)
    perform(device, SHORT.calls[0])
    device.journal.accept(translated(device.ledger, SHORT.calls[1].requests))  # type: ignore[union-attr]
    device.close()
    number, reached = 0, True
    while reached:
        disk = RecordingDisk(scratch)
        disk.fail_at, disk.error = number, errno.EIO
        with on(disk):
            try:
                open_device(scratch / "home", SHORT).close()
            except CauseError as error:
                assert "\n" not in str(error)  # noqa: PT017
        reached = len(disk.operations) > number
        number += 1
    assert number > 3
    with open_device(scratch / "home", SHORT) as device:
        assert device.ledger.lineage(0).samples == 3


def test_a_ledger_without_room_refuses_an_upload_and_the_device_goes_on(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    learn(device, a=30)
    (pages,) = device.home.database.row("PRAGMA page_count")
    device.home.database.run(f"PRAGMA max_page_count={pages}")
    with pytest.raises(HomeError, match="full"):
        learn(device, **{f"user{n}": 1 for n in range(300)})
    reached = device.ledger.round
    device.home.database.run("PRAGMA max_page_count=1000000")
    learn(device, b=5)
    assert device.ledger.round == reached + 1
    assert device.waiting() == []
    device.close()
