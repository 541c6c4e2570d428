"""The device over time: from the home's tables and the service's own file, also after a restart."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cause.service import history
from cause.service.history import FILE, HistoryFile, Point
from tests.device.homes import samples
from tests.service.services import Running
from tests.waiting import wait_until


def lived(running) -> None:
    wait_until(
        lambda: running.service.history.points()
    )  # else one point would tell of the start and of all that follows
    running.learn(ann=12, bob=12)
    x, y = samples("test", 1, 20)
    body = {"samples": [{"x": row, "y": label} for row, label in zip(x.tolist(), y.tolist(), strict=True)]}
    assert running.post("/v1/evaluations", body=body).status_code == 201
    running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 3})
    running.settled()
    wait_until(lambda: len(running.service.history.points()) >= 2)


def test_what_happened_is_told_again_after_a_restart(tmp_path):
    with Running(tmp_path / "home") as running:
        lived(running)
        before = running.get("/v1/history").json()
        assert [each["accuracy"] for each in before["evaluations"]] == [
            each["accuracy"] for each in running.get("/v1/evaluations").json()["items"]
        ]
        assert before["evaluations"][0]["voters"] == 2
        assert [(each["requests"], each["samples"]) for each in before["erasures"]] == [(1, 3)]
        retrained = running.get("/v1/status").json()["rsn"]["total"]
        assert (before["rounds"][-1]["rsn"], before["points"][-1]["rsn"]) == (retrained, retrained)
        assert before["energy_unknown"]
        assert before["points"][-1]["joules"] is None
        now = running.get("/v1/status").json()["memory"]
        last = before["points"][-1]
        assert (last["sub_models"], last["memory_bytes"]) == (now["sub_models"], now["used_bytes"])
    with Running(tmp_path / "home") as running:
        after = running.get("/v1/history").json()
        for name in ("evaluations", "erasures", "rounds"):
            assert after[name] == before[name]
        assert after["points"][: len(before["points"]) - 1] == before["points"][:-1]


def test_a_span_and_a_number_of_points_are_kept_to(running):
    lived(running)
    at = running.get("/v1/history").json()["erasures"][0]["at"]
    assert running.get(f"/v1/history?until={at}").json()["points"] == [
        each for each in running.get("/v1/history").json()["points"] if each["at"] < at
    ]
    assert running.get("/v1/history?until=1999-12-31").json()["evaluations"] == []
    assert len(running.get("/v1/history?points=2").json()["points"]) == 2


def test_the_file_is_thinned_and_its_newest_points_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "MOST_POINTS", 20)
    with closing(HistoryFile(tmp_path)) as file:
        for at in range(200):
            file.add(Point(float(at), 1, 2, 2, 3, 4, 5, at))
        kept = [point.at for point in file.points()]
        assert len(kept) <= 20
        assert kept[0] < 50
        assert kept[-8:] == [float(at) for at in range(192, 200)]
        assert [point.at for point in file.points(195, 197)] == [195.0, 196.0]


def test_a_file_that_cannot_be_written_stops_nothing_else(tmp_path):
    with Running(tmp_path / "home") as running:
        running.learn(ann=5)
        with closing(sqlite3.connect(tmp_path / "home" / FILE)) as other:
            other.execute("DROP TABLE points")
            other.commit()
        running.learn(ann=5)
        assert running.get("/v1/status").json()["round"] == 2


def damage_bytes(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)


def another_table(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE points (at REAL)")
        other.commit()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [damage_bytes, another_table, a_folder])
def test_a_damaged_file_keeps_no_service_from_starting_and_erasing(damage, tmp_path, caplog):
    """It is a picture of the past; what was asked to be forgotten must not wait for it."""
    with Running(tmp_path / "home") as running:
        running.learn(ann=5, bob=5)
    damage(tmp_path / "home" / FILE)
    with Running(tmp_path / "home") as running:
        assert running.post("/v1/users/ann/erasures", body={}).status_code == 202
        wait_until(lambda: running.get("/v1/history").json()["points"])
    assert "cannot be used and is begun anew" in caplog.text
    assert ("kept in memory" in caplog.text) == (damage is a_folder)


def test_a_file_that_another_program_has_locked_stays(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("cause.service.history.LOCKED_S", 0.1)
    with Running(tmp_path / "home") as running:
        running.learn(ann=5, bob=5)
        wait_until(lambda: running.get("/v1/history").json()["points"])
    kept = (tmp_path / "home" / FILE).read_bytes()
    with closing(sqlite3.connect(tmp_path / "home" / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Running(tmp_path / "home") as running:
            assert running.post("/v1/users/ann/erasures", body={}).status_code == 202
    assert "kept in memory" in caplog.text
    assert (tmp_path / "home" / FILE).read_bytes() == kept


def test_no_name_is_in_it(running):
    lived(running)
    kept = (running.folder / FILE).read_bytes()
    assert b"ann" not in kept
    assert b"bob" not in kept
