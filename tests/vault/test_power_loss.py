"""Whenever the power goes or a write fails: an old or a new generation, whole, and nothing that was erased."""

import errno
import itertools
import os
import shutil

import pytest

import cause.vault.vault as vault_module
from cause.errors import VaultError
from cause.vault import FileKeySource, RotatingFileKeySource, Vault
from tests.recording_disk import RecordingDisk, RecordingFile, crash_states
from tests.vault.attacker import recoverable

CHUNK = 256


def name(number):
    return b"name" + number.to_bytes(12, "big")


class Life:
    """A vault's life on a recording disk: after each step, how much was done to the disk and what the vault holds."""

    def __init__(self, root, rotating, **failure):
        self.root, self.rotating = root, rotating
        root.mkdir()
        if rotating:
            RotatingFileKeySource.create(root / "master")
        else:
            (root / "master").write_bytes(os.urandom(32))
        self.disk = RecordingDisk(root, **failure)
        self.promises = [(0, None, frozenset())]  # operations, keys held (None: no vault), keys destroyed
        self.made = {}

    def source(self, root, disk):
        return RotatingFileKeySource(root / "master", disk) if self.rotating else FileKeySource(root / "master", disk)

    def promise(self, vault):
        held = {one: vault.key(one) for one in vault.names()}
        self.made.update(held)
        gone = frozenset(key for one, key in self.made.items() if one not in held)
        self.promises.append((len(self.disk.operations), held, gone))

    def live(self):
        source = self.source(self.root, self.disk)
        with Vault.create(self.root / "vault", source, self.disk, chunk_bytes=CHUNK) as vault:
            self.promise(vault)
            for step in self.steps(vault):
                step()
                self.promise(vault)

    def steps(self, vault):
        yield lambda: vault.new_keys(map(name, range(4)))
        yield lambda: vault.new_key(name(10))
        yield lambda: vault.erase([name(1)])
        yield lambda: vault.new_keys([name(11), name(12)])
        yield lambda: vault.erase([name(0), name(11)])
        yield lambda: vault.erase([name(12)])

    def around(self, done):
        """What had been promised when that much was done, and what was under way."""
        at = max(index for index, promise in enumerate(self.promises) if promise[0] <= done)
        return self.promises[at : at + 2]


def check(life, root, promised, disk=None):
    """Open what a power loss left in a folder: it holds what was promised before or after, and works."""
    disk = disk or RecordingDisk(root)
    _, _, gone = promised[0]
    master = life.source(root, disk).read()
    before = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert not gone & set(recoverable([master], before).values()), "an erased key can be opened"
    try:
        vault = Vault.open(root / "vault", life.source(root, disk), disk, chunk_bytes=CHUNK)
    except VaultError:
        assert promised[0][1] is None, "a vault that was made cannot be opened"
        assert not (root / "vault" / "wrap").exists(), "half a vault cannot be opened"
        with Vault.create(root / "vault", life.source(root, disk), disk, chunk_bytes=CHUNK) as vault:
            vault.new_key(name(1))
        return
    with vault:
        held = {one: vault.key(one) for one in vault.names()}
        assert held in [promise[1] or {} for promise in promised]
        after = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
        master = life.source(root, disk).read()
        assert recoverable([master], after) == held, "opening leaves nothing of another generation"
        assert sum(any(path.read_bytes()) for path in (root / "vault").glob("keys.*")) == 1, (
            "a whole file of another generation is left"
        )
        assert sum(any((root / "vault" / "wrap").read_bytes()[start:][:4096]) for start in (0, 4096)) == 1, (
            "a wrapping key of another generation is left"
        )
        if life.rotating:
            slots = (root / "master").read_bytes()
            assert sum(any(slots[start:][:4096]) for start in (0, 4096)) == 1, "an old master key is left"


def go_on(life, root):
    """What was opened after a power loss can be used as before."""
    disk = RecordingDisk(root)
    source = life.source(root, disk)
    with Vault.open(root / "vault", source, disk, chunk_bytes=CHUNK) as vault:
        kept = {one: vault.key(one) for one in vault.names()}
        kept |= vault.new_keys([name(77), name(78)])
        vault.erase([name(77)])
        del kept[name(77)]
    with Vault.open(root / "vault", source, disk, read_only=True) as vault:
        assert {one: vault.key(one) for one in vault.names()} == kept


