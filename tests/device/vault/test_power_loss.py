"""Whenever the power goes or a write fails: an old or a new generation, whole, and nothing that was erased."""

import errno
import hashlib
import itertools
import os
import shutil
from functools import partial

import pytest

from cause.device.vault import Vault
from cause.device.vault.mirrored_file import MirroredFile
from cause.device.vault.writing import Writer
from cause.errors import VaultError
from tests.device.vault.attacker import recoverable
from tests.device.vault.common import name
from tests.device.vault.life import PAGE, Life, ManyPages, blobs, check, go_on
from tests.quick import quick_only
from tests.recording_disk import RecordingDisk, crash_states

ROTATING = pytest.mark.parametrize(
    "rotating", [pytest.param(False, id="fixed", marks=pytest.mark.long), pytest.param(True, id="rotating")]
)


@ROTATING
def test_every_power_loss_leaves_a_generation_that_is_whole(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    for number, (done, state) in enumerate(crash_states(life.disk, most=5)):
        root = tmp_path / "state"
        state.write_to(root)
        check(life, root, life.around(done))
        if number % 11 == 0:
            go_on(life, root)
        shutil.rmtree(root)
        states += 1
    assert states > 120
    assert life.promises[-1][1].keys() == {name(2), name(3), name(10)}


@pytest.mark.long
def test_every_power_loss_in_an_erasure_of_many_pages_leaves_a_generation_that_is_whole(tmp_path):
    life = ManyPages(tmp_path / "life", rotating=False)
    life.live()
    for done, state in crash_states(life.disk, first=life.promises[2][0], most=3):
        root = tmp_path / "state"
        state.write_to(root)
        check(life, root, life.around(done))
        shutil.rmtree(root)
    assert life.promises[-1][1].keys() == {name(48)}


@ROTATING
def test_a_second_power_loss_during_recovery_does_no_harm(tmp_path, rotating, thorough):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    start = life.promises[2][0]
    for number, (done, state) in enumerate(crash_states(life.disk, first=start, most=16)):
        if number % (57 if thorough else 131):
            continue
        root = tmp_path / "state"
        state.write_to(root)
        disk = RecordingDisk(root)
        check(life, root, life.around(done), disk)
        for _, again in crash_states(disk, first=1, most=6):
            second = tmp_path / "again"
            again.write_to(second)
            check(life, second, life.around(done))
            shutil.rmtree(second)
            states += 1
        shutil.rmtree(root)
    assert states > (40 if thorough else 15)


def unsafe(monkeypatch, what):
    """Break the order of things in one place."""
    write, sync = MirroredFile.write_at, Writer.sync

    def is_slot(twin, data):
        return twin.path.name == "root" and any(data)

    def hasty(self, offset, data):
        write(self, offset, data)
        if is_slot(self, data):
            write(self, 4096 - offset, bytes(4096))

    def forgetful(self, offset, data):
        if self.path.name != "root" or any(data):
            write(self, offset, data)

    def lazy(self, offset, data):
        if any(data) or self.path.name == "root":  # all but the zeros over pages and tables
            write(self, offset, data)

    def partial(left_out):
        return lambda self, twins, others=(): sync(
            self, [one for one in twins if left_out not in one.path.name], others
        )

    if what == "files are not synced":
        monkeypatch.setattr(RecordingDisk, "sync", lambda self, *files: None)
    elif what == "folders are not synced":
        monkeypatch.setattr(RecordingDisk, "sync_folder", lambda self, folder: None)
    elif what == "the old key is wiped too early":
        monkeypatch.setattr(MirroredFile, "write_at", hasty)
    elif what == "old pages are not overwritten":
        monkeypatch.setattr(MirroredFile, "write_at", lazy)
    elif what == "the old key is not wiped":
        monkeypatch.setattr(MirroredFile, "write_at", forgetful)
    else:
        monkeypatch.setattr(Writer, "sync", partial(what.split()[0]))


MISTAKES = [
    ("files are not synced", "cannot be opened|taken for damage|was lost"),
    ("folders are not synced", "cannot be opened|taken for damage"),
    ("pages are not synced", "cannot be opened|taken for damage|was lost"),
    ("table is not synced", "cannot be opened|taken for damage|was lost"),
    ("the old key is wiped too early", "cannot be opened|taken for damage|was lost"),
    ("the old key is not wiped", "an erased key can be opened|another generation"),
    ("old pages are not overwritten", "whole file of another generation|a page is left|the copies differ"),
]


@pytest.mark.parametrize(("what", "message"), quick_only(MISTAKES, (MISTAKES[2], MISTAKES[5])))
def test_the_check_finds_each_of_these_mistakes(tmp_path, monkeypatch, what, message):
    unsafe(monkeypatch, what)
    life = Life(tmp_path / "life", rotating=False)
    life.live()
    with pytest.raises(AssertionError, match=message):
        check_all(life, tmp_path)


def check_all(life, tmp_path):
    for number, (done, state) in enumerate(crash_states(life.disk)):
        root = tmp_path / f"state-{number}"
        state.write_to(root)
        check(life, root, life.around(done))
        shutil.rmtree(root)


@ROTATING
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
def test_an_error_at_any_write_is_raised_and_leaves_a_generation_that_is_whole(
    tmp_path, rotating, for_good, error, thorough
):
    whole = Life(tmp_path / "whole", rotating)
    whole.live()
    first = 2 * rotating + for_good  # other writes in each of the four cases
    for fail_at in range(0 if thorough else first, len(whole.disk.operations), 1 if thorough else 4):
        life = Life(tmp_path / f"life-{fail_at}", rotating, fail_at=fail_at, error=error, for_good=for_good)
        message = outcome(life.live)
        if error == errno.EIO or for_good or message:  # room that was not needed yet may be missing once
            assert os.strerror(error) in message
        around = [life.promises[-1], *whole.promises[len(life.promises) :][:1]]
        names = [set(promise[1] or ()) for promise in around]
        root, disk = life.root, RecordingDisk(life.root)
        if not (root / "vault" / "root").exists():
            Vault.create(root / "vault", life.source(root, disk), disk, page_bytes=PAGE).close()
            continue
        with Vault.open(root / "vault", life.source(root, disk), disk) as vault:
            assert vault.names() in names
        go_on(life, root)
        shutil.rmtree(root)


@pytest.mark.parametrize("keys", [5, 60])
def test_a_full_disk_refuses_new_keys_and_still_erases(tmp_path, keys):
    life = Life(tmp_path / "life", rotating=False)
    source = life.source(life.root, life.disk)
    with Vault.create(life.root / "vault", source, life.disk, page_bytes=PAGE) as vault:
        numbers = itertools.count()
        for _ in range(keys):
            vault.new_key(name(next(numbers)))
        sizes = {path: path.stat().st_size for path in (life.root / "vault").iterdir()}
        life.disk.step = no_room_beyond(sizes, life.disk)
        with pytest.raises(VaultError, match="No space left"):
            fill(vault, numbers)
        held = vault.names()
        assert len(held) >= keys
        assert vault.erase([name(0)]) == {name(0)}  # its page is rewritten into a free one
        vault.new_key(name(10**6))  # and there is room again
        held = held - {name(0)} | {name(10**6)}
        assert vault.names() == held
        some = sorted(held)[::3]  # of all pages, more than are free
        assert vault.erase(some) == set(some)
        assert vault.names() == held - set(some)
        assert {path: path.stat().st_size for path in (life.root / "vault").iterdir()} == sizes
    with Vault.open(life.root / "vault", source, life.disk) as vault:
        assert vault.names() == held - set(some)


def outcome(action):
    """What an action fails with."""
    try:
        action()
    except VaultError as error:
        return str(error)
    return ""


def fill(vault, numbers):
    for number in numbers:
        vault.new_key(name(number))


def no_room_beyond(sizes, disk):
    """A disk on which what is there can be overwritten and nothing can grow."""
    step, room = disk.step, {disk.now.names[path.relative_to(disk.root)]: size for path, size in sizes.items()}

    def full(operation):
        if hasattr(operation, "data") and operation.offset + len(operation.data) > room[operation.inode]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        step(operation)

    return full


def test_while_the_disk_fails_the_vault_refuses_changes_and_gives_its_keys_and_then_it_goes_on(tmp_path):
    life = Life(tmp_path / "life", rotating=False)
    source = life.source(life.root, life.disk)
    with Vault.create(life.root / "vault", source, life.disk, page_bytes=PAGE) as vault:
        keys = vault.new_keys(map(name, range(3)))
        life.disk.fail_at, life.disk.error = len(life.disk.operations) + 7, errno.EIO  # the old slot's wiping
        life.disk.for_good = True
        with pytest.raises(VaultError, match="may not have been finished"):
            vault.erase([name(0)])
        for _ in range(2):
            with pytest.raises(VaultError, match="still has an error of the disk: Input/output error"):
                vault.new_key(name(5))
            assert vault.key(name(1)) == keys[name(1)]
        life.disk.fail_at = None
        vault.erase([name(0)])  # which the recovery has finished
        keys[name(5)] = vault.new_key(name(5))
        del keys[name(0)]
        assert {one: vault.key(one) for one in vault.names()} == keys
        assert recoverable([source.read()], blobs(life.root)) == keys
    with Vault.open(life.root / "vault", source, life.disk) as vault:
        assert {one: vault.key(one) for one in vault.names()} == keys


class GoingOn(Life):
    """After an error of the disk the same vault does the step once more. The keys follow from their names."""

    errors = 0

    def steps(self, vault):
        vault.new_keys = lambda names: vault.put_many({one: hashlib.sha256(one).digest() for one in names})
        vault.new_key = lambda one: vault.new_keys([one])
        for step in super().steps(vault):
            yield partial(self._twice, vault, step)

    def _twice(self, vault, step):
        before = vault.names()
        try:
            step()
        except VaultError:
            self.errors += 1
            vault.erase([])  # nothing, but it reads what is on the disk
            assert vault.names() <= before
            step()


@ROTATING
def test_a_vault_goes_on_after_an_error_at_any_write_and_survives_the_next_power_loss(tmp_path, rotating, thorough):
    whole = Life(tmp_path / "whole", rotating)
    whole.live()
    first, last = whole.promises[1][0], whole.promises[-1][0]
    errors = states = 0
    for fail_at in range(first + 3 * rotating, last, 1 if thorough else 6):
        life = GoingOn(tmp_path / f"life-{fail_at}", rotating, fail_at=fail_at, error=errno.EIO)
        life.live()
        errors += life.errors
        assert life.promises[-1][1].keys() == {name(2), name(3), name(10)}
        for number, (done, state) in enumerate(crash_states(life.disk, first=fail_at, most=3)):
            if number % (1 if thorough else 9):
                continue
            root = tmp_path / "state"
            state.write_to(root)
            check(life, root, life.around(done))
            shutil.rmtree(root)
            states += 1
        shutil.rmtree(life.root)
    assert errors > 10
    assert states > 100
