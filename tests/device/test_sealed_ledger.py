"""A copy of the ledger from before a forget: with the keys that remain, no guess can be confirmed."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from cause.common.hashing import digest
from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.store import seals
from cause.device.store.layout import FORMAT
from cause.device.vault import sealing
from cause.device.verify import verify
from cause.engine.arrays import ArrayUpload
from cause.engine.requests import Request
from cause.lab.home_trace import history
from tests.device.homes import MASTER, fixed_permutation, learn, opened, samples
from tests.device.old_ledger import readable_values
from tests.device.test_earlier_homes import FOLDER, Earlier
from tests.device.vault.attacker import recoverable
from tests.fixtures.homes.describe import retained, rows

SPREAD = "cause:partition=uniform,slices=2,policy=cost"
FORGETS = {
    "of the last of several blocks": {"samples": [(1, 290)]},
    "of the first": {"rounds": [1], "count": 1},
    "a whole upload": {"rounds": [1]},
    "everything": {},
}


def guesses(device) -> dict[str, bytes]:
    """Return what an attacker computes who has the retained data, the recipe and a guess of the samples of "a"."""
    upload, values = ArrayUpload("a", 1, *samples("a", 1, 300)).shuffled(fixed_permutation(300)), {}
    for key, held in device.ledger.pieces_of("a", 1):
        values[f"digest of {key}"] = digest(upload.names(held))
        values[f"classes of {key}"] = np.sort(upload.labels(held)).astype("<i8").tobytes()
    return values | {f"identity of {key}": device.memory[key].identity for key in device.memory.stored()}


def confirmed(needles, values) -> list[str]:
    return [what for what, needle in needles.items() if any(needle in value for value in values)]


def copied(device, tmp_path):
    """A device's folder as it is now; what is guessed; and all keys that there are."""
    home = tmp_path / "home"
    needles = guesses(device)
    keys = {name: device.home.vault.key(name) for name in device.home.vault.names()}
    return shutil.copytree(home, tmp_path / "old"), needles, keys


def left(tmp_path) -> dict[bytes, bytes]:
    """Keys that the master key still recovers: from the home, and from the old copy of the key files."""
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    files += [path for path in (tmp_path / "old" / "vault").iterdir() if not path.name.startswith("root")]
    return recoverable([bytes.fromhex(MASTER)], [path.read_bytes() for path in files])


@pytest.mark.parametrize("system", ["frugal", SPREAD])
@pytest.mark.parametrize("what", FORGETS.values(), ids=FORGETS)
def test_an_old_copy_of_the_ledger_confirms_no_guess_of_what_was_forgotten(tmp_path, what, system):
    device = opened(tmp_path / "home", system=system)
    learn(device, a=300, b=40)
    learn(device, a=20, b=30)
    old, needles, keys = copied(device, tmp_path)
    (done,) = device.forget("a", **what, repair="later")
    forgotten = {f"identity of {key}" for key in done.dropped} | {
        each for each in needles if each.startswith("classes")
    }
    now = guesses(device)
    forgotten |= {each for each in needles if each.startswith("digest") and now.get(each) != needles[each]}
    keys_left = left(tmp_path)
    for ledger in (old / "ledger.db", tmp_path / "home" / "ledger.db"):
        raw = [path.read_bytes() for path in ledger.parent.glob("ledger.db*")]
        assert not forgotten & set(confirmed(needles, [*raw, *readable_values(ledger, keys_left)]))
    assert confirmed({each: needles[each] for each in forgotten}, [raw_bytes(tmp_path / "home")]) == []
    assert len(keys_left) > 2
    assert set(confirmed(needles, readable_values(old / "ledger.db", keys))) == set(
        needles
    )  # with all keys: everything
    device.close()