@pytest.mark.parametrize("rotating", [False, True], ids=["fixed", "rotating"])
def test_every_power_loss_leaves_a_generation_that_is_whole(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    for number, (done, state) in enumerate(crash_states(life.disk)):
        root = tmp_path / "state"
        state.write_to(root)
        check(life, root, life.around(done))
        if number % 7 == 0:
            go_on(life, root)
        shutil.rmtree(root)
        states += 1
    assert states > 150
    assert life.promises[-1][1].keys() == {name(2), name(3), name(10)}


@pytest.mark.parametrize("rotating", [False, True], ids=["fixed", "rotating"])
def test_a_second_power_loss_during_recovery_does_no_harm(tmp_path, rotating):
    life = Life(tmp_path / "life", rotating)
    life.live()
    states = 0
    start = life.promises[2][0]
    for number, (done, state) in enumerate(crash_states(life.disk, first=start)):
        if number % 5:
            continue
        root = tmp_path / "state"
        state.write_to(root)
        disk = RecordingDisk(root)
        check(life, root, life.around(done), disk)
        for _, again in crash_states(disk, first=1, most=8):
            second = tmp_path / "again"
            again.write_to(second)
            check(life, second, life.around(done))
            shutil.rmtree(second)
            states += 1
        shutil.rmtree(root)
    assert states > 80


def unsafe(monkeypatch, what):
    """Break the order of things in one place."""
    if what == "files are not synced":
        monkeypatch.setattr(RecordingDisk, "sync", lambda self, *files: None)
    elif what == "folders are not synced":
        monkeypatch.setattr(RecordingDisk, "sync_folder", lambda self, folder: None)
    elif what == "the old key is wiped too early":
        put = vault_module.put_slot

        def hasty(file, magic, slot):
            put(file, magic, slot)
            vault_module.wipe_other(file, slot)

        monkeypatch.setattr(vault_module, "put_slot", hasty)
    elif what == "old keys are not overwritten":
        write = RecordingFile.write_at

        def lazy(self, offset, data):
            if any(data) or len(data) == 4096 or offset:  # all but the zeros over a key file
                write(self, offset, data)

        monkeypatch.setattr(RecordingFile, "write_at", lazy)
    elif what == "the old key is not wiped":
        monkeypatch.setattr(vault_module, "wipe_other", lambda file, keep: None)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("files are not synced", "cannot be opened"),
        ("folders are not synced", "cannot be opened"),
        ("the old key is wiped too early", "cannot be opened"),
        ("the old key is not wiped", "an erased key can be opened|another generation"),
        ("old keys are not overwritten", "whole file of another generation"),
    ],
)
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


@pytest.mark.parametrize("rotating", [False, True], ids=["fixed", "rotating"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
def test_an_error_at_any_write_is_told_and_leaves_a_generation_that_is_whole(tmp_path, rotating, for_good, error):
    whole = Life(tmp_path / "whole", rotating)
    whole.live()
    for fail_at in range(len(whole.disk.operations)):
        life = Life(tmp_path / f"life-{fail_at}", rotating, fail_at=fail_at, error=error, for_good=for_good)
        with pytest.raises(VaultError, match=os.strerror(error)):
            life.live()
        around = life.promises[-1], whole.promises[len(life.promises)]
        names = [set(promise[1] or ()) for promise in around]
        root, disk = life.root, RecordingDisk(life.root)
        if not (root / "vault" / "wrap").exists():
            Vault.create(root / "vault", life.source(root, disk), disk, chunk_bytes=CHUNK).close()
            continue
        with Vault.open(root / "vault", life.source(root, disk), disk, chunk_bytes=CHUNK) as vault:
            assert vault.names() in names
        go_on(life, root)
        shutil.rmtree(root)


def test_a_full_disk_refuses_new_keys_and_still_erases(tmp_path):
    life = Life(tmp_path / "life", rotating=False)
    source = life.source(life.root, life.disk)
    with Vault.create(life.root / "vault", source, life.disk, chunk_bytes=CHUNK) as vault:
        numbers = itertools.count()
        for _ in range(5):
            vault.new_key(name(next(numbers)))
        sizes = {path: path.stat().st_size for path in (life.root / "vault").iterdir()}
        life.disk.step = no_room_beyond(sizes, life.disk)
        with pytest.raises(VaultError, match="No space left"):
            fill(vault, numbers)
        held = vault.names()
        assert len(held) >= 5
        assert vault.erase([name(0)]) == {name(0)}  # the keys are rewritten in place of what lay there
        vault.new_key(name(10**6))  # and there is room again
        assert vault.names() == held - {name(0)} | {name(10**6)}
        assert {path: path.stat().st_size for path in (life.root / "vault").iterdir()} == sizes


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


def test_after_an_error_the_vault_refuses_changes_until_it_is_opened_again(tmp_path):
    life = Life(tmp_path / "life", rotating=False)
    source = life.source(life.root, life.disk)
    with Vault.create(life.root / "vault", source, life.disk, chunk_bytes=CHUNK) as vault:
        keys = vault.new_keys(map(name, range(3)))
        life.disk.fail_at, life.disk.error = len(life.disk.operations) + 3, errno.EIO  # the old slot's wiping
        with pytest.raises(VaultError, match="may not have been finished"):
            vault.erase([name(0)])
        with pytest.raises(VaultError, match="open it again"):
            vault.new_key(name(5))
    life.disk.fail_at = None
    with Vault.open(life.root / "vault", source, life.disk, chunk_bytes=CHUNK) as vault:
        assert vault.names() == {name(1), name(2)}
    blobs = [path.read_bytes() for path in life.root.rglob("*") if path.is_file()]
    assert keys[name(0)] not in recoverable([source.read()], blobs).values()
