"""Backups: they bring back what was lost, and never what was forgotten since."""

import io
import json
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing

import pytest

from cause.cli import main
from cause.device.backup.archive import Archive
from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.backup.restore_log import RestoredLog
from cause.device.device import Cause
from cause.device.disk import Disk
from cause.device.exports import export
from cause.device.fsck import examine_home
from cause.device.home.home import Home
from cause.device.log import open_checkpoint
from cause.device.status import status
from cause.device.vault import FILES, EnvKeySource, Vault
from cause.device.verify import verify
from cause.errors import CauseError, HomeError, InputError, LogError
from tests.clean_room import differences
from tests.device.homes import LEARNERS, bayes, learn, opened, samples
from tests.quick import quick_only

SOURCE = EnvKeySource("CAUSE_TEST_KEY")
ROUNDS = ({"a": 300, "b": 40, "c": 9}, {"a": 20, "d": 30}, {"b": 12, "c": 7})


@pytest.fixture
def home(tmp_path):
    """A device that learned three rounds and was closed."""
    device = opened(tmp_path / "home")
    for users in ROUNDS:
        learn(device, **users)
    device.close()
    return tmp_path / "home"


def saved(home, name="b.tar"):
    with Cause(home, read_only=True) as device:
        backup(device.home, home.parent / name)
    return home.parent / name


def in_memory() -> Cause:
    device = Cause(learner=bayes(), system="frugal", shards=2, slots=8)
    for users in ROUNDS:
        learn(device, **users)
    return device


def lose_ledger(home):
    for path in home.glob("ledger.db*"):
        path.unlink()


def contents(home):
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def checked(home) -> Cause:
    """The device, whole and bit-identical to a replay."""
    assert examine_home(home).problems == []
    device = Cause(home)
    device.repair()
    verification = verify(device, processes=0)
    assert verification.identical == device.memory.stored()
    assert verification.sub_models > 0
    return device


def test_a_home_that_lost_its_data_part_is_as_before(home):
    archive = saved(home)
    for path in [*(home / "blocks").iterdir(), *(home / "sub-models").iterdir()]:
        path.unlink()
    done = restore(archive, home)
    assert (done.ledger, done.round, done.lost.samples, done.lost.sub_models) == ("live", 3, 0, 0)
    assert done.blocks > 5
    with checked(home) as device:
        assert differences(device, in_memory()) == []


def test_a_block_whose_inputs_alone_are_damaged_is_put_back(home):
    archive = saved(home)
    for path in (home / "blocks").iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    done = restore(archive, home)
    assert (done.ledger, done.blocks, done.lost.samples) == ("live", len(list((home / "blocks").iterdir())), 0)
    with checked(home) as device:
        assert differences(device, in_memory()) == []


def test_where_ledger_and_samples_are_lost_an_older_backup_is_refused(home):
    archive = saved(home)
    with Cause(home) as device:
        learn(device, e=25)
    lose_ledger(home)
    for path in (home / "blocks").iterdir():
        path.unlink()
    before = contents(home)
    with pytest.raises(HomeError, match=r"changed \d+ times after this backup.*--discard-later"):
        restore(archive, home)
    assert contents(home) == before
    assert restore(archive, home, discard_later=True).round == 3


def test_a_home_that_lost_its_ledger_is_as_before(home):
    archive = saved(home)
    lose_ledger(home)
    done = restore(archive, home)
    assert (done.ledger, done.round, done.blocks, done.lost.samples) == ("backup", 3, 0, 0)
    with checked(home) as device:
        assert differences(device, in_memory()) == []


@pytest.mark.parametrize("everything", [True, False], ids=["all data lost", "only the ledger lost"])
def test_what_was_forgotten_after_the_backup_does_not_come_back(home, everything):
    archive = saved(home)
    with Cause(home) as device:
        device.forget("b")
    lose_ledger(home)
    if everything:
        for path in [*(home / "blocks").iterdir(), *(home / "sub-models").iterdir()]:
            path.unlink()
    # where files of samples are lost, too, nobody knows whether samples came after the backup
    done = restore(archive, home, discard_later=everything)
    assert (done.ledger, done.lost.samples, done.lost.uploads) == ("backup", 52, 2)
    with checked(home) as device:
        assert device.ledger.rounds_of("b") == []
        twin = in_memory()
        twin.forget("b")
        assert differences(device, twin) == []