def test_no_file_of_the_ledger_holds_rows_of_what_was_forgotten(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=30, b=40)
        (name, sealed), _ = device.home.database.rows(
            "SELECT blocks.key, sealed_user FROM blocks JOIN uploads ON upload=id ORDER BY id"
        )
        for there in (True, False):
            raw = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("ledger.db*"))
            assert (bytes(name) in raw, bytes(sealed) in raw) == (there, there)
            if there:
                device.forget("a")


def test_the_length_of_what_is_sealed_tells_neither_names_nor_what_a_request_is_for(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, **{"a": 5, "a" * 30: 5})
        (names,) = zip(*device.home.database.rows("SELECT length(sealed_user) FROM uploads"), strict=True)
        assert len(set(names)) == 1
        device.home.accept([Request("a"), Request("a" * 30, (1,), count=2)])
        (requests,) = zip(*device.home.database.rows("SELECT length(sealed) FROM requests"), strict=True)
        assert len(set(requests)) == 1


BROKEN = {
    "bare": (
        {"digest", "classes"},
        {(seals, "seal"): lambda key, plain, aad: plain, (seals, "open_sealed"): lambda key, plain, aad: plain},
    ),
    "under one key": ({"classes"}, {(sealing, "joint_key"): lambda keys: bytes(next(iter(keys)))}),
}


@pytest.mark.parametrize(("what", "broken"), BROKEN.values(), ids=BROKEN)
def test_a_ledger_that_is_not_sealed_under_all_keys_would_confirm_it(tmp_path, what, broken, monkeypatch):
    """The control: the search above can find something."""
    for (module, name), instead in broken.items():
        monkeypatch.setattr(module, name, instead)
    device = opened(tmp_path / "home")
    learn(device, a=300, b=40)
    old, needles, _ = copied(device, tmp_path)
    device.forget("a", samples=[(1, 290)], repair="later")
    confirmed_guesses = confirmed(needles, readable_values(old / "ledger.db", left(tmp_path)))
    assert {each.split()[0] for each in confirmed_guesses} >= what
    device.close()


def test_what_is_damaged_in_the_ledger_is_made_anew_from_samples_and_training(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=300, b=40)
    before = state(device)
    head = device.heads()[0]
    with device.home.database.transaction():
        device.home.database.run("UPDATE segments SET sealed_digests=x'01'")
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


@pytest.fixture
def older(tmp_path):
    """A home of format 1, what it retains, and the values that are stored there unsealed."""
    earlier = Earlier(FOLDER / "format-1.tar.xz", tmp_path)
    with closing(sqlite3.connect(earlier.home / "ledger.db")) as ledger:
        queries = ("SELECT digest FROM pieces", "SELECT identity FROM sub_models", "SELECT labels FROM history")
        values = [value for query in queries for (value,) in ledger.execute(query) if value is not None]
    return earlier, [value.encode() if isinstance(value, str) else value for value in values if len(value) > 8]


def raw_bytes(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_home_of_the_first_format_is_sealed_when_it_is_opened_for_writing(older):
    earlier, bare = older
    assert len(bare) >= 8
    assert all(each in raw_bytes(earlier.home) for each in bare)
    with Cause(earlier.home) as device:
        before = state(device)
        assert rows(retained(device)) == rows(earlier.expected["retained"])
        assert device.home.database.row("PRAGMA user_version") == (FORMAT,)
        assert verify(device, processes=0).identical == device.memory.stored()
    assert not any(each in raw_bytes(earlier.home) for each in bare)
    assert examine_home(earlier.home).problems == []
    with Cause(earlier.home) as device:
        assert state(device) == before


def test_a_migration_that_was_cut_short_leaves_the_older_home(older, monkeypatch):
    earlier, _ = older

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cause.device.store.migrations.seal_identity", dies)
        with pytest.raises(KeyboardInterrupt):
            Cause(earlier.home)
    with closing(sqlite3.connect(earlier.home / "ledger.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(digest) FROM pieces").fetchone()[0] > 4
    with Cause(earlier.home) as device:
        assert rows(retained(device)) == rows(earlier.expected["retained"])
