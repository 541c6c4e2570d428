"""Tokens over HTTP: an admin makes, lists and revokes them; nobody else does."""

import pytest


def test_a_token_is_made_used_listed_and_revoked(running):
    made = running.post("/v1/tokens", "admin", {"scopes": ["predict"], "note": "the camera", "days": 2}).json()
    running.secrets["camera"] = made["secret"]
    assert running.get("/v1/token", "camera").json()["scopes"] == ["predict"]
    assert made["secret"] not in running.get("/v1/tokens", "admin").text
    newest = running.get("/v1/tokens?limit=1", "admin").json()
    assert newest["items"][0] == {name: made[name] for name in ("id", "scopes", "note", "created", "expires")} | {
        "revoked": None, "valid": True,
    }  # fmt: skip
    assert newest["next"] is not None
    gone = running.post(f"/v1/tokens/{made['id']}/revocation", "admin")
    assert (gone.status_code, gone.json()["valid"], gone.json()["revoked"] is None) == (200, False, False)
    assert running.get("/v1/token", "camera").status_code == 401
    again = running.post(f"/v1/tokens/{made['id']}/revocation", "admin")
    assert again.json() == gone.json(), "a second call changes nothing"
    assert running.post(f"/v1/tokens/{'0' * 16}/revocation", "admin").status_code == 404


def test_the_pages_of_tokens_have_each_once(running):
    for number in range(5):
        running.post("/v1/tokens", "admin", {"scopes": ["ingest"], "note": str(number)})
    found, before = [], ""
    while True:
        page = running.get(f"/v1/tokens?limit=3{before}", "admin").json()
        found += page["items"]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert [each["id"] for each in found] == [each.id for each in running.service.tokens.list_all()][::-1]


def test_a_users_token_is_of_that_user_alone(running):
    secret = running.post("/v1/tokens", "admin", {"scopes": ["user"], "user": "ann"}).json()["secret"]
    running.secrets["of ann"] = secret
    assert running.get("/v1/users/ann", "of ann").status_code == 200
    assert running.get("/v1/users/bob", "of ann").status_code == 403
    kept = (running.folder / "access.db").read_bytes()
    assert b"ann" not in kept
    assert secret.encode() not in kept


@pytest.mark.parametrize(
    "body",
    [
        {}, {"scopes": []}, {"scopes": ["root"]}, {"scopes": ["user"]}, {"scopes": ["predict"], "user": "ann"},
        {"scopes": ["predict"], "days": 0}, {"scopes": ["predict"], "note": "two\nlines"},
        {"scopes": ["predict"], "secret": "mine"},
    ],
)  # fmt: skip
def test_what_no_token_can_be_is_refused(running, body):
    before = len(running.service.tokens.list_all())
    assert running.post("/v1/tokens", "admin", body).status_code == 422
    assert len(running.service.tokens.list_all()) == before


def test_an_operator_makes_no_tokens_and_an_admin_sees_no_data(running):
    for who in ("operator", "auditor", "ingest", "predict", "ann"):
        assert running.get("/v1/tokens", who).status_code == 403
        assert running.post("/v1/tokens", who, {"scopes": ["predict"]}).status_code == 403
        assert running.post(f"/v1/tokens/{'0' * 16}/revocation", who).status_code == 403
    for path in ("/v1/status", "/v1/users/ann", "/v1/requests", "/metrics"):
        assert running.get(path, "admin").status_code == 403
