"""What a vault keeps, what it destroys, and what it refuses."""

import hmac
import itertools
import os
import shutil

import pytest

import cause.vault.vault as vault_module
from cause.disk import Disk
from cause.errors import VaultError
from cause.vault import FILES, EnvKeySource, RotatingFileKeySource, Vault, commitment, keyfile, open_sealed
from cause.vault.sealing import derive
from tests.vault.attacker import recoverable

MASTER = bytes(range(32))
SOURCE = EnvKeySource("MASTER", {"MASTER": MASTER.hex()})
OTHER = EnvKeySource("MASTER", {"MASTER": bytes(32).hex()})


def name(number):
    return b"name" + number.to_bytes(12, "big")


def used(*records):
    """Where a key file of records with so many keys ends."""
    return len(keyfile.head(1, bytes(16))) + sum(map(keyfile.record_bytes, records))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "vault"


@pytest.fixture
def vault(folder):
    with Vault.create(folder, SOURCE, chunk_bytes=512) as made:
        yield made


def test_keys_are_there_after_closing_and_opening(vault, folder):
    keys = vault.new_keys([name(1), name(2)])
    given = {name(3): os.urandom(32)}
    vault.put_many(given)
    vault.close()
    with Vault.open(folder, SOURCE) as again:
        assert {one: again.key(one) for one in again.names()} == keys | given
        assert len(again) == 3
        assert name(1) in again
        assert name(9) not in again


def test_no_key_lies_in_the_files_as_it_is(vault, folder):
    keys = vault.new_keys(map(name, range(20)))
    vault.erase([name(3)])
    everything = b"".join(files(folder).values())
    assert MASTER not in everything
    assert not [key for key in keys.values() if key in everything]
    assert not [one for one in keys if one in everything]  # nor do names


def test_erased_keys_are_gone_and_the_others_stay(vault, folder):
    keys = vault.new_keys(map(name, range(50)))
    assert vault.erase([name(7), name(49), name(0)]) == {name(7), name(49), name(0)}
    left = {one: key for one, key in keys.items() if one not in (name(7), name(49), name(0))}
    assert {one: vault.key(one) for one in vault.names()} == left
    with pytest.raises(VaultError, match="destroyed"):
        vault.key(name(7))
    vault.close()
    with Vault.open(folder, SOURCE) as again:
        assert {one: again.key(one) for one in again.names()} == left


def test_erasing_everything_and_starting_over_works(vault, folder):
    vault.new_keys(map(name, range(5)))
    vault.erase(map(name, range(5)))
    assert vault.names() == frozenset()
    key = vault.new_key(name(1))
    vault.close()
    with Vault.open(folder, SOURCE) as again:
        assert again.key(name(1)) == key


def test_each_erasure_is_a_generation_and_erasing_nothing_is_none(vault):
    vault.new_keys([name(1), name(2)])
    assert vault.generation == 1
    vault.erase([name(1)])
    assert vault.generation == 2
    assert vault.erase([name(1), name(77)]) == frozenset()
    assert vault.generation == 2


class Watcher:
    """Takes a copy of the key files before each erasure, as worn flash or a snapshot would."""

    def __init__(self, folder):
        self.folder = folder
        self.key_files, self.wraps = [], []

    def look(self):
        self.key_files += [(self.folder / one).read_bytes() for one in FILES if one != "wrap"]
        self.wraps.append((self.folder / "wrap").read_bytes())


def erase_under_watch(folder, source):
    """All erased keys, and the copies somebody took on the way."""
    watcher, erased = Watcher(folder), {}
    with Vault.create(folder, source, chunk_bytes=512) as vault:
        keys = vault.new_keys(map(name, range(10)))
        for number in range(4):
            vault.put_many({name(100 + number): os.urandom(32)})
            keys[name(100 + number)] = vault.key(name(100 + number))
            watcher.look()
            gone = [name(number), name(100 + number)]
            vault.erase(gone)
            erased |= {one: keys[one] for one in gone}
        left = {one: vault.key(one) for one in vault.names()}
    return watcher, erased, left


