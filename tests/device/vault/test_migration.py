"""A vault of version 0.1 is read, and brought over when it is opened for writing; no moment of that loses a key."""

import errno
import os
import shutil

import pytest

from cause.device.vault import FILES, FileKeySource, RotatingFileKeySource, Vault
from cause.errors import VaultError
from tests.device.vault.attacker import recoverable
from tests.device.vault.common import name
from tests.device.vault.life import blobs
from tests.device.vault.old_vault import put_generation, write_old
from tests.device.vault.reopening import killed
from tests.recording_disk import RecordingDisk, crash_states


def keys(*numbers):
    return {name(number): os.urandom(32) for number in numbers}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "master").write_bytes(os.urandom(32))
    return folder


def opened(root, disk=None, **options):
    disk = disk or RecordingDisk(root)
    return Vault.open(root / "vault", FileKeySource(root / "master", disk), disk, **options)


def held(vault):
    return {one: vault.key(one) for one in vault.names()}


def old_vault(root, generation=5):
    batches = [keys(*range(4)), keys(10), keys(20, 21)]
    write_old(root / "vault", (root / "master").read_bytes(), batches, generation)
    return batches[0] | batches[1] | batches[2]


def check_moved(root, expected):
    assert {path.name for path in (root / "vault").iterdir()} == set(FILES)
    with opened(root, read_only=True) as vault:
        assert held(vault) == expected
        assert vault.damage == []


@pytest.mark.parametrize("generation", [1, 4])
def test_an_old_vault_is_read_and_stays_as_it_is(root, generation):
    expected = old_vault(root, generation)
    before = {path.name: path.read_bytes() for path in (root / "vault").iterdir()}
    with opened(root, read_only=True) as vault:
        assert held(vault) == expected
        assert vault.generation == generation
        with pytest.raises(VaultError, match="reading only"):
            vault.new_key(name(99))
    assert {path.name: path.read_bytes() for path in (root / "vault").iterdir()} == before


@pytest.mark.parametrize("generation", [1, 4])
def test_an_old_vault_is_brought_over_when_it_is_opened_for_writing(root, generation):
    expected = old_vault(root, generation)
    with opened(root) as vault:
        assert held(vault) == expected
        assert vault.generation == generation
        expected |= vault.new_keys([name(50)])
        vault.erase([name(10)])
    del expected[name(10)]
    check_moved(root, expected)


def test_an_old_vault_without_keys_and_one_with_thousands_are_brought_over(root, tmp_path):
    write_old(root / "vault", (root / "master").read_bytes(), [{}])
    opened(root).close()
    check_moved(root, {})
    shutil.rmtree(root / "vault")
    many = keys(*range(3000))
    write_old(root / "vault", (root / "master").read_bytes(), [many])
    opened(root).close()
    check_moved(root, many)


@pytest.mark.parametrize("whole", [True, False], ids=["a newer generation", "half a newer generation"])
def test_an_erasure_that_the_old_version_had_begun_is_finished_or_undone(root, whole):
    old, new = keys(1, 2), keys(2)
    master = (root / "master").read_bytes()
    vault_id = write_old(root / "vault", master, [old], 3)
    wrap = bytearray((root / "vault" / "wrap").read_bytes())
    put_generation(root / "vault", wrap, master, vault_id, [new], 4)
    if not whole:
        path = root / "vault" / "keys.0"
        path.write_bytes(path.read_bytes()[:60].ljust(256, b"\0"))
    opened(root).close()
    check_moved(root, new if whole else old)


def test_a_rotating_source_of_one_copy_opens_an_old_vault_and_gets_its_second(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    source = RotatingFileKeySource.create(root / "master")
    (root / "master").write_bytes((root / "master").read_bytes()[:8192])
    expected = keys(1, 2)
    write_old(root / "vault", source.read(), [expected])
    with Vault.open(root / "vault", source) as vault:
        assert held(vault) == expected
        vault.erase([name(1)])
    data = (root / "master").read_bytes()
    assert data[:8192] == data[8192:]
    with Vault.open(root / "vault", source) as vault:
        assert vault.names() == {name(2)}


def check_cut(tmp_path, state, expected):
    cut = tmp_path / "cut"
    state.write_to(cut)
    before = blobs(cut)
    master = (cut / "master").read_bytes()
    assert recoverable([master], before) == expected
    with opened(cut, read_only=True) as vault:
        assert held(vault) == expected
    with opened(cut) as vault:
        assert held(vault) == expected
    check_moved(cut, expected)
    shutil.rmtree(cut)


@pytest.mark.long
def test_a_power_loss_at_any_moment_loses_nothing(root, tmp_path):
    expected = old_vault(root)
    disk = RecordingDisk(root)
    opened(root, disk).close()
    states = 0
    for _, state in crash_states(disk, most=12):
        check_cut(tmp_path, state, expected)
        states += 1
    assert states > 150


def test_a_kill_at_any_moment_another_opening_and_a_power_loss_lose_nothing(root, tmp_path, thorough):
    expected = old_vault(root)
    disk = RecordingDisk(root)
    opened(root, disk).close()
    states = 0
    for done in range(0, len(disk.operations), 2 if thorough else 7):
        again, pending = killed(disk, done, tmp_path / "killed")
        opened(tmp_path / "killed", again).close()
        for number, (_, state) in enumerate(crash_states(again, first=pending, most=4)):
            if number % 3 == 0:
                check_cut(tmp_path, state, expected)
                states += 1
        shutil.rmtree(tmp_path / "killed")
    assert states > (150 if thorough else 40)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_an_error_at_any_write_loses_nothing(root, tmp_path, error):
    expected = old_vault(root)
    disk = RecordingDisk(root)
    shutil.copytree(root, tmp_path / "saved")
    opened(root, disk).close()
    for fail_at in range(len(disk.operations)):
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "saved", root)
        with pytest.raises(VaultError, match=os.strerror(error)):
            opened(root, RecordingDisk(root, fail_at=fail_at, error=error)).close()
        with opened(root, read_only=True) as vault:
            assert held(vault) == expected
        opened(root).close()
        check_moved(root, expected)


def test_nothing_of_the_old_files_is_left_when_they_are_removed(root):
    old_vault(root)
    disk = RecordingDisk(root)
    inodes = [disk.now.names[path.relative_to(root)] for path in (root / "vault").iterdir()]
    opened(root, disk).close()
    assert not any(any(disk.now.inodes[inode]) for inode in inodes)


def test_a_reader_looks_again_when_the_vault_is_brought_over_meanwhile(root):
    expected = old_vault(root)

    class MovingMeanwhile(RecordingDisk):
        moved = False

        def read(self, path):
            data = super().read(path)
            if path.name == "wrap" and not self.moved:
                self.moved = True
                opened(root).close()
            return data

    with opened(root, MovingMeanwhile(root), read_only=True) as vault:
        assert held(vault) == expected
