"""Over HTTP the right sample goes: handles, contents, uploads of several users, names."""

import io
import json

import numpy as np
import pytest

from cause.client import Client, ServiceError
from cause.errors import InputError
from cause.service.trainer import Trainer
from tests.device.homes import FEATURES, samples
from tests.service.services import Running, rows
from tests.service.test_redaction import others_hear

NPZ = "application/x-npz"
NFC, NFD = "zo\u00e9", "zoe\u0301"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A service that trains nothing: whose samples go is decided before."""
    monkeypatch.setattr(Trainer, "start", lambda self: None)
    with Running(tmp_path / "home") as running:
        yield running


def close(running, **counts: int) -> int:
    """Upload for some more users, and make a round of all that waits."""
    for user, count in counts.items():
        assert running.post(f"/v1/users/{user}/samples", body=rows(user, 1, count)).status_code == 201
    return running.post("/v1/rounds").json()["round"]


def npz(**arrays) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def held(running, user) -> dict[str, list[float]]:
    """Inputs by handle, of rounds and of what waits."""
    device, found = running.service.device, {}
    for t in device.ledger.rounds_of(user):
        own = device.home.ledger.upload(user, t)
        handles = [handle.tobytes().hex() for handle in own.handles(own.positions)]
        found |= zip(handles, own.arrays(own.positions)[0].tolist(), strict=True)
    for part in device.home.inbox.contents(user):
        found |= zip([handle.tobytes().hex() for handle in part.handles], part.x.tolist(), strict=True)
    return found


def safetensors(**arrays) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


@pytest.mark.parametrize(("kind", "write"), [(NPZ, npz), ("application/vnd.safetensors", safetensors)])
@pytest.mark.parametrize(
    ("name", "hint"), [("Users", "did you mean 'users'?"), ("owners", ""), ("X", "'x'"), ("z", "")]
)
def test_arrays_that_nothing_reads_are_refused_by_name(fresh, kind, write, name, hint):
    x, y = samples("ann", 1, 4)
    body, before = write(x=x, y=y, **{name: np.arange(4)}), fresh.state()
    for path in ("users/ann/samples", "users/ann/samples/matching", "evaluations", "predictions"):
        answer = fresh.post(f"/v1/{path}", body=body, content_type=kind)
        assert answer.status_code == 422, path
        assert f"nothing reads its array '{name}'" in answer.json()["detail"]
        assert hint in answer.json()["detail"]
    assert fresh.state() == before


@pytest.mark.parametrize(("kind", "write"), [(NPZ, npz), ("application/vnd.safetensors", safetensors)])
def test_labels_that_are_an_array_of_booleans_are_0_and_1(fresh, kind, write):
    x, y = samples("ann", 1, 4)[0], np.array([True, False, True, True])
    assert fresh.post("/v1/users/ann/samples", body=write(x=x, y=y), content_type=kind).status_code == 201
    assert sorted(each.label for each in fresh.service.device.samples_of("ann")) == [0, 1, 1, 1]
    json = b'{"samples": [{"x": [' + b", ".join([b"1"] * FEATURES) + b'], "y": true}]}'
    assert fresh.post("/v1/users/ann/samples", body=json).status_code == 422  # the schema says: an integer


def test_a_bulk_upload_with_an_array_that_nothing_reads_is_refused(fresh):
    x, y = samples("ann", 1, 4)
    body = npz(x=x, y=y, users=np.array(["ann"] * 4), owners=np.array(["bob"] * 4))
    answer = fresh.post("/v1/samples", body=body, content_type=NPZ)
    assert (answer.status_code, "'owners'" in answer.json()["detail"]) == (422, True)


def test_rows_to_match_that_name_users_are_refused(fresh):
    x, y = samples("ann", 1, 4)
    body = npz(x=x, y=y, users=np.array(["ann", "bob"] * 2))
    answer = fresh.post("/v1/users/ann/samples/matching", body=body, content_type=NPZ)
    assert (answer.status_code, "it says itself whose" in answer.json()["detail"]) == (422, True)


def test_an_upload_answers_with_the_handle_of_each_row_and_a_repeated_one_never_with_others(fresh):
    x, y = samples("ann", 1, 10)
    body = rows("ann", 1, 10)
    first = fresh.post("/v1/users/ann/samples", body=body, idempotency_key="k").json()
    assert [held(fresh, "ann")[handle] for handle in first["handles"]] == x.tolist()
    assert fresh.post("/v1/users/ann/samples", body=body, idempotency_key="k").json()["handles"] == first["handles"]
    gone = first["handles"][3]
    assert fresh.post("/v1/users/ann/erasures", "ann", {"handles": [gone]}).json()["samples"] == 1
    again = fresh.post("/v1/users/ann/samples", body=body, idempotency_key="k").json()
    assert (again["samples"], again["handles"]) == (9, []), "nine handles for ten rows would name other rows"
    assert sorted(held(fresh, "ann").values()) == sorted(np.delete(x, 3, axis=0).tolist())
    assert len(y) == 10


def test_the_row_whose_handle_is_sent_is_destroyed_and_no_other(fresh):
    x, _ = samples("ann", 1, 20)
    handles = fresh.post("/v1/users/ann/samples", body=rows("ann", 1, 20)).json()["handles"]
    close(fresh, bob=10)
    plan = fresh.post("/v1/users/ann/erasures/plan", "ann", {"handles": handles[3:5]}).json()
    assert (plan["samples"], plan["staged"]) == (2, 0)
    answer = fresh.post("/v1/users/ann/erasures", "ann", {"handles": handles[3:5]})
    assert (answer.status_code, answer.json()["samples"]) == (202, 2)
    assert sorted(held(fresh, "ann").values()) == sorted(np.delete(x, [3, 4], axis=0).tolist())
    assert fresh.post("/v1/users/ann/erasures", "ann", {"handles": handles[3:4]}).status_code == 409
    assert fresh.post("/v1/users/bob/erasures", "bob", {"handles": handles[6:7]}).status_code == 409
    for wrong in ({"handles": []}, {"handles": [""]}, {"handles": handles[:1], "rounds": [1]}):
        assert fresh.post("/v1/users/ann/erasures", "ann", wrong).status_code in (409, 422)
    waits = fresh.post("/v1/users/ann/samples", body=rows("ann", 3, 2)).json()["handles"]
    both = {"handles": [handles[0], waits[1]]}
    assert fresh.post("/v1/users/ann/erasures/plan", "ann", both).json()["staged"] == 1
    answer = fresh.post("/v1/users/ann/erasures", "ann", both).json()
    assert (answer["staged"], answer["samples"]) == (1, 2)
    assert set(held(fresh, "ann")) == {*handles[1:3], *handles[5:], waits[0]}


def test_what_is_held_is_listed_page_by_page_to_those_who_may_know(fresh):
    fresh.post("/v1/users/ann/samples", body=rows("ann", 1, 7))
    number = close(fresh, bob=2)
    waits = fresh.post("/v1/users/ann/samples", body=rows("ann", 2, 3)).json()["handles"]
    for who in ("bob", "ingest", "auditor", "predict"):
        assert fresh.get("/v1/users/ann/samples", who).status_code == 403
    page = fresh.get("/v1/users/ann/samples?limit=4", "ann").json()
    assert [each["round"] for each in page["items"]] == [None, None, None, number]
    assert [each["handle"] for each in page["items"][:3]] == waits[::-1]
    rest = fresh.get(f"/v1/users/ann/samples?limit=50&before={page['next']}").json()
    assert rest["next"] is None
    assert {each["handle"] for each in page["items"] + rest["items"]} == set(held(fresh, "ann"))
    assert all(each["arrived"].endswith("Z") and each["label"] >= 0 for each in rest["items"])
    assert len(fresh.get(f"/v1/users/ann/samples?round={number}").json()["items"]) == 7
    assert fresh.get("/v1/users/nobody/samples", "nobody").json() == {"items": [], "next": None}


def test_rows_are_matched_by_their_contents_and_nothing_of_them_is_kept(fresh):
    x, y = samples("ann", 1, 10)
    fresh.post("/v1/users/ann/samples", body=rows("ann", 1, 10))
    close(fresh, bob=3)
    before = fresh.state()
    body = npz(x=np.concatenate([x[2:4].astype(np.float64), np.full((1, FEATURES), 7.0)]))
    answer = fresh.post("/v1/users/ann/samples/matching", "ann", body, content_type=NPZ).json()
    assert (answer["rows"], answer["unmatched"], len(answer["handles"])) == (3, 1, 2)
    inputs = {"inputs": x[2:4].tolist()}
    assert fresh.post("/v1/users/ann/samples/matching", "ann", inputs).json()["handles"] == answer["handles"]
    labelled = {"samples": [{"x": x[2].tolist(), "y": int(y[2])}, {"x": x[3].tolist(), "y": (int(y[3]) + 1) % 4}]}
    found = fresh.post("/v1/users/ann/samples/matching", "ann", labelled).json()
    assert (found["unmatched"], len(found["handles"])) == (1, 1)
    assert fresh.post("/v1/users/ann/samples/matching", "bob", inputs).status_code == 403
    assert fresh.post("/v1/users/bob/samples/matching", "bob", inputs).json()["handles"] == []
    assert fresh.state() == before
    fresh.post("/v1/users/ann/erasures", "ann", {"handles": answer["handles"]})
    assert sorted(held(fresh, "ann").values()) == sorted(np.delete(x, [2, 3], axis=0).tolist())


def several(*users, order=0):
    """An upload of several users with their rows mixed."""
    x, y = (np.concatenate(each) for each in zip(*(samples(user, 1, 6) for user in users), strict=True))
    names = np.repeat(users, 6)
    mixed = np.random.default_rng(order).permutation(len(names))
    return x[mixed], y[mixed], names[mixed]


@pytest.mark.parametrize("name", ["users", "user"])
def test_a_body_that_says_whose_its_samples_are_is_refused_where_the_path_says_it(fresh, name):
    x, y, users = several("ann", "bob")
    before = fresh.state()
    refused = fresh.post("/v1/users/ann/samples", body=npz(x=x, y=y, **{name: users}), content_type=NPZ)
    assert refused.status_code == 422
    assert "it says itself whose its samples are" in refused.json()["detail"]
    assert "/v1/samples" in refused.json()["detail"]
    assert fresh.state() == before
    assert fresh.post("/v1/evaluations", body=npz(x=x, y=y, users=users), content_type=NPZ).status_code != 422


def test_an_upload_of_several_users_gives_each_their_own(fresh):
    x, y, users = several("ann", "bob", "cyd")
    body = npz(x=x, y=y, users=users)
    for who in ("ann", "auditor", "predict"):
        assert fresh.post("/v1/samples", who, body, content_type=NPZ).status_code == 403
    answer = fresh.post("/v1/samples", "ingest", body, content_type=NPZ, idempotency_key="k")
    assert answer.status_code == 201
    whole = {user: held(fresh, user) for user in ("ann", "bob", "cyd")}
    assert [whole[user][handle] for user, handle in zip(users, answer.json()["handles"], strict=True)] == x.tolist()
    assert {each["user"]: each["samples"] for each in answer.json()["uploads"]} == {"ann": 6, "bob": 6, "cyd": 6}
    before = fresh.state()
    again = fresh.post("/v1/samples", "ingest", body, content_type=NPZ, idempotency_key="k")
    assert (again.json(), again.headers["idempotent-replayed"]) == (answer.json(), "true")
    assert fresh.state() == before
    close(fresh)
    assert fresh.post("/v1/samples", "ingest", body, content_type=NPZ, idempotency_key="k").json()["handles"] == []
    assert fresh.post("/v1/users/bob/erasures", "bob", {}).json()["samples"] == 6
    assert held(fresh, "bob") == {}
    assert held(fresh, "ann") == whole["ann"]


def test_what_is_wrong_with_an_upload_of_several_users_is_refused_as_a_whole(fresh):
    x, y, users = several("ann", "bob")
    before = fresh.state()
    wrong = [
        npz(x=x, y=y),
        npz(x=x, y=y, users=users[:-1]),
        npz(x=x, y=y, users=users.reshape(2, -1)),
        npz(x=x, y=y, users=np.ones(len(y))),
        npz(x=x, y=y, users=np.where(users == "bob", "bob ", users)),
        npz(x=x, y=y, users=np.where(users == "bob", "b\u200bob", users)),
        npz(x=x[:, :2], y=y, users=users),
        npz(x=x, y=y + 90, users=users),
    ]
    for body in wrong:
        assert fresh.post("/v1/samples", "ingest", body, content_type=NPZ).status_code == 422
    listed = [{"x": a.tolist(), "y": int(b), "user": str(c)} for a, b, c in zip(x, y, users, strict=True)]
    assert fresh.post("/v1/samples", "ingest", {"samples": [each | {"user": ""} for each in listed]}).status_code == 422
    assert fresh.post("/v1/samples", "ingest", b"", content_type="image/png").status_code == 415
    assert fresh.state() == before
    assert fresh.post("/v1/samples", "ingest", {"samples": listed}).json()["samples"] == 12


def test_names_have_one_way_to_be_written_in_every_route(fresh):
    x, y = samples("z", 1, 4)
    from urllib.parse import quote

    uploaded = fresh.post(f"/v1/users/{quote(NFD)}/samples", body=rows("z", 1, 4))
    assert uploaded.status_code == 201
    fresh.post("/v1/samples", body=npz(x=x, y=y, users=[NFD, NFC, NFD, NFC]), content_type=NPZ)
    assert {upload.user for upload in fresh.service.home.inbox.uploads()} == {NFC}
    assert fresh.get(f"/v1/users/{quote(NFD)}").json()["staged"]["samples"] == 8
    fresh.secrets["own"] = fresh.service.tokens.create(["user"], user=NFD)[1]
    for name in (NFC, NFD):
        assert fresh.get(f"/v1/users/{quote(name)}/samples", "own").status_code == 200
    before = fresh.state()
    for name in ("zoe ", "\u00a0zoe", "zo\u200be", "\u2060"):
        for method, path in (("POST", "samples"), ("POST", "erasures"), ("GET", ""), ("GET", "samples")):
            body = {"content": rows("z", 1, 4) if path == "samples" else b"{}"} if method == "POST" else {}
            headers = fresh.headers("operator") | {"Content-Type": "application/json"}
            url = f"/v1/users/{quote(name)}" + (f"/{path}" if path else "")
            answer = fresh.http.request(method, url, headers=headers, **body)
            assert (answer.status_code, "leave that out" in answer.text) == (422, True), (name, path)
    assert fresh.state() == before
    with pytest.raises(InputError, match="white space"):
        fresh.service.tokens.create(["user"], user="zoe ")
    assert fresh.post(f"/v1/users/{quote(NFC)}/erasures", "own", {}).json()["samples"] == 8


def test_an_operator_is_told_that_nothing_was_held_and_the_users_own_token_is_not(fresh):
    close(fresh, ann=5)
    answer = fresh.post("/v1/users/nobody/erasures", body={})
    assert (answer.status_code, answer.json()["note"]) == (202, "nothing was held of this user: is the name right?")
    own = fresh.post("/v1/users/somebody/erasures", "somebody", {})
    there = fresh.post("/v1/users/ann/erasures", "ann", {})
    assert own.status_code == there.status_code == 202
    assert own.json()["note"] is there.json()["note"] is None
    assert fresh.get(f"/v1/requests/{answer.json()['id']}", "somebody").json()["note"] is None
    assert set(own.json()) == set(there.json())


def test_the_client_names_rows_by_handle_and_by_content(fresh):
    with Client(str(fresh.http.base_url), fresh.secrets["operator"]) as client:
        x, y = samples("zoe", 1, 12)
        handles = client.upload("zoe", x, y).handles
        users = ["ann", "bob"] * 6
        body = client.upload_all(x, y, users, key="k")
        assert (body.samples, [each.user for each in body.uploads], len(body.handles)) == (12, ["ann", "bob"], 12)
        client.close_round()
        assert {each.handle for each in client.samples("zoe")} == set(handles)
        assert len(list(client.samples("zoe", round=1))) == 12
        assert client.plan("zoe", handles=handles[:2])["samples"] == 2
        assert client.erase("zoe", handles=handles[:2]).samples == 2
        assert client.match("zoe", x[:3], y[:3]).unmatched == 2
        assert client.erase("zoe", matching=(x[:4], y[:4])).samples == 2
        assert client.erase("zoe", matching=(x[4:5], None)).samples == 1
        assert sorted(held(fresh, "zoe").values()) == sorted(x[5:].tolist())
        with pytest.raises(InputError, match="none of these rows"):
            client.erase("zoe", matching=(x[:4], y[:4]))
        with pytest.raises(InputError, match="white space"):
            client.upload("zoe ", x, y)
        with pytest.raises(ServiceError, match="white space"):
            client.erase("zoe ")
        assert client.erase("nobody").note is not None


def test_the_schema_says_what_a_position_means(running):
    body = json.dumps(running.http.get("/openapi.json").json())
    assert "A position is a random number inside the device, not the row's number in the upload" in body


def test_handles_and_bulk_uploads_name_nobody_to_others(running):
    x, y, _ = several("ann", "bob")
    name = "Zebedee-Quux-71"
    running.post("/v1/samples", "ingest", npz(x=x, y=y, users=[name] * len(y)), content_type=NPZ)
    running.post("/v1/rounds")
    assert name not in others_hear(running)