def test_neither_the_files_nor_old_copies_of_key_files_open_to_what_was_erased(folder):
    watcher, erased, left = erase_under_watch(folder, SOURCE)
    now = list(files(folder).values())
    assert recoverable([MASTER], now) == left  # the attacker is able: all that is kept is found
    assert recoverable([MASTER], now + watcher.key_files) == left
    assert not set(erased) & set(left)


def test_the_attacker_wins_if_the_old_wrapping_key_is_not_overwritten(folder, monkeypatch):
    monkeypatch.setattr(vault_module, "wipe_other", lambda file, keep: None)
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    assert set(recoverable([MASTER], [*files(folder).values(), *watcher.key_files])) & set(erased)


def test_the_attacker_wins_if_the_wrapping_key_is_not_fresh(folder, monkeypatch):
    fresh = os.urandom
    monkeypatch.setattr(vault_module.os, "urandom", lambda count: bytes(32) if count == 32 else fresh(count))
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    monkeypatch.undo()
    now = files(folder)
    assert now["wrap"].count(b"CAUSEWRP") == 1
    assert _opens_with_todays_wrapping_key(now["wrap"], watcher.key_files, erased)


def _opens_with_todays_wrapping_key(wrap, key_files, erased):
    """Whether the current wrapping key opens records of older generations too."""
    newest = vault_module._open_slot(vault_module.read_slots("wrap", b"CAUSEWRP", wrap)[0], MASTER)
    cipher = vault_module.AESGCM(newest.wrapping)
    for number, blob in itertools.product(range(1, newest.number), key_files):
        head = vault_module.keyfile.head(number, newest.vault_id)
        opened = vault_module.keyfile._open(cipher, head, blob, len(head))
        if opened is not None and any(one in opened[1] for one in erased):
            return True
    return False


def test_todays_wrapping_key_opens_no_older_generation(folder):
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    assert not _opens_with_todays_wrapping_key((folder / "wrap").read_bytes(), watcher.key_files, erased)


def test_nothing_of_the_old_generation_is_left_in_any_file(vault, folder):
    vault.new_keys(map(name, range(30)))
    vault.new_keys(map(name, range(30, 40)))
    before = files(folder)
    vault.erase([name(1)])
    after = files(folder)
    assert set(after) == set(FILES)
    assert not any(after["keys.1"])  # generation 1 was here
    assert not any(after["wrap"][4096:])
    assert any(before["keys.1"])
    assert any(before["wrap"][4096:])


def test_old_copies_of_both_files_open_with_the_master_key_which_the_docs_admit(folder):
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    found = recoverable([MASTER], [*watcher.key_files, *watcher.wraps])
    assert set(erased) <= set(found)


def test_with_a_source_that_rotates_not_even_those_open(folder, tmp_path):
    source = RotatingFileKeySource.create(tmp_path / "master")
    first = source.read()
    watcher, _, left = erase_under_watch(folder, source)
    assert source.read() != first
    master = (tmp_path / "master").read_bytes()
    assert first not in master
    found = recoverable([source.read()], [*files(folder).values(), *watcher.key_files, *watcher.wraps, master])
    assert found == left
    assert name(0) in recoverable([first], [*watcher.key_files[:2], watcher.wraps[0]])  # had the key been kept


def test_a_vault_with_a_rotating_source_is_opened_again(folder, tmp_path):
    source = RotatingFileKeySource.create(tmp_path / "master")
    with Vault.create(folder, source) as vault:
        keys = vault.new_keys(map(name, range(3)))
        vault.erase([name(0)])
        vault.erase([name(1)])
    with Vault.open(folder, RotatingFileKeySource(tmp_path / "master")) as again:
        assert again.key(name(2)) == keys[name(2)]
        assert again.generation == 3


def test_sealed_bytes_open_under_their_key_and_place_only(vault):
    vault.new_keys([name(1), name(2)])
    blob = vault.seal(name(1), b"samples", b"block 1")
    assert vault.open_sealed(name(1), blob, b"block 1") == b"samples"
    assert open_sealed(vault.key(name(1)), blob, b"block 1") == b"samples"
    for other, changed, aad in [
        (name(2), blob, b"block 1"),
        (name(1), blob, b"block 2"),
        (name(1), blob[:-1], b"block 1"),
        (name(1), blob[:20], b"block 1"),
        (name(1), b"", b"block 1"),
        (name(1), b"\x02" + blob[1:], b"block 1"),
        *[(name(1), blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :], b"block 1") for at in range(len(blob))],
    ]:
        with pytest.raises(VaultError):
            vault.open_sealed(other, changed, aad)


