"""What a user's own token reads does not depend on other users, except for what docs/service.md lists."""

import json

import pytest

from cause.client import Client
from cause.device.log import VerifierKey
from cause.device.receipts.receipts import Bundle
from cause.errors import LogError
from tests.service.services import Running, rows
from tests.service.test_access import routes

VARYING = {
    "id", "request", "handle", "handles",  # random
    "received", "deadline", "effective", "repaired", "arrived", "released", "in_effect", "created", "expires",  # times
    "receipts", "number", "size", "since",  # places in the log
    "proof", "checkpoint", "verifier", "entry",  # hashes and signatures of the log
}  # fmt: skip
"""Fields that docs/service.md says may differ; `receipts` of a request are their numbers."""
NOBODY = "/v1/requests/" + "0" * 32
READABLE = {
    "/v1/token", "/v1/users/alice", "/v1/users/alice/samples", "/v1/users/alice/samples/matching",
    "/v1/users/alice/erasures", "/v1/users/alice/erasures/plan", "/v1/predictions", NOBODY, f"{NOBODY}/receipts",
    "/v1/log", "/v1/log/consistency",
}  # fmt: skip
"""Routes that a user's own token may call, as `test_access.routes` writes them."""
UNLIKE = {"/v1/predictions"}
"""Routes whose whole answer comes from everybody's data."""


class Alice:
    """One user's life with her own token: the answers that she got, by route."""

    def __init__(self, device: Running) -> None:
        self.device, self.answers = device, []

    def note(self, path: str, answer) -> dict:
        self.answers.append((path, answer.status_code, answer.json()))
        return answer.json()

    def get(self, path: str, route: str | None = None) -> dict:
        return self.note(route or path, self.device.get(path, "alice"))

    def post(self, path: str, body: bytes | dict) -> dict:
        return self.note(path, self.device.post(path, "alice", body))

    def look(self) -> None:
        self.get("/v1/token")
        self.get("/v1/users/alice")
        self.get("/v1/users/alice/samples?limit=500", "/v1/users/alice/samples")
        self.post("/v1/users/alice/samples/matching", rows("alice", 1, 4))
        for part in ({}, {"rounds": [1]}, {"rounds": [1], "count": 3}, {"rounds": [9]}):
            self.post("/v1/users/alice/erasures/plan", part)
        self.get("/v1/log")
        self.get("/v1/log/consistency?since=0", "/v1/log/consistency")


def life(device: Running, others: bool) -> list:
    """Alice uploads, looks and erases in rounds that others share, or not."""
    alice = Alice(device)
    requests = []
    for round_ in (1, 2, 3):
        handles = alice.post("/v1/users/alice/samples", rows("alice", round_, 10 + round_))["handles"]
        if others:
            for user in ("bob", "carol", "dave"):
                assert device.post(f"/v1/users/{user}/samples", body=rows(user, round_, 20)).status_code == 201
        device.post("/v1/rounds")
        device.settled()
        alice.look()
        if others and round_ == 2:
            assert device.post("/v1/users/bob/erasures", body={"rounds": [1]}).status_code == 202
            assert device.post("/v1/users/carol/erasures", body={}).status_code == 202
            device.post("/v1/repairs")
            device.settled()
        requests.append(alice.post("/v1/users/alice/erasures", {"handles": handles[:4], "nonce": f"n{round_}"}))
        device.post("/v1/repairs")
        device.settled()
        alice.look()
    alice.post("/v1/users/alice/erasures", {"rounds": [7]})
    for request in requests:
        path = "/v1/requests/" + request["id"]
        state = device.get(path).json
        while state()["state"] != "repaired":
            device.post("/v1/repairs")
            device.settled()
        alice.get(path, NOBODY)
        alice.get(path + "/receipts", f"{NOBODY}/receipts")
    alice.post("/v1/predictions", json.dumps({"inputs": [[0.0] * 6]}).encode())
    return alice.answers


def plain(body):
    """An answer without the fields that may differ; the notes of receipts are opened."""
    if isinstance(body, dict):
        if isinstance(body.get("receipt"), str):
            return {"receipt": plain(json.loads(body["receipt"].split("\n", 1)[0]))}
        if isinstance(body.get("receipts"), list) and body["receipts"] and isinstance(body["receipts"][0], dict):
            return {"receipts": plain(body["receipts"])}
        return {name: plain(value) for name, value in body.items() if name not in VARYING}
    # samples are kept in a random order
    return sorted((plain(value) for value in body), key=json.dumps) if isinstance(body, list) else body


