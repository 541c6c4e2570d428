"""Whenever the power goes: nothing that was promised is lost, nothing that was forgotten comes back."""

import shutil

import pytest

from cause.device.device import Cause
from cause.device.home.forgetting import Forgetting
from cause.device.store.ingest import Ingest
from cause.device.store.sealed_store import SealedStore
from cause.errors import HomeError
from tests.quick import quick_only
from tests.recording_disk import RecordingDisk, crash_states
from tests.torture.calls import random_case
from tests.torture.kills import torture
from tests.torture.life import open_device, perform
from tests.torture.power_loss import power_losses
from tests.torture.recorded_home import on
from tests.torture.test_kills import EVICTING, SHORT
from tests.torture.vfs import RecordingVFSFile


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(EVICTING, id="evicting", marks=pytest.mark.long),
        pytest.param(random_case(7), id="random", marks=pytest.mark.long),
    ],
)
def test_a_power_loss_at_any_write_does_no_harm(case, thorough):
    states = 20 if thorough else 8
    with torture(case) as tortured:
        losses = power_losses(tortured, most=states)
    assert losses.problems == ()
    assert losses.states == states
    assert losses.writes > 150


def test_a_power_loss_while_a_home_is_made_leaves_a_home_or_none(scratch, deep):
    (scratch / "life").mkdir()
    disk = RecordingDisk(scratch / "life")
    with on(disk):
        open_device(scratch / "life" / "home", SHORT).close()
    states = 0
    for _, state in list(crash_states(disk, most=4 if deep else 2))[:: 1 if deep else 8]:
        state.write_to(scratch / "state")
        home = scratch / "state" / "home"
        if (home / "cause.toml").exists():
            Cause(home).close()
        else:
            with pytest.raises(HomeError, match="is not a home"):
                Cause(home)
        device = open_device(home, SHORT)
        if states % (8 if deep else 4) == 0:
            perform(device, SHORT.calls[0])
        device.close()
        shutil.rmtree(scratch / "state")
        states += 1
    assert states > (60 if deep else 7)


def files_are_not_synced():
    RecordingDisk.sync = lambda self, *files: None


def folders_are_not_synced():
    RecordingDisk.sync_folder = lambda self, folder: None


def the_ledger_is_not_synced():
    RecordingVFSFile.xSync = lambda self, flags: None


def keys_go_before_the_ledger_lets_go():
    apply = Forgetting._apply

    def hasty(self, rewrite, selection):
        self._store.vault.erase(rewrite.old)
        apply(self, rewrite, selection)

    Forgetting._apply = hasty


def a_round_is_recorded_before_it_is_written():
    write, record = SealedStore.write, Ingest.record
    held = []

    def later(self, keys, contents):
        self.vault.put_many(keys)
        held[:] = contents

    def recorded(self, *args):
        record(self, *args)
        SealedStore.write, Ingest.record = write, record
        self._store.blocks.files.write(held)

    SealedStore.write, Ingest.record = later, recorded  # of the first round only


@pytest.mark.parametrize(
    "sabotage",
    quick_only(
        [
            files_are_not_synced,
            folders_are_not_synced,
            the_ledger_is_not_synced,
            keys_go_before_the_ledger_lets_go,
            a_round_is_recorded_before_it_is_written,
        ],
        [files_are_not_synced, a_round_is_recorded_before_it_is_written],
    ),
)
def test_an_order_of_writes_that_is_not_safe_is_caught(sabotage):
    with torture(SHORT) as tortured:
        assert power_losses(tortured, most=100, sabotage=sabotage).problems != ()
