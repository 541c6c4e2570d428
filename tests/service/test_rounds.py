"""Rounds over HTTP: an empty one is refused unless asked for, and what retention deletes is said beforehand."""

import typing
from typing import Any

import pytest

from cause.client import Client, ServiceError
from cause.client import status as typed
from cause.service import schemas
from tests.device.homes import MASTER, opened
from tests.service.services import Running


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        opened(folder, retain="2 rounds").close()
        with Running(folder) as running:
            running.learn(ann=30, bob=20)
            yield running


def test_closing_empty_rounds_is_refused_and_deletes_nothing(keeping):
    before = keeping.state()
    for body in (None, {}, {"empty": False}):
        answer = keeping.post("/v1/rounds", body=body)
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:cause:problem:conflict")
    assert "nothing arrived" in answer.json()["detail"]
    assert keeping.post("/v1/rounds", body={"empty": 1}).status_code == 422
    assert keeping.post("/v1/rounds", body={"full": True}).status_code == 422
    assert keeping.post("/v1/rounds", body=b"[").status_code == 422
    assert keeping.state() == before
    url, secret = str(keeping.http.base_url), keeping.secrets["operator"]
    with Client(url, secret) as client, pytest.raises(ServiceError, match="nothing arrived"):
        client.close_round()


def test_what_the_next_round_deletes_is_said_before_it_is_asked_for(keeping):
    with Client(str(keeping.http.base_url), keeping.secrets["operator"]) as client:
        number = client.status()["round"]
        keeping.learn(cid=5)
        assert client.status()["retention"] == {
            "retain": "2 rounds",
            "next_round": {"samples": 50, "users": 2, "rounds": [number]},
            "next": None,
        }
        held = client.status()["samples"]
        closed = client.close_round(empty=True, key="k")
        assert (closed.round, closed.state) == (number + 2, "empty")
        assert client.close_round(empty=True, key="k").round == closed.round, "the same call again"
        assert client.status()["samples"] == held - 50


def test_a_clock_or_a_count_closes_no_empty_round(tmp_path):
    with Running(tmp_path / "home", close_every="1s") as running:
        running.service.trainer._closed_at -= 10
        running.service.trainer._close_if_due()
        assert running.service.device.ledger.round == 0


def kinds_of(kind) -> list[Any]:
    """Of a type: the classes in it, by where they stand."""
    return [kind, *(found for each in typing.get_args(kind) for found in kinds_of(each))]


def test_the_clients_status_has_the_keys_and_types_of_the_schema(running):
    pairs: list[tuple[Any, Any]] = [(typed.Status, schemas.Status)]
    seen = set()
    while pairs:
        mine, theirs = pairs.pop()
        if (mine, theirs) in seen:
            continue
        seen.add((mine, theirs))
        hints = typing.get_type_hints(mine)
        assert set(hints) == set(theirs.model_fields), mine
        for name, field in theirs.model_fields.items():
            own, their = kinds_of(hints[name]), kinds_of(field.annotation)
            assert (type(None) in own) == (type(None) in their), (mine, name)
            own_shapes = [each for each in own if typing.is_typeddict(each)]
            their_shapes = [
                each for each in their if isinstance(each, type) and issubclass(each, schemas.ResponseModel)
            ]
            assert len(own_shapes) == len(their_shapes), (mine, name)
            pairs += zip(own_shapes, their_shapes, strict=True)
            for plain in (int, float, str, bool):
                wanted = plain in their or (
                    plain is str and typing.Literal in [typing.get_origin(each) for each in their]
                )
                assert (plain in own) == wanted, (mine, name)
    body = running.get("/v1/status").json()
    assert set(body) == set(typing.get_type_hints(typed.Status))
    assert len(seen) > 10
