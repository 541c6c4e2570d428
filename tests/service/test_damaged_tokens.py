"""A damaged file of tokens: the service starts, nobody has access until new tokens are made, and nothing is deleted."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cause.errors import HomeError
from cause.service.service import tokens_of
from cause.service.tokens import FILE, Tokens
from tests.service.services import Running
from tests.waiting import wait_until


def other_bytes(file: Path) -> None:
    file.write_bytes(os.urandom(9000))


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def damaged_pages(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:4096] + os.urandom(file.stat().st_size - 4096))


def other_columns(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE tokens (id TEXT)")
        other.commit()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent / "nowhere" / "access.db")


@pytest.mark.parametrize(
    "damage",
    [other_bytes, half, damaged_pages, other_columns, a_folder, a_link_to_nothing],
    ids=lambda each: each.__name__,
)
def test_the_service_starts_repairs_and_takes_new_tokens(damage, tmp_path, caplog):
    """What was erased must be repaired in time, whatever became of the tokens."""
    folder = tmp_path / "home"
    with Running(folder, repair="never") as running:
        running.learn(ann=5, bob=5)
        assert running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 1}).status_code == 202
        old = running.secrets["operator"]
    damage(folder / FILE)
    with Running(folder, repair="now") as running:
        assert "make new tokens with `cause token create`" in caplog.text
        running.settled()
        refused = running.http.get("/v1/status", headers={"Authorization": f"Bearer {old}"})
        assert refused.status_code == 401, "a token that cannot be looked up is no token"
        tokens = tokens_of(folder)  # as the command makes them, beside the running service
        try:
            _, secret = tokens.create(["operator"])
        finally:
            tokens.close()
        again = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        assert running.http.post("/v1/users/bob/erasures", headers=again, content=b"{}").status_code == 202
        assert os.path.lexists(folder / f"{FILE}.damaged")
    with Running(folder) as running:
        wait_until(lambda: running.http.get("/v1/status", headers=again).status_code == 200)
    assert not os.path.lexists(folder / f"{FILE}.damaged-2")


def test_commands_say_what_to_do_and_move_nothing(tmp_path):
    with Running(tmp_path / "home"):
        pass
    other_bytes(tmp_path / "home" / FILE)
    with pytest.raises(HomeError, match="move it away and make new tokens"):
        tokens_of(tmp_path / "home")
    assert (tmp_path / "home" / FILE).exists()


def test_a_file_that_is_only_locked_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("cause.service.tokens.LOCKED_S", 0.1)
    Tokens(tmp_path, bytes(32)).close()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HomeError, match="locked"):
            Tokens(tmp_path, bytes(32), set_aside=True)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_journal_of_the_damaged_file_is_not_played_into_the_new_one(tmp_path):
    Tokens(tmp_path, bytes(32)).close()
    a_folder(tmp_path / FILE)
    (tmp_path / f"{FILE}-journal").write_bytes(os.urandom(4096))
    Tokens(tmp_path, bytes(32), set_aside=True).close()
    assert (tmp_path / f"{FILE}.damaged-journal").exists()
    assert not (tmp_path / f"{FILE}-journal").exists()
