"""A process is killed, another one opens the vault, and then the power goes: what the second one saw stays true.

What the killed process wrote is in the page cache: the next one sees it, and a power loss can still take it away.
"""

import shutil

import pytest

from cause.device.vault import Vault
from cause.device.vault.writing import Writer
from tests.device.vault.attacker import recoverable
from tests.device.vault.common import name
from tests.device.vault.life import Life, blobs, check, check_held
from tests.device.vault.reopening import failed_sync, killed
from tests.recording_disk import RecordingDisk, Sync, crash_states

ROTATING = pytest.mark.parametrize(
    "rotating", [pytest.param(False, id="fixed", marks=pytest.mark.long), pytest.param(True, id="rotating")]
)


def opened(life, root, disk):
    with Vault.open(root / "vault", life.source(root, disk), disk) as vault:
        return {one: vault.key(one) for one in vault.names()}


def kill_reopen_cut(life, tmp_path, first, every, most):
    """Kill, open again, cut the power at each moment from then on; then open a third time. Returns how many states."""
    states = 0
    for done in range(first, len(life.disk.operations) + 1, every):
        around, root = life.around(done), tmp_path / "killed"
        disk, pending = killed(life.disk, done, root)
        seen = opened(life, root, disk)
        check_held(seen, [promise[1] or {} for promise in around])
        end = len(disk.operations)
        for at, state in crash_states(disk, first=pending, most=most):
            cut = tmp_path / "cut"
            state.write_to(cut)
            held = check(life, cut, around)
            assert at < end or held == seen, "what an opening has shown is lost"
            shutil.rmtree(cut)
            states += 1
        shutil.rmtree(root)
    return states


@ROTATING
def test_what_is_seen_after_a_kill_outlives_a_power_loss(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    assert kill_reopen_cut(life, tmp_path, life.promises[1][0], every=9 if rotating else 6, most=6) > 60


@ROTATING
def test_two_kills_and_a_power_loss_during_the_second_recovery_do_no_harm(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    for done in range(life.promises[3][0] - 12, life.promises[3][0] + 1, 3):  # the first erasure
        around = life.around(done)
        disk, pending = killed(life.disk, done, tmp_path / "first")
        opened(life, tmp_path / "first", disk)
        for then in range(pending, len(disk.operations), 6):
            again, still = killed(disk, then, tmp_path / "second")
            opened(life, tmp_path / "second", again)
            for _, state in crash_states(again, first=still, most=3):
                state.write_to(tmp_path / "cut")
                check(life, tmp_path / "cut", around)
                shutil.rmtree(tmp_path / "cut")
                states += 1
            shutil.rmtree(tmp_path / "second")
        shutil.rmtree(tmp_path / "first")
    assert states > 50


@ROTATING
def test_a_power_loss_an_opening_and_another_power_loss_lose_nothing_that_was_seen(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    for number, (done, state) in enumerate(crash_states(life.disk, first=life.promises[1][0], most=6)):
        if number % 39:
            continue
        root = tmp_path / "first"
        state.write_to(root)
        disk, _ = killed(RecordingDisk(root), 0, tmp_path / "second")
        seen = opened(life, tmp_path / "second", disk)
        end = len(disk.operations)
        for at, again in crash_states(disk, most=4):
            again.write_to(tmp_path / "cut")
            held = check(life, tmp_path / "cut", life.around(done))
            assert at < end or held == seen
            shutil.rmtree(tmp_path / "cut")
            states += 1
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "second")
    assert states > 50


def test_the_check_finds_a_recovery_that_does_not_sync_what_it_relies_on(tmp_path, monkeypatch):
    life = Life(tmp_path / "life", rotating=False)
    life.live()
    sync = Writer.sync

    def careless(self, twins, others=()):
        twins = list(twins)
        if len(twins) < 4:  # all but that of an opening
            sync(self, twins, others)

    monkeypatch.setattr(Writer, "sync", careless)
    with pytest.raises(AssertionError, match=r"cannot be opened|was lost|is lost|taken for damage"):
        kill_reopen_cut(life, tmp_path, life.promises[1][0], every=1, most=8)


def test_keys_that_a_second_process_adds_outlive_a_power_loss(tmp_path):
    life = Life(tmp_path / "life", rotating=False)
    life.live()
    states = 0
    for done in range(life.promises[1][0], len(life.disk.operations) + 1, 4):
        root = tmp_path / "killed"
        disk, _ = killed(life.disk, done, root)
        with Vault.open(root / "vault", life.source(root, disk), disk) as vault:
            keys = vault.new_keys([name(77), name(78)])
            promised = len(disk.operations)
            held = {one: vault.key(one) for one in vault.names()}
        for _, state in crash_states(disk, first=promised, most=4):
            state.write_to(tmp_path / "cut")
            disk_after = RecordingDisk(tmp_path / "cut")
            assert opened(life, tmp_path / "cut", disk_after) == held | keys
            shutil.rmtree(tmp_path / "cut")
            states += 1
        shutil.rmtree(root)
    assert states > 20


@ROTATING
def test_after_a_failed_sync_an_opening_relies_on_nothing_that_never_reached_the_disk(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    syncs = [at for at, operation in enumerate(life.disk.operations) if isinstance(operation, Sync)]
    states = 0
    for done in (at for at in syncs if at > life.promises[1][0]):
        around, root = life.around(done), tmp_path / "failed"
        (before, after), erased = [promise[1] for promise in (around[0], around[-1])], around[0][2]
        disk = failed_sync(life.disk, done, root)
        stale = [data for path, data in disk.initial.files().items() if path.name.startswith(("table", "pages"))]
        with Vault.open(root / "vault", life.source(root, disk), disk) as vault:
            shown = {one: vault.key(one) for one in vault.names()}
            check_held(shown, [before, after])
            added = vault.new_keys([name(77)])
            added |= vault.new_keys([name(78), name(79)])
            end = len(disk.operations)
        for _, state in crash_states(disk, first=end, most=4):
            cut = tmp_path / "cut"
            state.write_to(cut)
            master = life.source(cut, RecordingDisk(cut)).read()
            destroyed = erased | (set(before.values()) - set(shown.values()))
            assert not destroyed & set(recoverable([master], blobs(cut) + stale).values()), (
                "an erased key can be opened"
            )
            held = opened(life, cut, RecordingDisk(cut))
            kept = {one: key for one, key in shown.items() if one in before}
            assert (kept | added).items() <= held.items() <= (shown | added).items()
            shutil.rmtree(cut)
            states += 1
        shutil.rmtree(root)
    assert states > 20
