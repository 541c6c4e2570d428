"""Lists in pages and with filters: every item is reached once, and no page reads more than so many rows."""

import pytest

from cause.client import AsyncClient, Client
from cause.engine.ledger import Quarantined
from cause.engine.samples import SegmentKey
from cause.service import filtered_pages
from tests.service.services import Running
from tests.waiting import wait_until


@pytest.fixture
def running(tmp_path):
    with Running(tmp_path / "home") as running:
        yield running


def pages(running, path: str, cursor: str, items: str = "items", **query: str) -> list[dict]:
    """All items of a list, page by page."""
    found, after = [], None
    for _ in range(100):
        more = {} if after is None else {cursor: str(after)}
        answer = running.http.get(path, params={**query, **more}, headers=running.headers("operator"))
        assert answer.status_code == 200, answer.text
        found += answer.json()[items]
        after = answer.json()["next"]
        if after is None:
            return found
    pytest.fail("the pages never end")


@pytest.fixture
def erased(running, monkeypatch):
    """Some requests: the first is a day old and repaired, and no shard is trained for the others, so they are open."""
    running.service.home.clock = lambda: running.now
    running.learn(ann=30, bob=20)
    clock = running.now
    running.now = clock - 86_400
    running.post("/v1/users/bob/erasures", body={"rounds": [1], "count": 1})
    wait_until(lambda: all(each["repaired"] for each in pages(running, "/v1/requests", "before")))
    running.now = clock
    monkeypatch.setattr(running.service.device, "catch_up", lambda **_: (0, 0))
    for _ in range(4):
        running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 2})
    return running


def test_requests_by_date_state_and_beginning_of_their_id(erased):
    every = pages(erased, "/v1/requests", "before", limit="2")
    assert len(every) == 5
    today, yesterday = every[0]["received"], every[-1]["received"]
    assert pages(erased, "/v1/requests", "before", since=today[:10] + "T00:00:00Z", limit="1") == [
        each for each in every if each["received"] >= today[:10]
    ]
    assert pages(erased, "/v1/requests", "before", until=today) == [each for each in every if each["received"] < today]
    assert pages(erased, "/v1/requests", "before", since=yesterday) == every, "since is included"
    assert pages(erased, "/v1/requests", "before", until=yesterday) == [], "until is not"
    assert pages(erased, "/v1/requests", "before", id=every[2]["id"][:12]) == [every[2]]
    assert [each["repaired"] is None for each in every] == [True] * 4 + [False]
    assert pages(erased, "/v1/requests", "before", state="repaired") == every[4:]
    assert pages(erased, "/v1/requests", "before", state="open") == [each for each in every if each["repaired"] is None]
    assert pages(erased, "/v1/requests", "before", state="overdue") == []
    erased.now += 40 * 86_400
    late = pages(erased, "/v1/requests", "before", state="overdue")
    assert late == [each for each in every if each["repaired"] is None]


def test_receipts_by_date_kind_and_request(erased):
    every = pages(erased, "/v1/receipts", "before", limit="3")
    assert [each["number"] for each in every] == list(range(len(every)))[::-1]
    for kind in ("effect", "repair", "restore"):
        expected = [each for each in every if each["kind"] == kind]
        assert pages(erased, "/v1/receipts", "before", kind=kind, limit="2") == expected
    request = every[0]["request"]
    mine = pages(erased, "/v1/receipts", "before", id=request[:10])
    assert mine == [each for each in every if each["request"] == request]
    since = every[0]["repaired"] or every[0]["in_effect"]
    assert all((each["repaired"] or each["in_effect"]) < since for each in pages(
        erased, "/v1/receipts", "before", until=since
    ))  # fmt: skip
    assert every[0] in pages(erased, "/v1/receipts", "before", since=since)


def test_a_filter_that_fits_few_rows_ends_its_pages_early_and_goes_on(erased, monkeypatch):
    every = pages(erased, "/v1/requests", "before")
    monkeypatch.setattr(filtered_pages.search, "__kwdefaults__", {"step": 2, "most_read": 2})
    monkeypatch.setattr("cause.service.views.erasures.STEP", 2)
    first = erased.get(f"/v1/requests?id={every[-1]['id']}").json()
    assert (first["items"], first["next"] is None) == ([], False), "nothing yet, and there is more"
    assert pages(erased, "/v1/requests", "before", id=every[-1]["id"]) == [every[-1]]


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01", "2026-01-31T12:00:00", "12:00", "99999999-01-01"])
def test_a_time_that_is_none_is_refused(running, time):
    for path in ("requests", "receipts", "history"):
        refused = running.get(f"/v1/{path}?since={time}")
        assert refused.status_code == 422
        assert "RFC 3339" in refused.json()["detail"]