def test_no_two_seals_are_alike(vault):
    vault.new_key(name(1))
    blobs = {vault.seal(name(1), b"same") for _ in range(1000)}
    assert len({blob[1:13] for blob in blobs}) == 1000


def test_commitments_depend_on_key_and_digest_and_go_with_the_key(vault):
    vault.new_keys([name(1), name(2)])
    digest = bytes(32)
    made = vault.commit(name(1), digest)
    assert made == vault.commit(name(1), digest) == commitment(vault.key(name(1)), digest)
    assert len({made, vault.commit(name(2), digest), vault.commit(name(1), b"x" * 32), digest}) == 4
    vault.erase([name(1)])
    with pytest.raises(VaultError):
        vault.commit(name(1), digest)


def test_a_commitment_does_not_use_the_key_that_seals():
    key, digest = bytes(32), b"d" * 32
    made = commitment(key, digest)
    assert made not in [hmac.digest(other, digest, "sha256") for other in (key, derive(key, "seal"))]
    assert derive(key, "seal") != key


def test_adding_keys_does_not_rewrite_the_others(vault, folder):
    vault.new_keys(map(name, range(5)))
    before = (folder / "keys.1").read_bytes()
    vault.new_key(name(99))
    after = (folder / "keys.1").read_bytes()
    assert after[: used(0, 5)] == before[: used(0, 5)]
    assert any(after[used(0, 5) : used(0, 5, 1)])
    assert not any(after[used(0, 5, 1) :])


@pytest.mark.parametrize("wrong", [{b"short": bytes(32)}, {name(1): b"short"}, {name(5): bytes(32)}])
def test_bad_keys_are_refused_and_nothing_changes(vault, folder, wrong):
    vault.new_key(name(5))
    before = files(folder)
    with pytest.raises(VaultError):
        vault.put_many({name(8): bytes(32)} | wrong)
    assert files(folder) == before
    assert vault.names() == {name(5)}


# What is refused on opening. Nothing is ever changed by it.


def damage(folder, file, change):
    path = folder / file
    path.write_bytes(change(path.read_bytes()))


def exchange(data, first, second, end):
    return data[:first] + data[second:end] + data[first:second] + data[end:]


@pytest.fixture
def closed(folder):
    with Vault.create(folder, SOURCE, chunk_bytes=512) as vault:
        vault.new_keys(map(name, range(3)))
        vault.erase([name(0)])
        vault.new_keys(map(name, range(10, 13)))
        vault.new_keys(map(name, range(20, 23)))
    return folder


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("wrap", lambda data: data[:-1], "damaged or foreign"),
        ("wrap", lambda data: b"", "damaged or foreign"),
        ("wrap", lambda data: bytes(len(data)), "holds no key"),
        ("wrap", lambda data: data[:40] + b"\0\2" + data[42:], "update cause"),
        ("wrap", lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "holds no key"),
        ("keys.0", lambda data: b"", "not a key file"),
        ("keys.0", lambda data: b"something else" * 100, "not a key file"),
        ("keys.0", lambda data: data[:8] + b"\0\2" + data[10:], "update cause"),
        ("keys.0", lambda data: data[:60], "damaged"),
        ("keys.0", lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:], "damaged"),
        ("keys.0", lambda data: data[:190] + bytes([data[190] ^ 1]) + data[191:], "damaged at byte"),
        ("keys.0", lambda data: data[:17] + b"\7" + data[18:], "generation 7"),
        ("keys.0", lambda data: exchange(data, used(2), used(2, 3), used(2, 3, 3)), "damaged at byte"),
        ("keys.0", lambda data: data[: used(2)] + data[used(2, 3) :], "damaged at byte"),
    ],
)
def test_a_damaged_foreign_or_newer_file_is_named_and_nothing_changes(closed, file, change, message):
    damage(closed, file, change)
    before = files(closed)
    for read_only in (False, True):
        with pytest.raises(VaultError, match=message) as error:
            Vault.open(closed, SOURCE, read_only=read_only)
        assert file in str(error.value)
    assert files(closed) == before


