"""Bytes that change on the disk: what one copy has lost is taken from the other, named, and restored."""

import random

import pytest

from cause.device.disk import Disk
from cause.device.vault import FILES, RotatingFileKeySource, Vault
from cause.errors import VaultError
from tests.device.vault.common import PAGE, SOURCE, files, name, used


@pytest.fixture
def filled(folder):
    """A vault of two pages, with records added to one of them, and its keys."""
    with Vault.create(folder, SOURCE, page_bytes=PAGE) as vault:
        vault.new_keys(map(name, range(12)))
        vault.erase([name(0), name(3)])
        vault.new_keys(map(name, range(20, 32)))
        vault.new_keys([name(50), name(51)])
        vault.new_key(name(52))
        return folder, {one: vault.key(one) for one in vault.names()}


def flip(path, at, bit):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def check_kept(folder, keys, named):
    """Readers and writers get all keys and name the damage, readers change nothing, and writers mend it."""
    damaged = files(folder)
    with Vault.open(folder, SOURCE, read_only=True) as vault:
        assert {one: vault.key(one) for one in vault.names()} == keys
        assert any(named in line for line in vault.damage), (named, vault.damage)
    assert files(folder) == damaged
    with Vault.open(folder, SOURCE) as vault:
        assert {one: vault.key(one) for one in vault.names()} == keys
        assert any(named in line for line in vault.damage)
    with Vault.open(folder, SOURCE) as vault:
        assert vault.damage == []


@pytest.mark.parametrize("file", FILES)
def test_a_flipped_bit_anywhere_in_one_copy_loses_nothing_is_named_and_mended(filled, file):
    folder, keys = filled
    whole = files(folder)
    draw = random.Random(file)
    stored = [at for at, byte in enumerate(whole[file]) if byte]
    places = draw.sample(stored, min(20, len(stored))) + draw.sample(range(len(whole[file])), 8)
    for at in places:
        flip(folder / file, at, draw.randrange(8))
        check_kept(folder, keys, f"{file}'")
        assert files(folder) == whole, at


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("change", ["missing", "empty", "half", "zeros", "noise"])
def test_a_copy_that_is_lost_or_overwritten_is_made_anew(filled, file, change):
    folder, keys = filled
    whole = files(folder)
    if file.startswith("table") and not any(whole[file]) and change in ("empty", "half", "zeros", "noise"):
        pytest.skip("nothing is stored in it")
    half = len(whole[file]) // 2
    changed = {
        "missing": None,
        "empty": b"",
        "half": whole[file][:half],
        "zeros": bytes(len(whole[file])),
        "noise": random.Random(1).randbytes(len(whole[file])),
    }[change]
    (folder / file).unlink()
    if changed is not None:
        (folder / file).write_bytes(changed)
    with Vault.open(folder, SOURCE) as vault:
        assert {one: vault.key(one) for one in vault.names()} == keys
        if whole[file][half:].strip(b"\0") or change != "half":
            assert any(f"{file}'" in line for line in vault.damage)
    assert files(folder) == whole
    with Vault.open(folder, SOURCE) as vault:
        assert vault.damage == []


def test_both_copies_may_be_damaged_in_different_records(filled):
    folder, keys = filled
    whole = files(folder)
    page = next(
        at
        for at in range(0, len(whole["pages"]), PAGE)
        if whole["pages"][at + used(12) : at + used(12, 2)].strip(b"\0")
    )
    flip(folder / "pages", page + used(12) + 50, 1)
    flip(folder / "pages.copy", page + used(12, 2) + 50, 1)
    flip(folder / "root", 4096 if any(whole["root"][4096:]) else 0, 1)
    flip(folder / "table.0.copy", 90, 1)
    check_kept(folder, keys, "pages.copy'")
    assert files(folder) == whole


def test_the_same_record_damaged_in_both_copies_is_named_and_nothing_is_written(filled):
    folder, _ = filled
    whole = files(folder)
    for file in ("root", "table.0", "pages"):
        at = next(at for at, byte in enumerate(whole[file]) if byte) + 100
        for one in (file, file + ".copy"):
            flip(folder / one, at, 1)
        damaged = files(folder)
        for read_only in (True, False):
            with pytest.raises(VaultError, match=file):
                Vault.open(folder, SOURCE, read_only=read_only)
        assert files(folder) == damaged
        for one in (file, file + ".copy"):
            flip(folder / one, at, 1)


def test_a_flipped_bit_in_a_rotating_key_file_loses_nothing_and_is_mended(tmp_path, folder):
    path = tmp_path / "master"
    source = RotatingFileKeySource.create(path)
    with Vault.create(folder, source, page_bytes=PAGE) as vault:
        keys = vault.new_keys(map(name, range(3)))
        vault.erase([name(0)])
    whole = path.read_bytes()
    for at in [at for at, byte in enumerate(whole) if byte]:
        flip(path, at, 3)
        with Vault.open(folder, source) as vault:
            assert vault.key(name(1)) == keys[name(1)]
        assert path.read_bytes() == whole


def test_keys_that_are_added_between_the_reads_of_both_copies_are_no_damage(vault, folder):
    vault.new_key(name(1))
    to_add = [name(2), name(3)]

    class WriterInBetween(Disk):
        def read_part(self, path, offset, size):
            data = super().read_part(path, offset, size)
            while path.name == "pages" and to_add:  # the first copy has been read, the second one has not
                vault.new_key(to_add.pop(0))
            return data

    with Vault.open(folder, SOURCE, WriterInBetween(), read_only=True) as reader:
        assert reader.damage == []
        assert reader.names() == {name(1), name(2), name(3)}
