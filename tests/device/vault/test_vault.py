"""What a vault keeps, what it destroys, and what it refuses."""

import hmac
import itertools
import os

import pytest

from cause.device.disk import Disk
from cause.device.vault import FILES, RotatingFileKeySource, Vault, commitment, joint_key, open_sealed, writing
from cause.device.vault.mirrored_file import MirroredFile
from cause.device.vault.sealing import derive
from cause.device.vault.slots import SLOT_BYTES
from cause.errors import VaultError
from tests.device.vault.attacker import data_keys, recoverable, roots, table
from tests.device.vault.common import MASTER, PAGE, SOURCE, files, name, used


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


def test_erased_keys_are_destroyed_and_the_others_stay(vault, folder):
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
        self.key_files, self.roots = [], []

    def look(self):
        self.key_files.append([data for one, data in files(self.folder).items() if not one.startswith("root")])
        self.roots.append((self.folder / "root").read_bytes())

    @property
    def all_key_files(self):
        return list(itertools.chain(*self.key_files))


def erase_under_watch(folder, source):
    """Return all erased keys, and copies of the files from along the way."""
    watcher, erased = Watcher(folder), {}
    with Vault.create(folder, source, page_bytes=PAGE) as vault:
        keys = vault.new_keys(map(name, range(10)))
        for number in range(4):
            vault.put_many({name(100 + number): os.urandom(32)})
            keys[name(100 + number)] = vault.key(name(100 + number))
            watcher.look()
            batch = [name(number), name(100 + number)]
            vault.erase(batch)
            erased |= {one: keys[one] for one in batch}
        left = {one: vault.key(one) for one in vault.names()}
    return watcher, erased, left


def test_neither_the_files_nor_old_copies_of_key_files_open_to_what_was_erased(folder):
    watcher, erased, left = erase_under_watch(folder, SOURCE)
    now = list(files(folder).values())
    assert recoverable([MASTER], now) == left  # the attacker works: it recovers all keys that are kept
    assert recoverable([MASTER], now + watcher.all_key_files) == left
    assert not set(erased) & set(left)


def test_the_attacker_wins_if_the_old_root_key_is_not_overwritten(folder, monkeypatch):
    write = MirroredFile.write_at

    def forgetful(self, offset, data):
        if self.path.name != "root" or any(data):
            write(self, offset, data)

    monkeypatch.setattr(MirroredFile, "write_at", forgetful)
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    assert set(recoverable([MASTER], [*files(folder).values(), *watcher.all_key_files])) & set(erased)


@pytest.mark.parametrize("kept", ["the key of a page", "the root key"])
def test_the_attacker_wins_if_keys_are_not_fresh(folder, monkeypatch, kept):
    fresh, new_generation = os.urandom, writing.new_generation  # type: ignore[attr-defined]
    if kept == "the key of a page":
        monkeypatch.setattr(os, "urandom", lambda count: b"p" * 32 if count == 32 else fresh(count))

    def same_root(*args):
        monkeypatch.setattr(os, "urandom", lambda count: b"r" * 32 if count == 32 else fresh(count))
        made = new_generation(*args)
        monkeypatch.setattr(os, "urandom", fresh)
        return made

    if kept == "the root key":
        monkeypatch.setattr(writing, "new_generation", same_root)
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    monkeypatch.undo()
    assert opened_by_todays_keys(folder, watcher) & set(erased)


def opened_by_todays_keys(folder, watcher):
    """Names in old copies that today's keys open, if one says that the copies are of today's generation, or of any."""
    now, old, names = files(folder), watcher.all_key_files, set()
    ((head, root),) = roots(MASTER, [now["root"]])
    number = int.from_bytes(head[10:18], "big")
    pages = [key for _, _, key in table(head, root, [now["table.0"], now["table.1"]])]
    for earlier in range(1, number):
        claimed = head[:10] + earlier.to_bytes(8, "big") + head[18:]
        pages += [key for _, _, key in table(claimed, root, old)]
    for key, earlier in itertools.product(pages, range(1, number)):
        names |= set(data_keys(head[:10] + earlier.to_bytes(8, "big") + head[18:], key, old))
    return names


def test_todays_keys_open_no_older_generation(folder):
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    assert not opened_by_todays_keys(folder, watcher) & set(erased)


def test_nothing_of_the_old_generation_is_left_in_any_file(vault, folder):
    vault.new_keys(map(name, range(15)))
    vault.new_keys(map(name, range(30, 40)))
    before = files(folder)
    vault.erase([name(1)])
    after = files(folder)
    assert set(after) == set(FILES)
    for end in ("", ".copy"):
        assert any(before["table.1" + end])
        assert any(before["root" + end][SLOT_BYTES:])
        assert not any(after["table.1" + end])  # generation 1 was here
        assert not any(after["root" + end][SLOT_BYTES:])
        assert any(before["pages" + end][:PAGE])
        assert not any(after["pages" + end][:PAGE])
        assert before["pages" + end][PAGE : 2 * PAGE] == after["pages" + end][PAGE : 2 * PAGE]  # was not touched


def test_old_copies_of_all_files_open_with_the_master_key_which_the_docs_admit(folder):
    watcher, erased, _ = erase_under_watch(folder, SOURCE)
    recovered = recoverable([MASTER], [*watcher.all_key_files, *watcher.roots])
    assert set(erased) <= set(recovered)