def test_another_master_key_is_told_apart_from_damage_and_changes_nothing(closed):
    before = files(closed)
    with pytest.raises(VaultError, match="another vault's"):
        Vault.open(closed, OTHER)
    assert files(closed) == before


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_file_is_named(closed, missing):
    (closed / missing).unlink()
    before = files(closed)
    with pytest.raises(VaultError, match=missing):
        Vault.open(closed, SOURCE)
    assert files(closed) == before


def test_the_key_file_of_another_vault_is_told(closed, tmp_path):
    with Vault.create(tmp_path / "other", SOURCE) as other:
        other.new_key(name(1))
        other.erase([name(1)])
    shutil.copy(tmp_path / "other" / "keys.0", closed / "keys.0")
    with pytest.raises(VaultError, match="another vault"):
        Vault.open(closed, SOURCE)


def test_an_old_copy_of_a_key_file_cannot_be_put_back(folder):
    with Vault.create(folder, SOURCE, chunk_bytes=512) as vault:
        vault.new_keys(map(name, range(3)))
        old = (folder / "keys.1").read_bytes()
        vault.erase([name(0)])
        vault.erase([name(1)])
    (folder / "keys.1").write_bytes(old)
    with pytest.raises(VaultError, match="an old copy opens no more"):
        Vault.open(folder, SOURCE)


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
    path = closed / "keys.0"
    data = path.read_bytes()
    end = used(2, 3, 3)
    path.write_bytes(data[:end] + b"KREC torn" + data[end + 9 :])
    before = files(closed)
    with Vault.open(closed, SOURCE, read_only=True) as vault:
        assert len(vault) == 8
        for change in (lambda: vault.new_key(name(50)), lambda: vault.erase([name(1)])):
            with pytest.raises(VaultError, match="reading only"):
                change()
    assert files(closed) == before
    with Vault.open(closed, SOURCE, chunk_bytes=512) as vault:
        assert len(vault) == 8
    assert files(closed)["keys.0"] == data


def test_a_closed_vault_refuses_changes(vault):
    vault.close()
    with pytest.raises(VaultError, match="closed"):
        vault.new_key(name(1))


def test_a_torn_record_is_cut_off_and_the_next_one_takes_its_place(closed):
    path = closed / "keys.0"
    data = path.read_bytes()
    end = used(2, 3, 3)
    path.write_bytes(data[: end - 30].ljust(len(data), b"\0"))
    with Vault.open(closed, SOURCE) as vault:
        assert vault.names() == {name(number) for number in (1, 2, 10, 11, 12)}
        vault.new_key(name(30))
    with Vault.open(closed, SOURCE) as vault:
        assert name(30) in vault


class ErasingMeanwhile(Disk):
    """Another process erases between a reader's look at `wrap` and at the keys."""

    def __init__(self, vault, names):
        self.vault, self.waiting = vault, list(names)

    def read(self, path):
        data = super().read(path)
        if path.name == "wrap" and self.waiting:
            self.vault.erase([self.waiting.pop()])
        return data


@pytest.mark.parametrize("erasures", [1, 2])
def test_a_reader_finds_a_whole_generation_while_another_process_erases(vault, folder, erasures):
    keys = vault.new_keys(map(name, range(9)))
    with Vault.open(folder, SOURCE, ErasingMeanwhile(vault, map(name, range(erasures))), read_only=True) as reader:
        assert {one: reader.key(one) for one in reader.names()} == {name(n): keys[name(n)] for n in range(erasures, 9)}
        assert reader.generation == 1 + erasures


class NoWait(Disk):
    def sync(self, *files):
        pass

    def sync_folder(self, folder):
        pass


def test_thousands_of_keys_grow_the_files_by_chunks(folder):
    with Vault.create(folder, SOURCE, NoWait(), chunk_bytes=4096) as vault:
        for batch in range(20):
            vault.new_keys(name(1000 * batch + number) for number in range(100))
        sizes = {(folder / one).stat().st_size for one in ("keys.0", "keys.1")}
        assert len(sizes) == 1
        assert sizes.pop() % 4096 == 0
        vault.erase([name(0)])
    with Vault.open(folder, SOURCE) as vault:
        assert len(vault) == 1999
