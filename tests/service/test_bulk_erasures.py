"""Erasures of several users with one request: all or none, each with its own receipts, once for each key."""

import json

import pytest

from cause.client import Client
from tests.service.services import Running


@pytest.fixture
def running(tmp_path):
    with Running(tmp_path / "home") as running:
        yield running


def erase(running, body, who="operator", **more):
    return running.post("/v1/erasures", who, body, **more)


def wanted(*erasures) -> dict:
    return {"erasures": list(erasures)}


def test_each_has_its_own_receipts_which_say_nothing_of_the_others(running):
    running.learn(ann=6, bob=9, cyd=4)
    answer = erase(running, wanted({"user": "bob", "nonce": "b"}, {"user": "ann", "rounds": [1], "count": 2}))
    assert answer.status_code == 202, answer.text
    bob, ann = answer.json()["requests"]
    assert [(each["user"], each["samples"]) for each in (bob, ann)] == [("bob", 9), ("ann", 2)]
    assert {bob["state"], ann["state"]} <= {"in_effect", "repaired"}
    assert bob["id"] != ann["id"]
    for request, samples in ((bob, 9), (ann, 2)):
        (bundle,) = running.get(f"/v1/requests/{request['id']}/receipts").json()["receipts"][:1]
        receipt = json.loads(bundle["receipt"].split("\n", 1)[0])
        assert (receipt["samples"], receipt["request"], receipt["served_with"]) == (samples, *[request["id"]] * 2)
        assert ("nonce_sha256" in receipt) == (request is bob)
    assert running.get("/v1/users/bob").json()["samples"] == 0
    assert running.get("/v1/users/ann").json()["samples"] == 4
    assert running.get("/v1/users/cyd").json()["samples"] == 4
    running.settled()
    assert not running.service.device.verify(processes=0).mismatched


def test_where_one_cannot_be_served_none_is(running):
    running.learn(ann=6, bob=9)
    before = running.state()
    refused = erase(running, wanted({"user": "ann"}, {"user": "bob", "rounds": [7]}))
    assert refused.status_code == 409
    assert running.state() == before


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "schema"),
        ({"erasures": []}, "schema"),
        (wanted({"user": "ann"}, {"user": "ann", "rounds": [1]}), "named once"),
        (wanted({"user": "Z\u0065\u0301"}, {"user": "Z\u00e9"}), "named once"),
        (wanted({"rounds": [1]}), "schema"),
        (wanted({"user": "ann", "rounds": None}), "schema"),
        (wanted({"user": "ann", "all": True}), "schema"),
        (wanted(*({"user": f"u{number}"} for number in range(501))), "schema"),
        (b'{"erasures": [{"user": "ann", "rounds": [1], "rounds": [2]}]}', "twice"),
    ],
)
def test_what_is_not_such_a_request_is_refused(running, body, why):
    running.learn(ann=6)
    before = running.state()
    refused = erase(running, body)
    assert refused.status_code == 422
    assert why in refused.json()["detail"]
    assert running.state() == before


def test_a_repeated_request_is_the_same_one(running):
    running.learn(ann=6, bob=9)
    body = wanted({"user": "ann", "rounds": [1], "count": 1}, {"user": "bob", "rounds": [1], "count": 1})
    first, again = (erase(running, body, idempotency_key="k") for _ in range(2))
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    ids = [each["id"] for each in first.json()["requests"]]
    assert [each["id"] for each in again.json()["requests"]] == ids
    assert running.get("/v1/users/ann").json()["samples"] == 5
    assert erase(running, wanted({"user": "ann"}), idempotency_key="k").status_code == 422
    assert erase(running, body).status_code == 202, "without a key it is another one"
    assert running.get("/v1/users/ann").json()["samples"] == 4


def test_an_error_after_they_were_accepted_does_not_lose_any(tmp_path, monkeypatch):
    with Running(tmp_path / "home", repair="never") as running:
        running.learn(ann=6, bob=9, cyd=5)
        device, real = running.service.device, running.service.device._erasures.delete
        calls = []

        def failing(ids, *args, **more):
            calls.append(ids)
            if len(calls) == 2:
                raise OSError("the disk fails")
            return real(ids, *args, **more)

        monkeypatch.setattr(device._erasures, "delete", failing)
        answer = erase(running, wanted(*({"user": user} for user in ("ann", "bob", "cyd"))))
        assert answer.status_code == 202
        # nothing is left to be trained, so a request may be repaired before the answer is written
        assert {each["state"] for each in answer.json()["requests"]} <= {"in_effect", "repaired"}
        assert all(running.get(f"/v1/users/{user}").json()["samples"] == 0 for user in ("ann", "bob", "cyd"))


def test_only_an_operator_may(running):
    for who in ("auditor", "ingest", "predict", "ann"):
        assert erase(running, wanted({"user": "ann"}), who).status_code == 403


def test_the_client_erases_of_several_users(running):
    running.learn(ann=6, bob=9)
    with Client(str(running.http.base_url), running.secrets["operator"]) as client:
        done = client.erase_all({"bob": {"rounds": [1], "count": 3}, "nobody": {}}, key="k")
        assert (done["bob"].samples, done["nobody"].samples) == (3, 0)
        assert done["nobody"].note is not None
        assert client.receipts(done["bob"].id)
