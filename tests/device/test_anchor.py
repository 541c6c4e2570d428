"""A ledger that is older than its keys know is refused, named, and destroys nothing."""

import errno
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from cause.device.backup.backup import backup
from cause.device.backup.restore import accept_older, older_state, restore
from cause.device.disk import Disk
from cause.device.fsck import examine_home
from cause.device.home.anchoring import AnchorKeeper
from cause.device.home.home import Home
from cause.device.receipts.transparency_log import RESTORE
from cause.device.store.anchor import PAGE_BYTES, Anchor
from cause.device.store.database import Database
from cause.device.vault import EnvKeySource, Vault
from cause.errors import CauseError, HomeError
from tests.device.homes import learn, opened
from tests.recording_disk import RecordingDisk, crash_states
from tests.torture.recorded_home import on

SOURCE = EnvKeySource("CAUSE_TEST_KEY")


def killed(home):
    """A home whose process was killed: its newest changes lie in the write-ahead log."""
    device = opened(home)
    learn(device, a=40, b=30)
    learn(device, a=20, c=10)
    device.forget("b", repair="later")
    learn(device, d=25)
    copy = home.with_name(home.name + "-killed")
    shutil.copytree(home, copy)
    device.close()
    assert (copy / "ledger.db-wal").stat().st_size > 10_000
    return copy


def keys(home):
    with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
        return vault.names()


def refused(home, match="older than its keys know"):
    """Neither a writer nor a reader opens it, and nothing is destroyed."""
    before = keys(home), sorted(path.name for path in home.rglob("*") if path.parent.name in ("blocks", "sub-models"))
    for read_only in (True, False):
        with pytest.raises(CauseError, match=match) as error:
            opened(home, read_only=read_only)
        assert "\n" not in str(error.value)
    assert before == (
        keys(home),
        sorted(path.name for path in home.rglob("*") if path.parent.name in ("blocks", "sub-models")),
    )
    assert examine_home(home).problems
    return str(error.value)


def test_a_killed_home_opens(tmp_path):
    home = killed(tmp_path / "home")
    with opened(home) as device:
        assert device.ledger.round == 3


def test_no_key_is_destroyed_while_the_ledger_that_was_read_is_not_durable(tmp_path):
    """A power loss could bring back an older ledger, which still names it."""

    class Failing(Disk):
        def sync(self, *files):
            if any(file.path.name.endswith("-wal") for file in files):
                raise OSError(errno.EIO, "the disk")
            super().sync(*files)

    home, stray = killed(tmp_path / "home"), bytes(range(16))
    with Vault.open(home / "vault", SOURCE) as vault:
        vault.new_key(stray)
    with closing(Home(home, SOURCE, disk=Failing())) as opening:
        assert not opening.database.durable
        assert stray in opening.vault
        assert stray in opening.garbage
    opened(home).close()
    assert stray not in keys(home)


def test_a_lost_write_ahead_log_is_refused_and_named(tmp_path):
    home = killed(tmp_path / "home")
    (home / "ledger.db-wal").unlink()
    message = refused(home)
    assert "cause restore" in message
    assert "--accept-older" in message


def test_a_flipped_bit_in_the_write_ahead_log_is_refused(tmp_path):
    home = killed(tmp_path / "home")
    log = home / "ledger.db-wal"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    refused(home)


def test_an_old_ledger_put_back_is_refused(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40, b=30)
    shutil.copy(home / "ledger.db", tmp_path / "old.db")
    with opened(home) as device:
        device.forget("b")
        learn(device, c=10)
    shutil.copy(tmp_path / "old.db", home / "ledger.db")
    refused(home)


def test_a_restore_of_an_old_ledger_put_back_is_logged(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40, b=30)
    shutil.copy(home / "ledger.db", tmp_path / "old.db")
    with opened(home) as device:
        device.forget("b", repair="later")
        device.forget("a", rounds=[1], count=3)
        backup(device.home, tmp_path / "newer.tar")
        entries = device.home.receipts.size
    shutil.copy(tmp_path / "old.db", home / "ledger.db")
    done = restore(tmp_path / "newer.tar", home)
    assert done.ledger == "backup"
    with opened(home) as device:
        receipts = device.home.receipts
        assert receipts.size == entries + 1
        assert receipts.entry(entries)[1] == RESTORE
        assert device.ledger.rounds_of("b") == []
    assert examine_home(home).problems == []


def test_an_older_state_can_be_accepted_and_the_log_says_so(tmp_path):
    home = killed(tmp_path / "home")
    (home / "ledger.db-wal").unlink()
    cost = older_state(home)
    assert cost.change < cost.newest
    done = accept_older(home)
    assert done.ledger == "live"
    with opened(home) as device:
        device.repair()
        assert device.verify(processes=0).mismatched == []
        number, body = device.home.database.row("SELECT number, body FROM leaves WHERE kind=?", [RESTORE])
        entry = json.loads(bytes(body).split(b"\n\n")[0])
        assert entry["newest_change"] == cost.newest
        assert number == done.log.entry
    assert examine_home(home).problems == []


def test_a_home_that_lost_its_anchor_is_refused_and_restored(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40)
        backup(device.home, tmp_path / "b.tar")
    (home / "vault" / "anchor").unlink()
    refused(home, match="anchor")
    restore(tmp_path / "b.tar", home)
    opened(home).close()