def test_with_a_source_that_rotates_not_even_those_open(folder, tmp_path):
    source = RotatingFileKeySource.create(tmp_path / "master")
    first = source.read()
    watcher, _, left = erase_under_watch(folder, source)
    assert source.read() != first
    master = (tmp_path / "master").read_bytes()
    assert first not in master
    recovered = recoverable([source.read()], [*files(folder).values(), *watcher.all_key_files, *watcher.roots, master])
    assert recovered == left
    assert name(0) in recoverable([first], [*watcher.key_files[0], watcher.roots[0]])  # had the key been kept


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
    before = (folder / "pages").read_bytes()
    vault.new_key(name(99))
    after = (folder / "pages").read_bytes()
    assert after[: used(5)] == before[: used(5)]
    assert any(after[used(5) : used(5, 1)])
    assert not any(after[used(5, 1) :])
    assert after == (folder / "pages.copy").read_bytes()


def test_keys_that_fit_no_page_get_several_of_their_own(vault, folder):
    keys = vault.new_keys(map(name, range(100)))
    vault.close()
    with Vault.open(folder, SOURCE) as again:
        assert {one: again.key(one) for one in again.names()} == keys
        again.erase(map(name, range(0, 100, 2)))
    with Vault.open(folder, SOURCE) as again:
        assert again.names() == {name(number) for number in range(1, 100, 2)}


def test_pages_that_erasures_have_emptied_are_filled_again(vault, folder):
    vault.new_keys(map(name, range(100)))
    size = (folder / "pages").stat().st_size
    for turn in range(1, 6):
        vault.erase(vault.names())
        vault.new_keys(name(1000 * turn + number) for number in range(100))
        assert len(vault) == 100
    assert (folder / "pages").stat().st_size == size


@pytest.mark.parametrize("wrong", [{b"short": bytes(32)}, {name(1): b"short"}, {name(5): bytes(32)}])
def test_bad_keys_are_refused_and_nothing_changes(vault, folder, wrong):
    vault.new_key(name(5))
    before = files(folder)
    with pytest.raises(VaultError):
        vault.put_many({name(8): bytes(32)} | wrong)
    assert files(folder) == before
    assert vault.names() == {name(5)}


class ErasingMeanwhile(Disk):
    """Another process erases between a reader's look at `root` and at the keys."""

    def __init__(self, vault, names):
        self.vault, self.waiting = vault, list(names)

    def read(self, path):
        data = super().read(path)
        if path.name == "root.copy" and self.waiting:
            self.vault.erase([self.waiting.pop()])
        return data


@pytest.mark.parametrize("erasures", [1, 2, 5])
def test_a_reader_finds_a_whole_generation_while_another_process_erases(vault, folder, erasures):
    keys = vault.new_keys(map(name, range(9)))
    with Vault.open(folder, SOURCE, ErasingMeanwhile(vault, map(name, range(erasures))), read_only=True) as reader:
        assert {one: reader.key(one) for one in reader.names()} == {name(n): keys[name(n)] for n in range(erasures, 9)}
        assert reader.generation == 1 + erasures
        assert reader.damage == []


class NoWait(Disk):
    def sync(self, *files):
        pass

    def sync_folder(self, folder):
        pass


class Counting(NoWait):
    """Counts what is written."""

    def __init__(self):
        self.written = 0

    def open(self, path):
        file, write = super().open(path), None
        write = file.write_at

        def counted(offset, data):
            self.written += len(data)
            write(offset, data)

        file.write_at = counted
        return file


def test_an_erasure_among_thousands_of_keys_writes_little(folder):
    disk = Counting()
    with Vault.create(folder, SOURCE, disk) as vault:
        for batch in range(25):
            vault.new_keys(name(1000 * batch + number) for number in range(400))
        assert (folder / "pages").stat().st_size < 1_000_000
        disk.written = 0
        vault.erase(name(7000 + number) for number in range(8))
        assert disk.written < 4 * (
            writing.PAGE_BYTES + 8192
        )  # a page, a table and slots, twice, and zeros over the old
    with Vault.open(folder, SOURCE) as vault:
        assert len(vault) == 9992


def test_an_empty_vault_is_small(vault, folder, tmp_path):
    Vault.create(tmp_path / "usual", SOURCE).close()
    assert sum(map(len, files(tmp_path / "usual").values())) < 300 * 1024


def test_further_files_are_synced_with_the_vaults_own(tmp_path):
    class Watching(NoWait):
        synced = ()

        def sync(self, *files):
            self.synced = tuple(file.path.name for file in files)

    disk = Watching()
    further = disk.create(tmp_path / "anchor")
    with Vault.create(tmp_path / "vault", SOURCE, disk, page_bytes=PAGE) as vault:
        vault.sync_with.append(further)
        for change in (
            lambda: vault.put_many({name(1): bytes(32)}),
            lambda: vault.add_keys([name(2)]),
            lambda: vault.erase([name(1)]),
            lambda: vault.close(),
        ):
            disk.synced = ()
            change()
            assert "anchor" in disk.synced
    further.close()


def test_keys_are_lent_made_and_joined_without_copies(vault):
    vault.add_keys([name(1), name(2)])
    with vault.borrow(name(1)) as key:
        assert bytes(key) == vault.key(name(1))
    assert not any(key)
    assert vault.key(name(1)) != vault.key(name(2))
    assert vault.joint_key([name(1), name(2)]) == joint_key([vault.key(name(1)), vault.key(name(2))])
