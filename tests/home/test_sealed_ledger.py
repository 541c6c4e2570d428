"""A ledger that somebody copied before a forget: with the keys that are left, it confirms no guess."""

import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from cause.arrays import ArrayUpload
from cause.errors import HomeError
from cause.home import seals
from cause.home.backup import backup
from cause.home.check import examine_home
from cause.home.history import history
from cause.home.layout import FORMAT
from cause.home.migrations import MIGRATIONS
from cause.home.restore import restore
from cause.keyed import digest
from cause.samples import SegmentKey
from cause.system import Cause
from cause.verify import verify
from tests.home.homes import MASTER, learn, opened, samples
from tests.home.old_ledger import told_by
from tests.vault.attacker import recoverable

SPREAD = "cause:partition=uniform,slices=2,policy=cost"
FORGETS = {
    "of the last of several blocks": {"samples": [(1, 290)]},
    "of the first": {"rounds": [1], "count": 1},
    "a whole upload": {"rounds": [1]},
    "everything": {},
}


def guesses(device) -> dict[str, bytes]:
    """What somebody can compute who has the retained data, the recipe, and guessed the samples of the user "a"."""
    upload, found = ArrayUpload("a", 1, *samples("a", 1, 300)), {}
    for key, held in device.ledger.pieces_of("a", 1):
        found[f"digest of {key}"] = digest(upload.names(held))
        found[f"classes of {key}"] = np.sort(upload.labels(held)).astype("<i8").tobytes()
    return found | {f"identity of {key}": device.memory[key].identity for key in device.memory.stored()}


def confirmed(wanted, values) -> list[str]:
    return [what for what, needle in wanted.items() if any(needle in value for value in values)]


def copied(device, tmp_path):
    """A device's folder as it is now; what is guessed; and all keys that there are."""
    home = tmp_path / "home"
    wanted = guesses(device)
    keys = {name: device.home.vault.key(name) for name in device.home.vault.names()}
    return shutil.copytree(home, tmp_path / "old"), wanted, keys


def left(tmp_path) -> dict[bytes, bytes]:
    """Keys that the master key still recovers: from the home, and from the old copy of the key files."""
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    files += [path for path in (tmp_path / "old" / "vault").iterdir() if path.name != "wrap"]
    return recoverable([bytes.fromhex(MASTER)], [path.read_bytes() for path in files])


@pytest.mark.parametrize("system", ["frugal", SPREAD])
@pytest.mark.parametrize("what", FORGETS.values(), ids=FORGETS)
def test_an_old_copy_of_the_ledger_confirms_no_guess_of_what_was_forgotten(tmp_path, what, system):
    device = opened(tmp_path / "home", system=system)
    learn(device, a=300, b=40)
    learn(device, a=20, b=30)
    old, wanted, keys = copied(device, tmp_path)
    (done,) = device.forget("a", **what, repair="later")
    gone = {f"identity of {key}" for key in done.dropped} | {each for each in wanted if each.startswith("classes")}
    now = guesses(device)
    gone |= {each for each in wanted if each.startswith("digest") and now.get(each) != wanted[each]}
    keys_left = left(tmp_path)
    for ledger in (old / "ledger.db", tmp_path / "home" / "ledger.db"):
        raw = [path.read_bytes() for path in ledger.parent.glob("ledger.db*")]
        assert not gone & set(confirmed(wanted, [*raw, *told_by(ledger, keys_left)]))
    assert confirmed({each: wanted[each] for each in gone}, [lying(tmp_path / "home")]) == []
    assert len(keys_left) > 2
    assert set(confirmed(wanted, told_by(old / "ledger.db", keys))) == set(wanted)  # with all keys: everything
    device.close()