def test_the_same_backup_beside_an_old_copy_of_the_vault_would_bring_it_back(home):
    """The control: it is the keys that keep it away, which is why nobody may copy the vault."""
    archive = saved(home)
    shutil.copytree(home / "vault", home.parent / "old-vault")
    with Cause(home) as device:
        device.forget("b")
    lose_ledger(home)
    shutil.rmtree(home / "vault")
    shutil.copytree(home.parent / "old-vault", home / "vault")
    restore(archive, home, discard_later=True)
    with Cause(home) as device:
        assert device.ledger.rounds_of("b") == [1, 3]


def test_no_key_of_the_live_vault_opens_anything_forgotten_in_the_archive(home):
    with Cause(home) as device:
        to_delete = {
            name for t in device.ledger.rounds_of("b") for name in device.home.ledger.upload("b", t).blocks.names
        }
    archive = saved(home)
    with Cause(home) as device:
        device.forget("b")
        alive = device.home.vault.names()
    with Archive(archive) as entries:
        assert to_delete <= entries.sealed("blocks")
    assert not to_delete & alive


def test_of_a_block_that_was_rewritten_since_the_backup_nothing_comes_back(home):
    archive = saved(home)
    with Cause(home) as device:
        device.forget("a", rounds=[1], count=3)  # of the first of three blocks
    lose_ledger(home)
    with pytest.raises(HomeError, match="newer than this backup"):
        restore(archive, home)
    done = restore(archive, home, discard_later=True)
    assert done.lost.samples == 128
    with checked(home) as device:
        (piece,) = [held for _, held in device.ledger.pieces_of("a", 1)]
        assert piece == range(128, 300)  # the user's name comes from another upload of theirs
        assert device.predict(device.ledger.lineage(0).after(None)[0].pieces[0].upload.arrays(range(128, 130))[0]).size  # type: ignore[attr-defined]


def test_an_upload_whose_user_cannot_be_read_any_more_is_left_out(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=300, b=40)
    device.close()
    archive = saved(tmp_path / "home")
    with Cause(tmp_path / "home") as device:
        device.forget("a", rounds=[1], count=1)
    lose_ledger(tmp_path / "home")
    done = restore(archive, tmp_path / "home", discard_later=True)
    assert (done.lost.samples, done.lost.uploads) == (300, 1)
    with checked(tmp_path / "home") as device:
        assert device.ledger.rounds_of("a") == []


def test_rounds_after_the_backup_survive_where_the_ledger_does(home):
    archive = saved(home)
    with Cause(home) as device:
        learn(device, e=25)
        device.forget("d")
        names = {name.hex() for name in device.home.ledger.upload("e", 4).blocks.names}
    for path in (home / "blocks").iterdir():
        if path.name not in names:
            path.unlink()
    done = restore(archive, home)
    assert (done.ledger, done.round, done.lost.samples) == ("live", 4, 0)
    with checked(home) as device:
        assert device.ledger.rounds_of("e") == [4]
        assert device.ledger.rounds_of("d") == []


def test_samples_that_neither_the_disk_nor_the_backup_has_are_let_go(home):
    archive = saved(home)
    with Cause(home) as device:
        learn(device, e=25, a=6)
        heads = set(device.memory.stored())
    for path in (home / "blocks").iterdir():
        path.unlink()
    done = restore(archive, home, discard_later=True)
    assert (done.ledger, done.lost.samples, done.lost.uploads) == ("live", 31, 2)
    assert 0 < done.lost.sub_models < len(heads)
    with checked(home) as device:
        assert differences(device, in_memory()) == []


def test_a_request_that_waited_in_the_backup_and_was_served_since_stays_served(home, monkeypatch):
    device = Cause(home)
    with monkeypatch.context() as patch:
        patch.setattr(Home, "effect", lambda *_: (_ for _ in ()).throw(CauseError("the power goes")))
        with pytest.raises(CauseError, match="the power goes"):
            device.forget("d")
    backup(device.home, home.parent / "b.tar")
    device.close()
    with Cause(home) as device:  # serves it
        assert device.ledger.rounds_of("d") == []
    lose_ledger(home)
    done = restore(home.parent / "b.tar", home)
    assert (done.lost.requests, done.lost.samples) == (1, 30)
    with checked(home) as device:
        assert device.ledger.rounds_of("d") == []
        assert status(device).requests == ()


