"""A shard that is trained from scratch over HTTP: the way out if its environment is gone."""

import asyncio

import pytest

from cause.client import AsyncClient, Client, ServiceError
from tests.device.homes import opened
from tests.service.services import Running, rows
from tests.waiting import wait_until

OTHER = "torch 9, another machine"


@pytest.fixture
def stuck(tmp_path):
    """A service with a shard whose environment no machine has; the other shard is trained."""
    with opened(tmp_path / "home", system="frugal:partition=hash") as device:
        device.journal.placed({1: OTHER})
    with Running(tmp_path / "home", repair="never") as running:
        for user, count in {"ann": 9, "bob": 9, "cyd": 9, "dan": 9}.items():
            running.post(f"/v1/users/{user}/samples", body=rows(user, 1, count))
        running.post("/v1/rounds")
        wait_until(lambda: running.service.device.waiting() == [1] and 1 in running.service.device.failed_shards)
        assert running.get("/v1/shards/1").json()["environment"] == OTHER
        yield running


def dropped(running: Running) -> list[tuple[list[int], str]]:
    return [(e.data["segment"], e.data["why"]) for e in running.service.events._kept if e.kind == "sub_model.dropped"]


def test_a_shard_without_its_environment_is_trained_from_scratch(stuck):
    assert stuck.post("/v1/repairs").json() == {"state": "started", "waiting": [1]}
    assert stuck.get("/v1/shards/1").json()["head"] is None
    answer = stuck.post("/v1/repairs", body={"from_scratch": [1]})
    assert (answer.status_code, answer.json()) == (202, {"state": "started", "waiting": [1]})
    stuck.settled()
    assert stuck.get("/v1/shards/1").json()["environment"] == stuck.service.device.learner.environment
    assert stuck.get("/v1/shards/1").json()["head"] == [1, 1, 0]
    assert stuck.service.device.verify(processes=0).mismatched == []


def test_only_the_sub_models_of_the_named_shards_are_dropped(stuck):
    answer = stuck.post("/v1/repairs", body={"from_scratch": [0, 0]}).json()
    assert answer == {"state": "started", "waiting": [0, 1]}
    assert dropped(stuck) == [([0, 1, 0], "from scratch")]
    wait_until(lambda: stuck.service.device.waiting() == [1])
    assert stuck.get("/v1/shards/1").json()["environment"] == OTHER


@pytest.mark.parametrize(
    "body",
    [
        {"from_scratch": [0, 9]},
        {"from_scratch": [-1]},
        {"from_scratch": ["0"]},
        {"from_scratch": 0},
        {"from_scratch": None},
        {"shards": [0]},
        b"[",
    ],
)
def test_what_is_refused_drops_nothing(running, body):
    if 0 not in running.service.device.ledger.shards():
        running.learn(ann=9, bob=9)
    before = running.state(), running.service.device.heads()
    answer = running.post("/v1/repairs", body=body)
    assert answer.status_code == 422, answer.text
    assert (running.state(), running.service.device.heads()) == before
    assert dropped(running) == []


def test_only_operators_start_a_shard_over(stuck):
    for scope in ("auditor", "ingest", "predict", "admin", "ann"):
        assert stuck.post("/v1/repairs", scope, body={"from_scratch": [0]}).status_code == 403
    assert dropped(stuck) == []


def test_a_sum_is_never_started_over(tmp_path):
    opened(tmp_path / "home", kind="additive").close()
    with Running(tmp_path / "home") as running:
        running.post("/v1/users/ann/samples", body=rows("ann", 1, 5))
        answer = running.post("/v1/repairs", body={"from_scratch": [0]})
        assert answer.status_code == 422
        assert "nothing to start over" in answer.json()["detail"]
        assert running.post("/v1/repairs", body={}).json() == {"state": "nothing waits", "waiting": []}


def test_both_clients_start_a_shard_over(stuck):
    url, secret = str(stuck.http.base_url), stuck.secrets["operator"]
    with Client(url, secret) as client:
        with pytest.raises(ServiceError, match="shard 9 holds no samples"):
            client.repair(from_scratch=[9])
        assert client.repair(from_scratch=[1], wait=True) == []
        assert client.shards()[1]["environment"] != OTHER

    async def use() -> None:
        async with AsyncClient(url, secret) as client:
            assert await client.repair(from_scratch=[0]) == [0]
            assert await client.repair(wait=True) == []

    asyncio.run(use())
    assert ([0, 1, 0], "from scratch") in dropped(stuck)