def test_shards_and_sub_models_in_pages(running):
    running.learn(ann=8, bob=8, cyd=8, dan=8)
    running.learn(ann=8, bob=8, eve=8)
    for path, name in (("/v1/shards", "shards"), ("/v1/sub-models", "sub_models")):
        whole = running.get(path).json()
        assert whole["next"] is None
        assert len(whole[name]) > 1
        assert pages(running, path, "after", name, limit="1") == whole[name]
    assert running.get("/v1/shards/0").json() == whole_shard(running, 0)
    assert running.get("/v1/shards/99").status_code == 404


def quarantined(running, count: int) -> list[Quarantined]:
    """Pieces in quarantine, of which upload 1 has two."""
    key = SegmentKey(0, 1, 0)
    pieces = [
        Quarantined(f"user-{at}", key, 2, "DivergedError", upload=at, since=running.now) for at in range(1, count)
    ]
    return [Quarantined("user-1", SegmentKey(1, 1, 0), 3, "DivergedError", upload=1, since=running.now), *pieces]


def test_quarantine_in_pages(running, monkeypatch):
    pieces = quarantined(running, 8)
    monkeypatch.setattr(running.service.device.ledger, "quarantined", lambda: pieces)
    whole = running.get("/v1/quarantine").json()
    assert (whole["uploads"], whole["samples"], whole["next"]) == (7, 17, None)
    assert [item["upload"] for item in whole["items"]] == [1, 1, 2, 3, 4, 5, 6, 7]
    assert pages(running, "/v1/quarantine", "after", limit="1") == whole["items"]
    assert pages(running, "/v1/quarantine", "after", limit="3") == whole["items"]
    first = running.get("/v1/status?limit=2").json()["quarantine"]
    assert first == running.get("/v1/quarantine?limit=2").json()
    assert (len(first["items"]), first["uploads"], first["next"]) == (3, 7, 2)
    pieces.pop(2)  # an upload is dropped between two pages: no other one is missed
    rest = running.get("/v1/quarantine?after=2").json()
    assert [item["upload"] for item in rest["items"]] == [3, 4, 5, 6, 7]
    assert running.get("/v1/status").json()["quarantine"] == running.get("/v1/quarantine").json()


def test_exports_in_pages_and_in_the_status(running):
    running.learn(ann=8, bob=8)
    home = running.service.home
    with home.database.transaction():
        for at in range(5):
            heads = [SegmentKey(0, 1, 0)] if at == 1 else []
            home.queries.add_export(f"{at:032x}", running.now + at, "npz", heads)
    every = pages(running, "/v1/exports", "before", limit="2")
    assert [int(each["id"], 16) for each in every] == [4, 3, 2, 1, 0]
    assert pages(running, "/v1/exports", "before") == every
    status = running.get("/v1/status").json()
    assert (status["exports"], status["tainted_exports"]) == (every[::-1], 0), "all of them, the oldest first, as ever"
    with home.database.transaction():
        home.database.run("UPDATE exports SET tainted=? WHERE id=?", [running.now, f"{1:032x}"])
    status = running.get("/v1/status?limit=2").json()
    assert [int(each["id"], 16) for each in status["exports"]] == [3, 4]
    assert status["tainted_exports"] == 1
    assert running.get("/v1/exports", "ingest").status_code == 403


def test_the_status_shows_the_newest_rounds_only_where_a_limit_is_given(running, monkeypatch):
    rows = [(number, 10 * number) for number in range(1, 9)]
    monkeypatch.setattr(running.service.home.queries, "retrained", lambda: rows)
    whole = running.get("/v1/status").json()["rsn"]
    assert [each["round"] for each in whole["by_round"]] == list(range(1, 9))
    newest = running.get("/v1/status?limit=3").json()["rsn"]
    assert newest == {"total": 360, "by_round": whole["by_round"][-3:]}
    assert running.get("/v1/status?limit=0").status_code == 422


def whole_shard(running, number: int) -> dict:
    return next(each for each in running.get("/v1/shards").json()["shards"] if each["shard"] == number)


def test_the_clients_filter_as_well(erased):
    url, secret = str(erased.http.base_url), erased.secrets["operator"]
    with Client(url, secret) as client:
        every = list(client.requests())
        assert list(client.requests(since=every[0].received, prefix=every[0].id[:6])) == [every[0]]
        assert list(client.requests(until="1999-12-31")) == []
    import asyncio

    async def asked() -> list:
        async with AsyncClient(url, secret) as client:
            return [each async for each in client.requests(prefix=every[1].id)]

    assert asyncio.run(asked()) == [every[1]]