@pytest.mark.long
def test_a_users_answers_are_the_same_whoever_joins_or_erases(tmp_path):
    answers = []
    for others in (False, True):
        with Running(tmp_path / f"others-{others}", repair="never") as device:
            answers.append(life(device, others))
    alone, shared = answers
    assert [(path, status) for path, status, _ in alone] == [(path, status) for path, status, _ in shared]
    for (path, _, mine), (_, _, beside) in zip(alone, shared, strict=True):
        if path not in UNLIKE:
            assert plain(mine) == plain(beside), path
    assert {path for path, _, _ in alone} == READABLE


def test_the_comparison_covers_every_route_that_a_user_may_call(running):
    assert {path for _, path, scopes in routes(running.app) if "user" in scopes} == READABLE


def test_no_field_of_shards_plans_or_retraining_is_in_a_users_answers(tmp_path):
    with Running(tmp_path / "home", repair="never") as device:
        answers = life(device, True)
    named = fields([body for _, _, body in answers])
    assert {"state", "samples"} <= named
    for hidden in ("shard", "rsn", "replay", "restart", "destroyed", "serving", "tainted", "served_with"):
        assert not [name for name in named if hidden in name], hidden
        assert len(hidden) < 5 or hidden not in json.dumps(answers), hidden  # short ones occur in signatures by chance


def fields(body):
    """Return the names of all fields of an answer."""
    if isinstance(body, dict):
        return set(body) | fields(list(body.values()))
    return set().union(*map(fields, body)) if isinstance(body, list) else set()


def test_an_operator_keeps_plans_shards_and_the_whole_receipt(running):
    running.learn(olga=12)
    assert {"rsn", "shards", "destroyed"} <= set(running.post("/v1/users/olga/erasures/plan", body={}).json())
    assert "shards" in running.get("/v1/users/olga").json()["rounds"][0]
    request = running.post("/v1/users/olga/erasures", body={"rounds": [1], "count": 1}).json()
    assert {"shards", "rsn_planned"} <= set(request)
    for who in ("operator", "auditor"):
        (bundle,) = running.get(f"/v1/requests/{request['id']}/receipts", who).json()["receipts"][:1]
        assert {"shards", "rsn_planned", "salt"} <= set(json.loads(bundle["receipt"].split("\n", 1)[0]))


def test_a_users_form_of_a_receipt_is_checked_away_from_the_device_and_on_it(running):
    running.learn(nina=9)
    sent = {"nonce": "a random text"}
    request = running.post("/v1/users/nina/erasures", "nina", body=sent).json()
    (payload, *_) = running.get(f"/v1/requests/{request['id']}/receipts", "nina").json()["receipts"]
    bundle = Bundle.parse(payload)
    key = VerifierKey.parse(running.get("/v1/log", "nina").json()["verifier"])
    body = bundle.check(key, sent["nonce"])
    assert (body["kind"], body["samples"], body["form"]) == ("effect", 9, "own")
    whole = running.service.home.receipts.verified_body(bundle)
    assert whole["request"] == request["id"]
    assert "shards" in whole
    assert not running.service.home.receipts.check_commitments(whole)[0]


def test_a_users_form_of_another_entry_is_refused(running):
    """Both the proof and the named entry must fit: a note of one entry does not pass with the proof of another."""
    running.learn(mia=9, max=9)
    bundles = []
    for user in ("mia", "max"):
        request = running.post(f"/v1/users/{user}/erasures", user, body={}).json()
        bundles.append(Bundle.parse(running.get(f"/v1/requests/{request['id']}/receipts", user).json()["receipts"][0]))
    key = VerifierKey.parse(running.get("/v1/log", "mia").json()["verifier"])
    mixed = Bundle(bundles[0].number, bundles[1].receipt, bundles[0].proof, bundles[0].checkpoint)
    for bundle in bundles:
        bundle.check(key)
    with pytest.raises(LogError):
        mixed.check(key)


def test_the_client_works_with_a_users_token(running):
    running.learn(lea=6)
    running.headers("lea")
    with Client(str(running.http.base_url), running.secrets["lea"]) as client:
        assert client.plan("lea") == {"samples": 6, "staged": 0}
        request = client.erase("lea")
        assert (request.samples, request.shards, request.rsn_planned) == (6, [], None)
        assert client.request(request.id).receipts == request.receipts
        assert client.receipts(request.id)[0].number == request.receipts[0]