BROKEN = {
    "bare": {"seal": lambda key, plain, aad: plain, "open_sealed": lambda key, plain, aad: plain},
    "under one key": {"joint_key": lambda keys: next(iter(keys))},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_is_not_sealed_under_all_keys_would_confirm_it(tmp_path, broken, monkeypatch):
    """The control: the search above can find something."""
    for name, instead in broken.items():
        monkeypatch.setattr(seals, name, instead)
    device = opened(tmp_path / "home")
    learn(device, a=300, b=40)
    old, wanted, _ = copied(device, tmp_path)
    device.forget("a", samples=[(1, 290)], repair="later")
    found = confirmed(wanted, told_by(old / "ledger.db", left(tmp_path)))
    assert {each.split()[0] for each in found} >= {"digest", "classes"}
    device.close()


def test_what_is_damaged_in_the_ledger_is_made_anew_from_samples_and_training(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=300, b=40)
    before = state(device)
    head = device.heads()[0]
    device.home.database.run("UPDATE pieces SET sealed_digest=x'01'")
    device.home.database.run("UPDATE sub_models SET sealed_identity=x'01' WHERE shard=0")
    device.close()
    assert [each.remedy for each in examine_home(tmp_path / "home").problems] == ["`cause repair` trains it again"]
    with Cause(tmp_path / "home") as device:
        assert device.waiting() == [0]
        device.repair()
        assert device.heads()[0] == head
        assert state(device) == before
    assert examine_home(tmp_path / "home").problems == []


# Homes of format 1, in which digests, identities and classes lay bare


def state(device):
    """What must be the same, whatever the format."""
    ledger, memory = device.ledger, device.memory
    return (
        {str(s.key): s.manifest for shard in ledger.shards() for s in ledger.lineage(shard)},
        {str(key): memory[key].identity for key in memory.stored()},
        list(history(device.home).lines()),
    )


def to_format_1(folder):
    """The ledger as the first format had it; digests and identities that it held."""
    with Cause(folder, read_only=True) as device:
        ledger, memory, vault = device.ledger, device.memory, device.home.vault
        digests, labels = {}, {}
        for (user, round_), own in device.home.blocks.items():
            for key, _ in ledger.pieces_of(user, round_):
                digests[own.upload_id, *key] = ledger.lineage(key.shard)[key].piece_digest(user)
            sealing = seals.upload_key(vault, own.names)
            where = (round_, device.home.pseudonyms[user])
            for seq, sealed in device.home.database.rows(
                "SELECT seq, sealed_classes FROM history WHERE (round, pseudonym)=(?, ?) AND sealed_classes NOT NULL",
                where,
            ):
                labels[seq] = json.dumps({str(k): n for k, n in seals.open_classes(sealing, bytes(sealed)).items()})
        identities = {tuple(key): memory[key].identity for key in memory.stored()}
    new, old = sqlite3.connect(folder / "ledger.db"), sqlite3.connect(folder / "ledger.old")
    with closing(new), closing(old):
        old.executescript("PRAGMA journal_mode=WAL;" + MIGRATIONS[0].before)
        tables = [name for (name,) in old.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE %'")]
        for table in (name for name in tables if not name.startswith("sqlite_")):
            for row in new.execute(f"SELECT * FROM {table}"):
                row = list(row)
                if table == "pieces":
                    row[5] = digests[tuple(row[:4])]
                elif table == "sub_models":
                    row[4] = identities[tuple(row[:3])]
                elif table == "history":
                    row[7] = labels.get(row[0])
                elif table == "uploads":
                    del row[5:]
                elif table == "requests":
                    del row[10:]
                old.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        old.execute("PRAGMA user_version=1")
        old.commit()
    for path in folder.glob("ledger.db*"):
        path.unlink()
    (folder / "ledger.old").rename(folder / "ledger.db")
    return [*digests.values(), *identities.values(), *(text.encode() for text in labels.values())]


@pytest.fixture
def older(tmp_path):
    """A home of format 1, what it was, and what lies bare in it."""
    device = opened(tmp_path / "home", system=SPREAD)
    learn(device, a=300, b=40)
    learn(device, a=20, c=30)
    device.forget("b", rounds=[1], count=3)
    before = state(device)
    device.close()
    return tmp_path / "home", before, to_format_1(tmp_path / "home")


def lying(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_home_of_the_first_format_is_sealed_when_it_is_opened_for_writing(older):
    folder, before, bare = older
    assert len(bare) > 12
    assert all(each in lying(folder) for each in bare)
    with Cause(folder) as device:
        assert state(device) == before
        assert device.home.database.row("PRAGMA user_version") == (FORMAT,)
        assert verify(device, processes=0).identical == device.memory.stored()
    assert not any(each in lying(folder) for each in bare)
    assert examine_home(folder).problems == []
    with Cause(folder) as device:
        assert state(device) == before


def test_a_reader_of_an_older_home_is_told_to_open_it_for_writing(older):
    folder, _, bare = older
    with pytest.raises(HomeError, match="has the older format 1: open it for writing once"):
        Cause(folder, read_only=True)
    assert all(each in lying(folder) for each in bare)


def test_a_migration_that_was_cut_short_leaves_the_older_home(older, monkeypatch):
    folder, before, _ = older

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cause.home.migrations.seal_identity", dies)
        with pytest.raises(KeyboardInterrupt):
            Cause(folder)
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(digest) FROM pieces").fetchone()[0] > 4
    with Cause(folder) as device:
        assert state(device) == before


@pytest.mark.parametrize("lost", ["ledger", "a file"])
def test_a_backup_of_the_first_format_can_be_restored(tmp_path, lost, monkeypatch):
    device = opened(tmp_path / "home", shards=1)
    learn(device, a=300, b=40)
    learn(device, c=20)
    before = state(device)
    device.close()
    to_format_1(tmp_path / "home")
    with monkeypatch.context() as patch:  # as the program of that time did
        patch.setattr("cause.home.database.FORMAT", 1)
        patch.setattr("cause.home.database.MIGRATIONS", MIGRATIONS[:1])
        patch.setattr("cause.home.backup.BLOCK_TABLES", ("blocks",))
        patch.setattr("cause.home.home.Home.load", lambda self, memory: None)
        with Cause(tmp_path / "home", read_only=True) as device:
            backup(device.home, tmp_path / "b.tar")
    if lost == "ledger":
        with Cause(tmp_path / "home") as device:
            device.forget("b")
            after = state(device)[0]
        for path in (tmp_path / "home").glob("ledger.db*"):
            path.unlink()
    else:
        for path in (tmp_path / "home" / "blocks").iterdir():
            path.unlink()
    done = restore(tmp_path / "b.tar", tmp_path / "home")
    with Cause(tmp_path / "home") as device:
        device.repair()
        if lost == "ledger":
            assert (done.ledger, done.lost.samples, state(device)[0]) == ("backup", 40, after)
        else:
            assert (done.ledger, done.lost.samples, state(device)) == ("live", 0, before)
        assert SegmentKey(0, 2) in device.memory.stored()
        assert verify(device, processes=0).mismatched == []
