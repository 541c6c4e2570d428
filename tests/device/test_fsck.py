"""`examine_home` finds what is wrong with a home, names the way out, and changes nothing."""

import sqlite3
import threading

import pytest

from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.store.layout import DEVICE_KEY
from cause.device.vault import EnvKeySource, Vault
from cause.engine.requests import Request
from cause.errors import HomeError, VaultError
from tests.device.homes import learn, opened


@pytest.fixture
def home(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=200, b=40)
    learn(device, a=20)
    device.close()
    return tmp_path / "home"


def problems(home):
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    health = examine_home(home)
    assert {path: path.read_bytes() for path in before if path.name not in ("ledger.db-shm", "ledger.db-wal")} == {
        path: data for path, data in before.items() if path.name not in ("ledger.db-shm", "ledger.db-wal")
    }
    return [each.what for each in health.problems]


def first(folder):
    return sorted(folder.iterdir())[0]


def test_a_whole_home_has_no_problem(home):
    health = examine_home(home)
    assert (health.problems, health.notes, health.blocks, health.sub_models) == ([], [], 4, 3)


def test_files_that_are_lost_or_damaged_are_named_one_by_one(home):
    block, sub_model = first(home / "blocks"), first(home / "sub-models")
    block.unlink()
    data = bytearray(sub_model.read_bytes())
    data[60] ^= 1
    sub_model.write_bytes(data)
    sentences = problems(home)
    assert len(sentences) == 2
    assert block.name in sentences[0]
    assert "do not open" in sentences[1]


@pytest.mark.parametrize("cut", [0, 3, 30, 200])
def test_a_block_that_was_cut_off_is_found(home, cut):
    block = first(home / "blocks")
    block.write_bytes(block.read_bytes()[:cut])
    (problem,) = problems(home)
    assert block.name in problem


@pytest.mark.parametrize("part", ["ledger.db", "blocks", "sub-models", "vault", "cause.toml"])
def test_a_part_that_is_missing_is_named(home, part):
    (home / part).rename(home.parent / "elsewhere")
    assert any(part.partition(".")[0] in problem for problem in problems(home))


def test_a_damaged_ledger_is_named_with_the_way_out(home):
    ledger = home / "ledger.db"
    data = bytearray(ledger.read_bytes())
    data[4096:12_288] = b"\xff" * 8192
    ledger.write_bytes(data)
    health = examine_home(home)
    assert health.problems
    assert all("restore" in problem.remedy for problem in health.problems)


def test_a_ledger_and_keys_that_do_not_fit_together_are_found(home):
    device = Cause(home)
    (name, *_) = device.home.ledger.upload("a", 1).blocks.names
    device.home.vault.erase([name])
    device.close()
    sentences = problems(home)
    assert any("key is gone" in problem for problem in sentences)
    assert any("the user of upload" in problem for problem in sentences)


def test_samples_that_the_ledger_has_and_no_block_are_found(home):
    with sqlite3.connect(home / "ledger.db") as database:
        database.execute("UPDATE pieces SET positions=? WHERE upload=1", [b"0-500"])
    database.close()
    rows, positions = problems(home)
    assert "do not add up" in rows
    assert positions == "upload 1 has samples in the ledger that no block holds"


def test_samples_that_a_block_has_and_the_ledger_does_not_name_are_found(home):
    with sqlite3.connect(home / "ledger.db") as database:
        database.execute("UPDATE pieces SET positions=? WHERE upload=1", [b"0-100"])
    database.close()
    rows, positions = problems(home)
    assert "do not add up" in rows
    assert positions == "upload 1 has samples in its blocks that the ledger does not name"


def test_a_request_that_waits_and_cannot_be_read_any_more_is_found(home):
    with Cause(home) as device:
        (id_,) = device.home.accept([Request("a")])
        device.home.vault.erase([bytes.fromhex(id_)])
    assert problems(home) == [f"request {id_} is not in effect and cannot be read any more"]


def test_a_home_that_lost_the_devices_own_key_is_found(home):
    with Vault.open(home / "vault", EnvKeySource("CAUSE_TEST_KEY")) as vault:
        vault.erase([DEVICE_KEY])
    assert problems(home) == ["the device's own key is missing"]
    with pytest.raises(VaultError, match="no key"):
        Cause(home)


def test_what_a_crash_left_behind_is_only_a_note(home):
    (home / "blocks" / ("ab" * 16)).write_bytes(b"left over")
    health = examine_home(home)
    assert health.problems == []
    assert "1 files that nothing uses" in health.notes[0]


def test_what_a_writer_deletes_meanwhile_is_no_problem(home):
    ended, reported = threading.Event(), []

    def work():
        with Cause(home) as device:
            for _ in range(12):
                learn(device, a=30, c=30)
                device.forget("c", repair="later")
                device.forget("a", rounds=[device.ledger.round], count=3, repair="later")
                device.repair()
        ended.set()

    writer = threading.Thread(target=work)
    writer.start()
    looks = 0
    while not ended.is_set():
        reported += examine_home(home).problems
        looks += 1
    writer.join()
    assert reported == []
    assert looks > 3


def test_another_master_key_is_a_problem_and_no_crash(home, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", "22" * 32)
    (problem,) = problems(home)
    assert "master key" in problem


def test_a_foreign_folder_is_no_home(tmp_path):
    with pytest.raises(HomeError, match="is not a home"):
        examine_home(tmp_path)
