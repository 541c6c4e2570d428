"""No statement of a forget looks at all rows of a table that grows with users, rounds or receipts."""

import re
from contextlib import closing

import pytest

from cause.device.store.database import Database
from tests.device.homes import opened, samples

GROWING = {"uploads", "pieces", "blocks", "segments", "requests", "leaves", "nodes", "history", "retrained"}
SCAN = re.compile(
    r"^SCAN (\w+)(?! USING (?:COVERING )?INDEX (?:requests_unsigned|uploads_to_upgrade|pieces_quarantined))"
)
"""The three indexes are of few rows: what is not signed, not upgraded, or in quarantine."""


@pytest.fixture
def statements(monkeypatch):
    """Record all SQL statements that a test runs."""
    traced: dict[str, None] = {}
    for name in ("run", "many", "rows"):
        original = getattr(Database, name)

        def listening(self, statement, *args, original=original):
            traced[statement] = None
            return original(self, statement, *args)

        monkeypatch.setattr(Database, name, listening)
    return traced


def scans(device, statements) -> list[str]:
    full_scans = []
    for statement in statements:
        if not statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")):
            continue
        values = [0] * statement.count("?")
        with closing(device.home.database._connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)) as plan:
            for *_, step in plan:
                scanned = SCAN.match(step)
                if scanned and scanned.group(1) in GROWING:
                    full_scans.append(f"{step}: {statement}")
    return full_scans


@pytest.mark.parametrize("arguments", [{}, {"rounds": [1]}, {"rounds": [1], "count": 2}])
def test_a_forget_scans_no_table_that_grows(tmp_path, statements, arguments):
    with opened(tmp_path / "home") as device:
        for round_ in (1, 2):
            device.learn({user: samples(user, round_, 6) for user in ("alice", "bob", "carol")})
        statements.clear()
        device.forget("alice", **arguments, repair="later")
        assert len(statements) > 20
        assert scans(device, statements) == []


def test_a_statement_that_scans_is_noticed(tmp_path, statements):
    with opened(tmp_path / "home") as device:
        device.learn({"alice": samples("alice", 1, 6)})
        statements.clear()
        device.home.database.rows("SELECT id FROM requests WHERE signed=0 AND effective IS NOT NULL")
        assert len(scans(device, statements)) == 1