def test_a_home_of_an_earlier_version_gets_an_anchor(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40)
        device.forget("a", count=1, rounds=[1])
        entries = device.home.receipts.size
    (home / "vault" / "anchor").unlink()
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as ledger:
        ledger.execute("DELETE FROM meta WHERE name IN ('change', 'log', 'config', 'checksum')")
    opened(home).close()
    with opened(home) as device:
        assert device.home.receipts.size == entries
    shutil.copy(home / "ledger.db", tmp_path / "old.db")
    with opened(home) as device:
        learn(device, b=4)
    shutil.copy(tmp_path / "old.db", home / "ledger.db")
    refused(home)


def test_a_torn_write_of_the_anchor_leaves_the_last_durable_state(tmp_path):
    home = tmp_path / "home"
    opened(home).close()
    path = home / "vault" / "anchor"
    with (
        Vault.open(home / "vault", SOURCE, read_only=True) as vault,
        closing(Anchor(home / "vault", vault, Disk())) as anchor,
    ):
        for _ in range(3):
            before, durable = anchor.mark, path.read_bytes()
            anchor.write(replace(before, change=before.change + 1))
            written = path.read_bytes()
            for at in range(0, len(written), PAGE_BYTES):
                if durable[at : at + PAGE_BYTES] != written[at : at + PAGE_BYTES]:
                    with path.open("rb+") as file:
                        file.seek(at)
                        file.write(bytes(PAGE_BYTES))
            assert Anchor(home / "vault", vault, Disk(), read_only=True).mark == before
            path.write_bytes(written)
            anchor.synced()


@pytest.mark.parametrize("page", range(4))
def test_any_page_of_an_anchor_may_be_damaged(tmp_path, page):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=40)
        device.forget("a", rounds=[1], count=2)
    anchor = home / "vault" / "anchor"
    data = bytearray(anchor.read_bytes())
    with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
        before = Anchor(home / "vault", vault, Disk(), read_only=True).mark
    data[page * PAGE_BYTES + 30] ^= 4
    anchor.write_bytes(data)
    with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
        assert Anchor(home / "vault", vault, Disk(), read_only=True).mark == before
    opened(home).close()
    with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
        assert Anchor(home / "vault", vault, Disk(), read_only=True).mark.change >= before.change


@pytest.mark.long
def test_in_no_state_that_a_power_loss_leaves_is_the_anchor_ahead_of_the_ledger(tmp_path, thorough):
    root = tmp_path / "life"
    root.mkdir()
    disk = RecordingDisk(root)
    with on(disk):
        device = opened(root / "home", shards=1)
        learn(device, a=20, b=10)
        device.forget("b", repair="later")
        learn(device, c=5)
        device.close()
        made = len(disk.operations)
        device = opened(root / "home", shards=1)
        device.forget("a", rounds=[1], count=1)
        device.close()
    states = ahead = 0
    for number, state in list(crash_states(disk, most=1))[:: 1 if thorough else 4]:
        state.write_to(tmp_path / "state")
        home = tmp_path / "state" / "home"
        if (home / "cause.toml").exists():
            with Vault.open(home / "vault", SOURCE, read_only=True) as vault:
                anchored = Anchor(home / "vault", vault, Disk(), read_only=True).mark
            with closing(Database(home / "ledger.db", read_only=True)) as database:
                assert database.change >= anchored.change, number
                ahead += database.change > anchored.change
            states += 1
            if states % (40 if thorough else 10) == 0:
                opened(home, shards=1).close()
        shutil.rmtree(tmp_path / "state")
    assert made
    assert states > (100 if thorough else 25)
    assert ahead  # otherwise nothing was tried


def test_a_reader_beside_a_writer_raises_no_false_alarm(tmp_path, monkeypatch):
    home = tmp_path / "home"
    with opened(home) as writer:
        learn(writer, a=20)
        original, rounds = AnchorKeeper.__init__, []

        def with_a_commit_in_between(self, *args, read_only):
            original(self, *args, read_only=read_only)
            if read_only:
                rounds.append(learn(writer, a=2))

        monkeypatch.setattr(AnchorKeeper, "__init__", with_a_commit_in_between)
        for _ in range(3):
            opened(home, read_only=True).close()
        assert len(rounds) == 3


def test_an_anchor_written_before_its_commit_is_caught(tmp_path, monkeypatch):
    """The test of power losses would see it: the sabotage names the change that is about to be made."""
    from cause.device.home import home as module

    class Early(Database):
        def run(self, statement, values=()):
            if statement == "COMMIT":
                for call in self.after_commit:
                    call()
            return super().run(statement, values)

    monkeypatch.setattr(module, "Database", Early)
    with pytest.raises(AssertionError):
        test_in_no_state_that_a_power_loss_leaves_is_the_anchor_ahead_of_the_ledger(tmp_path, thorough=False)


def test_a_home_with_a_damaged_anchor_says_so(tmp_path):
    home = tmp_path / "home"
    with opened(home) as device:
        learn(device, a=20)
    (home / "vault" / "anchor").write_bytes(bytes(100))
    with pytest.raises(HomeError, match="is damaged"):
        opened(home)
