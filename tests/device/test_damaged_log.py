"""A damaged log: no wrong root is signed, every entry and node is checked, and nodes are made anew from the entries."""

import sqlite3
from contextlib import closing

import pytest

from cause.device.fsck import examine_home
from cause.errors import LogError
from tests.device.homes import learn, opened


@pytest.fixture
def home(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=40, b=10, c=10, d=10)
        for user in "bcd":
            device.forget(user)
        assert device.home.receipts.size == 6
    return tmp_path / "home"


def damage(home, statement):
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as ledger:
        ledger.execute(statement)


def problems(home):
    return [each.what for each in examine_home(home).problems]


NODE = "UPDATE nodes SET hash=zeroblob(32) WHERE level=1 AND number=0"


def test_a_wrong_root_is_not_signed(home):
    damage(home, "UPDATE nodes SET hash=zeroblob(32) WHERE level=2 AND number=0")
    assert any("node (2, 0)" in problem for problem in problems(home))
    with opened(home, read_only=True) as device, pytest.raises(LogError, match="do not lead to its root"):
        device.home.receipts.checkpoint()


def test_a_damaged_node_inside_is_found(home):
    damage(home, NODE)
    assert any("node (1, 0)" in problem for problem in problems(home))


def test_the_next_entry_makes_damaged_nodes_anew(home):
    damage(home, "UPDATE nodes SET hash=zeroblob(32) WHERE level=2 AND number=0")
    with opened(home) as device:
        device.forget("a", rounds=[1], count=1)
        log = device.home.receipts
        for number in range(log.size):
            log.bundle(number).check(log.verifier)
    assert not any("node" in problem for problem in problems(home))


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        (
            "UPDATE leaves SET body=CAST(replace(CAST(body AS TEXT), 'effect', 'repair') AS BLOB) WHERE number=0",
            "entry 0",
        ),
        ("UPDATE leaves SET kind='other' WHERE number=1", "entry 1 of the log is filed"),
        ("DELETE FROM leaves WHERE number=5", "lost entry 5"),
        ("UPDATE meta SET value='5 ' || substr(value, 3) WHERE name='log'", "do not lead to its root"),
        ("UPDATE meta SET value='many' WHERE name='round'", "'round'"),
        ("UPDATE meta SET value=-1 WHERE name='change'", "last change is -1"),
    ],
)
def test_every_entry_and_row_is_checked(home, statement, match):
    damage(home, statement)
    assert any(match in problem for problem in problems(home))


def test_any_changed_row_is_found(home):
    for statement in (
        "UPDATE requests SET samples=samples+1",
        "UPDATE history SET shard=shard+1",
        "DELETE FROM calls",
        "UPDATE segments SET trained=0",
        "UPDATE uploads SET arrived=arrived+1",
    ):
        with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as ledger:
            ledger.execute("BEGIN")
            if not ledger.execute(statement).rowcount:
                continue
            ledger.execute("COMMIT")
        assert any("do not add up" in problem for problem in problems(home)), statement