def test_exports_of_what_did_not_come_back_are_tainted(home):
    with Cause(home) as device:
        export(device, home.parent / "out")
    archive = saved(home)
    with Cause(home) as device:
        device.forget("c")
    lose_ledger(home)
    restore(archive, home)
    with Cause(home, read_only=True) as device:
        assert status(device).exports[0].tainted is not None


def test_an_export_of_the_very_first_sub_model_that_did_not_come_back_is_tainted(tmp_path):
    with opened(tmp_path / "home", shards=1) as device:
        learn(device, a=20, b=20)
        export(device, tmp_path / "out")
        backup(device.home, tmp_path / "b.tar")
        device.forget("b")
    lose_ledger(tmp_path / "home")
    restore(tmp_path / "b.tar", tmp_path / "home")
    with Cause(tmp_path / "home", read_only=True) as device:
        assert status(device).exports[0].tainted is not None


def test_a_call_of_the_backup_whose_samples_did_not_come_back_confirms_nothing(tmp_path):
    with opened(tmp_path / "home") as device:
        device.stage("b", *samples("b", 1, 4), call="staged")
        device.close_round()
        device.learn({"c": samples("c", 2, 5)}, idempotency_key="learned")
        backup(device.home, tmp_path / "b.tar")
        device.forget("b")
        device.forget("c")
    lose_ledger(tmp_path / "home")
    restore(tmp_path / "b.tar", tmp_path / "home")
    with Cause(tmp_path / "home") as device:
        inbox = device.home.inbox
        assert inbox.result_of_call("staged").samples == 0
        assert inbox.result_of_call(device.home.call_id("learned")) is None


@pytest.mark.parametrize("kind", LEARNERS)
def test_receipts_of_data_that_did_not_come_back_are_superseded_not_wrong(tmp_path, kind):
    with opened(tmp_path / "home", kind=kind, shards=1) as device:
        backup(device.home, tmp_path / "b.tar")
        learn(device, a=4, b=4)
        before = set((tmp_path / "home" / "blocks").iterdir())
        learn(device, c=4)
        device.forget("a")
    for block in set((tmp_path / "home" / "blocks").iterdir()) - before:
        block.unlink()
    restore(tmp_path / "b.tar", tmp_path / "home", discard_later=True)
    with opened(tmp_path / "home", kind=kind, shards=1) as device:
        device.repair()
        checked = [device.verify(number, processes=0) for number in range(device.home.receipts.size)]
        assert all(each.holds for each in checked), [each.wrong for each in checked]
        assert any("data of shard 0" in each.superseded for each in checked)


def test_a_backup_holds_no_key_of_any_kind(home):
    with Cause(home, read_only=True) as device:
        keys = [device.home.vault.key(name) for name in device.home.vault.names()]
        backup(device.home, home.parent / "b.tar")
    data = (home.parent / "b.tar").read_bytes()
    assert len(keys) > 10
    assert not any(key in data for key in keys)
    assert bytes.fromhex("11" * 32) not in data
    assert b"11" * 32 not in data
    for name in FILES:
        own = (home / "vault" / name).read_bytes()
        parts = [own[at : at + 64] for at in range(0, len(own), 64)]
        assert not any(part in data for part in parts if part.strip(b"\0"))
    with tarfile.open(home.parent / "b.tar") as tar:
        assert not {name.rpartition("/")[2] for name in tar.getnames()} & set(FILES)


def test_a_backup_can_be_taken_while_another_process_works(home):
    with Cause(home) as writer:
        archive = saved(home)
        learn(writer, f=10)
    with Archive(archive) as entries:
        assert entries.manifest.round == 3


