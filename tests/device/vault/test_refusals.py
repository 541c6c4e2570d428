"""What is refused on opening, and what a torn end of a page means. A refusal changes nothing."""

import shutil

import pytest

from cause.device.vault import Vault
from cause.errors import VaultError
from tests.device.vault.common import OTHER, PAGE, SOURCE, files, name, used


def damage(folder, file, change):
    """Change a file and its second copy in the same way."""
    for path in (folder / file, folder / (file + ".copy")):
        path.write_bytes(change(path.read_bytes()))


def exchange(data, first, second, end):
    return data[:first] + data[second:end] + data[first:second] + data[end:]


def flip(at):
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def on_page(change):
    """Change page 1, which holds all keys."""
    return lambda data: data[:PAGE] + change(data[PAGE : 2 * PAGE]).ljust(PAGE, b"\0") + data[2 * PAGE :]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("root", lambda data: b"", "damaged or foreign"),
        ("root", lambda data: bytes(len(data)), "holds no key"),
        ("root", lambda data: data[:40] + b"\0\2" + data[42:], "update cause"),
        ("root", flip(100), "holds no key"),
        ("table.0", lambda data: b"", "not a key file"),
        ("table.0", lambda data: b"something else" * 100, "not a key file"),
        ("table.0", lambda data: data[:8] + b"\0\2" + data[10:60], "update cause"),
        ("table.0", lambda data: data[:60], "damaged"),
        ("table.0", flip(80), "damaged"),
        ("table.0", lambda data: data[:17] + b"\7" + data[18:80], "generation 7"),
        ("pages", lambda data: b"", "not a key file"),
        ("pages", lambda data: b"something else" * 1000, "not a key file"),
        ("pages", on_page(lambda page: page[:8] + b"\0\2" + page[10:60]), "update cause"),
        ("pages", on_page(lambda page: page[:60]), "damaged"),
        ("pages", on_page(flip(80)), "damaged"),
        ("pages", on_page(flip(190)), "damaged at byte"),
        ("pages", on_page(lambda page: page[:17] + b"\7" + page[18:80]), "generation 7"),
        ("pages", on_page(lambda page: exchange(page, used(2), used(2, 3), used(2, 3, 3))), "damaged at byte"),
        ("pages", on_page(lambda page: page[: used(2)] + page[used(2, 3) :]), "damaged at byte"),
    ],
)
def test_what_is_damaged_foreign_or_newer_in_both_copies_is_named_and_nothing_changes(closed, file, change, message):
    damage(closed, file, change)
    before = files(closed)
    for read_only in (False, True):
        with pytest.raises(VaultError, match=message) as error:
            Vault.open(closed, SOURCE, read_only=read_only)
        assert file in str(error.value)
    assert files(closed) == before


def test_another_master_key_is_distinguished_from_damage_and_changes_nothing(closed):
    before = files(closed)
    with pytest.raises(VaultError, match="another vault's"):
        Vault.open(closed, OTHER)
    assert files(closed) == before


@pytest.mark.parametrize("missing", ["root", "table.0", "pages"])
def test_a_file_that_is_missing_with_its_copy_is_named(closed, missing):
    (closed / missing).unlink()
    (closed / (missing + ".copy")).unlink()
    before = files(closed)
    with pytest.raises(VaultError, match=missing):
        Vault.open(closed, SOURCE)
    assert files(closed) == before


@pytest.mark.parametrize("file", ["table.0", "pages"])
def test_the_key_file_of_another_vault_is_refused(closed, tmp_path, file):
    with Vault.create(tmp_path / "other", SOURCE, page_bytes=PAGE) as other:
        other.new_keys([name(1), name(2)])
        other.erase([name(1)])
    for end in ("", ".copy"):
        shutil.copy(tmp_path / "other" / (file + end), closed / (file + end))
    with pytest.raises(VaultError, match="another vault"):
        Vault.open(closed, SOURCE)


def test_an_old_copy_of_a_key_file_cannot_be_put_back(folder):
    with Vault.create(folder, SOURCE, page_bytes=PAGE) as vault:
        vault.new_keys(map(name, range(3)))
        old = files(folder)
        vault.erase([name(0)])
        vault.erase([name(1)])
        now = files(folder)
    for file in ("table.1", "pages"):
        for end in ("", ".copy"):
            (folder / (file + end)).write_bytes(old[file + end])
        with pytest.raises(VaultError, match="an old copy opens no more"):
            Vault.open(folder, SOURCE)
        for end in ("", ".copy"):
            (folder / (file + end)).write_bytes(now[file + end])


def test_an_empty_folder_and_a_foreign_one_are_no_vaults(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    for place in ("absent", "empty", "foreign"):
        with pytest.raises(VaultError, match="no vault in"):
            Vault.open(tmp_path / place, SOURCE)
    with pytest.raises(VaultError, match=r"notes\.txt"):
        Vault.create(tmp_path / "foreign", SOURCE)
    assert not (tmp_path / "absent").exists()
    assert files(tmp_path / "foreign") == {"notes.txt": b"mine"}


def test_a_vault_is_not_created_over_another(closed):
    before = files(closed)
    with pytest.raises(VaultError, match="already"):
        Vault.create(closed, SOURCE)
    assert files(closed) == before


def test_files_are_their_owners_alone(closed):
    assert closed.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in closed.iterdir()} == {0o600}


def test_reading_only_changes_nothing_and_refuses_changes(closed):
    whole, end = files(closed), used(2, 3, 3)
    damage(closed, "pages", on_page(lambda page: page[:end] + b"KREC torn" + page[end + 9 :]))
    before = files(closed)
    with Vault.open(closed, SOURCE, read_only=True) as vault:
        assert len(vault) == 8
        for change in (lambda: vault.new_key(name(50)), lambda: vault.erase([name(1)])):
            with pytest.raises(VaultError, match="reading only"):
                change()
    assert files(closed) == before
    with Vault.open(closed, SOURCE) as vault:
        assert len(vault) == 8
    assert files(closed) == whole


def test_a_closed_vault_refuses_changes(vault):
    vault.close()
    with pytest.raises(VaultError, match="closed"):
        vault.new_key(name(1))


def test_a_closed_vault_shows_no_key(vault):
    vault.new_key(name(1))
    vault.close()
    with pytest.raises(VaultError, match="closed"):
        vault.key(name(1))


def test_a_torn_record_is_cut_off_and_the_next_one_takes_its_place(closed):
    end = used(2, 3, 3)
    damage(closed, "pages", on_page(lambda page: page[: end - 30]))
    with Vault.open(closed, SOURCE) as vault:
        assert vault.names() == {name(number) for number in (1, 2, 10, 11, 12)}
        vault.new_key(name(30))
    with Vault.open(closed, SOURCE) as vault:
        assert name(30) in vault