def test_a_backup_is_durable_when_the_call_returns(home, monkeypatch):
    synced, sync = set(), os.fsync

    def noted(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert {saved(home).stat().st_ino, home.parent.stat().st_ino} <= synced


def test_a_backup_overwrites_nothing_and_does_not_lie_in_its_home(home):
    archive = saved(home)
    before = archive.read_bytes()
    with pytest.raises(InputError, match="there already"):
        saved(home)
    assert archive.read_bytes() == before
    with Cause(home, read_only=True) as device, pytest.raises(InputError, match="inside the home"):
        backup(device.home, home / "b.tar")


def entry(name, data=b"x", **fields):
    made = tarfile.TarInfo(name)
    made.size = len(data)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, data


def changed(archive, change=lambda name, data: data, more=()):
    """The archive with other contents."""
    target = archive.with_name("changed.tar")
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            data = change(member.name, old.extractfile(member).read())
            if data is not None:
                new.addfile(entry(member.name, data)[0], io.BytesIO(data))
        for made, data in more:
            new.addfile(made, io.BytesIO(data) if made.isreg() else None)
    return target


def edited(change):
    def changing(name, data):
        if name != "manifest.json":
            return data
        manifest = json.loads(data)
        change(manifest)
        return json.dumps(manifest).encode()

    return changing


def without(left_out):
    return lambda name, data: None if name == left_out else data


BLOCK = "blocks/" + "0" * 32
BAD = {
    "leads out": ({"more": [entry("../evil")]}, "which no backup holds"),
    "absolute": ({"more": [entry("/etc/evil")]}, "which no backup holds"),
    "inside but strange": ({"more": [entry("blocks/../../evil")]}, "which no backup holds"),
    "a key file": ({"more": [entry("vault/root")]}, "which no backup holds"),
    "a link": ({"more": [entry(BLOCK, b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")]}, "not a plain"),
    "a hard link": ({"more": [entry(BLOCK, b"", type=tarfile.LNKTYPE, linkname="ledger.db")]}, "not a plain"),
    "a device": ({"more": [entry(BLOCK, b"", type=tarfile.CHRTYPE)]}, "not a plain"),
    "twice": ({"more": [entry("cause.toml")]}, "twice"),
    "no ledger": ({"change": without("ledger.db")}, "no 'ledger.db'"),
    "no manifest": ({"change": without("manifest.json")}, "no 'manifest.json'"),
    "another ledger": ({"change": lambda n, d: d + b"x" if n == "ledger.db" else d}, "was changed or is damaged"),
    "another round": ({"change": edited(lambda m: m.update(round=99))}, "not a backup of this home"),
    "a forged commitment": ({"change": edited(lambda m: m.update(commitment="00" * 32))}, "not a backup of this home"),
    "a newer version": ({"change": edited(lambda m: m.update(version=2))}, "has version 2"),
    "a strange manifest": ({"change": edited(lambda m: m.pop("made"))}, "manifest is damaged"),
    "a giant manifest": ({"change": edited(lambda m: m.update(cause="x" * 100_000))}, "manifest is too long"),
    "no JSON": ({"change": lambda n, d: b"[" * 5_000 if n == "manifest.json" else d}, "manifest is damaged"),
}  # fmt: skip


@pytest.mark.parametrize(("how", "message"), BAD.values(), ids=BAD)
def test_a_foreign_or_forged_archive_is_refused_and_nothing_changes(home, how, message):
    archive = changed(saved(home), **how)
    lose_ledger(home)
    before = contents(home)
    with pytest.raises(InputError, match=message) as caught:
        restore(archive, home)
    assert "\n" not in str(caught.value)
    assert contents(home) == before


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\0" * 20_000, b"\x1f\x8b" + b"x" * 600])
def test_what_is_no_archive_is_refused(home, data):
    (home.parent / "x.tar").write_bytes(data)
    with pytest.raises(InputError, match=r"x\.tar"):
        restore(home.parent / "x.tar", home)


def test_an_archive_that_was_cut_off_is_refused(home):
    archive = saved(home)
    data = archive.read_bytes()
    lose_ledger(home)
    before = contents(home)
    with tarfile.open(archive) as tar:  # also where one entry ends and the next begins
        between = [entry.offset for entry in tar]
    whole = len(data.rstrip(b"\0"))
    for length in sorted([*range(100, whole, len(data) // 23), *between, whole + 512]):
        archive.write_bytes(data[:length])
        with pytest.raises(InputError):
            restore(archive, home)
    assert contents(home) == before


def test_a_backup_of_another_home_is_refused(home, tmp_path):
    other = opened(tmp_path / "other", learner=bayes())  # made anew, so it has keys of its own
    learn(other, a=10)
    other.close()
    with pytest.raises(InputError, match="not a backup of this home"):
        restore(saved(tmp_path / "other"), home)


def test_without_the_vault_there_is_nothing_to_restore_into(home, tmp_path):
    archive = saved(home)
    shutil.rmtree(home / "vault")
    with pytest.raises(HomeError, match="has no vault"):
        restore(archive, home)
    with pytest.raises(HomeError, match="has no vault"):
        restore(archive, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_lost_configuration_comes_back_but_never_says_where_the_key_is(home):
    archive = saved(home)
    (home / "cause.toml").unlink()
    with pytest.raises(InputError, match="say where the master key is"):
        restore(archive, home)
    restore(archive, home, key={"env": "CAUSE_TEST_KEY"})
    with checked(home) as device:
        assert differences(device, in_memory()) == []
    with pytest.raises(InputError, match="leave the option out"):
        restore(archive, home, key={"env": "CAUSE_TEST_KEY"})


def test_a_home_in_use_is_not_restored_into(home):
    archive = saved(home)
    with Cause(home), pytest.raises(HomeError, match="in use by process"):
        restore(archive, home)


def test_keys_of_what_did_not_come_back_are_destroyed(home):
    archive = saved(home)
    with Cause(home) as device:
        learn(device, e=25)
        later = set(device.home.ledger.upload("e", 4).blocks.names)
    lose_ledger(home)
    restore(archive, home, discard_later=True)
    with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
        assert not later & vault.names()
    assert not any((home / "blocks" / name.hex()).exists() for name in later)


def test_a_damaged_configuration_is_replaced_when_the_key_is_named(home):
    archive = saved(home)
    (home / "cause.toml").write_text("[device\n")
    with pytest.raises(InputError, match="name the master key"):
        restore(archive, home)
    restore(archive, home, key={"env": "CAUSE_TEST_KEY"})
    checked(home).close()


def test_an_archives_key_command_is_never_run(home, tmp_path):
    archive = saved(home)
    command = f'[key]\ncommand = ["touch", "{tmp_path / "ran"}"]\n'.encode()
    forged = changed(archive, lambda name, data: command if name == "cause.toml" else data)
    (home / "cause.toml").unlink()
    with pytest.raises(InputError):
        restore(forged, home)
    with pytest.raises(InputError, match="was changed or is damaged"):
        restore(forged, home, key={"env": "CAUSE_TEST_KEY"})
    assert not (tmp_path / "ran").exists()


class FailingDisk(Disk):
    """A disk that breaks at its n-th change."""

    def __init__(self, at):
        self.left = at

    def _step(self):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def create(self, path):
        self._step()
        return super().create(path)

    def rename(self, old, new):
        self._step()
        super().rename(old, new)

    def unlink(self, path):
        self._step()
        super().unlink(path)

    def sync_folder(self, folder):
        self._step()
        super().sync_folder(folder)


@pytest.mark.parametrize("lost", quick_only(["ledger", "data"], ["ledger"]))
def test_a_restore_that_was_cut_short_anywhere_can_be_done_again(home, lost):
    archive = saved(home)
    with Cause(home) as device:
        device.forget("b")
    if lost == "ledger":
        lose_ledger(home)
    else:
        for path in [*(home / "blocks").iterdir(), *(home / "sub-models").iterdir()]:
            path.unlink()
    (home / "cause.toml").unlink()
    shutil.copytree(home, home.parent / "damaged")
    steps = 0
    while True:
        shutil.rmtree(home)
        shutil.copytree(home.parent / "damaged", home)
        disk = FailingDisk(steps)
        try:
            restore(archive, home, key={"env": "CAUSE_TEST_KEY"}, disk=disk)
        except (OSError, CauseError):
            steps += 1
            key = None if (home / "cause.toml").exists() else {"env": "CAUSE_TEST_KEY"}
            restore(archive, home, key=key)
        with checked(home) as device:
            twin = in_memory()
            twin.forget("b")
            assert differences(device, twin) == []
        if disk.left >= 0:
            break
    assert steps > 3


# The log


def with_receipts(home, *counts):
    """Receipts of some forgets; what the log's head is then, for an auditor to hold."""
    with Cause(home) as device:
        for user, round_ in counts:
            device.forget(user, rounds=[round_], count=1)
        kept = device.home.receipts
        return open_checkpoint(kept.checkpoint(), kept.verifier)


def damage(home, table):
    """Overwrite the first page of a table."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", [table]).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with (home / "ledger.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


def proved(home, held):
    with Cause(home, read_only=True) as device:
        return device.home.receipts.consistency(held)


def test_entries_that_the_damaged_ledger_still_has_stay_in_the_log(home):
    with_receipts(home, ("a", 2))
    archive = saved(home)
    held = with_receipts(home, ("c", 1), ("d", 2))
    damage(home, "history")
    done = restore(archive, home, discard_later=True)
    assert (done.ledger, done.log) == ("backup", RestoredLog(2, 4, 6))
    proved(home, held)
    with checked(home) as device:
        kept = device.home.receipts
        assert [each["kind"] for each in kept.listed()][-2:] == ["repair", "restore"]
        for number in range(kept.size):
            kept.bundle(number).check(kept.verifier)
        device.forget("b", rounds=[1], count=1)
    proved(home, held)


@pytest.mark.parametrize("table", ["leaves", None])
def test_a_log_that_lost_entries_never_passes_for_the_one_that_had_them(home, table, capsys):
    before = with_receipts(home, ("a", 2))
    archive = saved(home)
    held = with_receipts(home, ("c", 1), ("d", 2))
    damage(home, table) if table else lose_ledger(home)
    with pytest.raises(SystemExit) as end:
        main(["restore", str(archive), str(home), "--discard-later"])
    assert end.value.code == 0
    assert (
        "the log has the backup's 2 entries, 0 more from the damaged ledger, and entry 2, which says so; later ones "
        "are lost, if there were any"
    ) in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["receipts", str(home)])
    assert end.value.code == 0
    assert "restore" in capsys.readouterr().out
    proved(home, before)
    with pytest.raises(LogError, match=r"was never one of 6 \(entry 2: restored at 2"):
        proved(home, held)
    later = with_receipts(home, ("a", 2), ("b", 1))
    assert later.size > held.size
    with pytest.raises(LogError, match=r"it was rewritten \(entry 2: restored at 2"):
        proved(home, held)
    proved(home, later)


def test_a_restored_log_keeps_its_name_and_the_check_of_an_older_receipt_names_the_restore(home):
    archive = saved(home)  # with an empty log
    with_receipts(home, ("a", 2))
    with Cause(home, read_only=True) as device:
        bundle, name = device.home.receipts.bundle(1), device.home.receipts.verifier
    lose_ledger(home)
    assert restore(archive, home, discard_later=True).log == RestoredLog(0, 0, 0)
    with Cause(home, read_only=True) as device:
        assert device.home.receipts.verifier == name
        bundle.check(name)
        with pytest.raises(LogError, match=r"not one of this log: it was rewritten \(entry 0: restored"):
            device.verify(bundle, processes=0)
        assert device.verify(0, processes=0).holds


def test_entries_of_another_branch_of_the_log_are_not_mixed_in(home):
    with_receipts(home, ("a", 2))
    older = saved(home, "older.tar")
    with_receipts(home, ("c", 1))
    newer = saved(home, "newer.tar")
    lose_ledger(home)
    restore(older, home, discard_later=True)
    with_receipts(home, ("d", 2), ("b", 1))
    damage(home, "history")
    assert restore(newer, home, discard_later=True).log == RestoredLog(4, 0, 4)


def test_a_home_that_keeps_its_ledger_keeps_its_log(home):
    archive = saved(home)
    held = with_receipts(home, ("a", 2))
    for path in (home / "sub-models").iterdir():
        path.unlink()
    assert restore(archive, home).log is None
    proved(home, held)


@pytest.mark.parametrize("lost", [True, False], ids=["the ledger lost", "a ledger that others may read"])
def test_backups_and_what_is_restored_are_their_owners_alone(home, lost):
    before = os.umask(0o022)
    try:
        archive = saved(home)
        assert archive.stat().st_mode & 0o777 == 0o600
        (home / "ledger.db").chmod(0o644)
        if lost:
            lose_ledger(home)
        restore(archive, home)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_file()} == {0o600}
