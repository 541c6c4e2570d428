"""No token, no data; a user's token opens that user's data only, and tells nothing of others."""

import hashlib
import hmac
import json
import re
import sqlite3
import threading
import time
from contextlib import closing

import httpx
import pytest

from cause.errors import InputError
from cause.service import tokens as tokens_module
from cause.service.tokens import FILE, Tokens
from tests.service.services import Running
from tests.waiting import wait_until

PUBLIC = {"/healthz", "/readyz", "/openapi.json"}
EXAMPLES = {"user": "alice", "round": "1", "shard": "0", "number": "0", "id": "0" * 32, "upload": "0"}


def routes(app):
    """Every route: method, path with examples in it, and the scopes that it wants."""
    for route in app.routes:
        path = getattr(route, "path_format", "")
        for method in getattr(route, "methods", None) or ():
            if path in PUBLIC or path == "" or method == "HEAD":
                continue
            wanted = [getattr(each.call, "scopes", None) for each in route.dependant.dependencies]
            scopes = next((each for each in wanted if each), None)
            yield method, re.sub(r"\{(\w+)\}", lambda found: EXAMPLES[found[1]], path), scopes


def test_every_route_wants_a_token(running):
    seen = 0
    for method, path, scopes in routes(running.app):
        assert scopes, f"{path} asks for no scope"
        for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"}):
            answer = running.http.request(method, path, headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"] == "Bearer"
        seen += 1
    assert seen >= 28


def test_every_route_refuses_tokens_of_other_scopes(running):
    for method, path, scopes in routes(running.app):
        for scope in {"operator", "auditor", "ingest", "predict", "admin"} - set(scopes):
            answer = running.http.request(method, path, headers=running.headers(scope), json={})
            assert answer.status_code == 403, (path, scope)
            needed, _, had = answer.json()["detail"].partition("; yours has: ")
            assert had == scope
            assert all(name in needed for name in scopes), (path, needed)
        if "user" in scopes and "/users/" in path:
            answer = running.http.request(method, path, headers=running.headers("mallory"), json={})
            assert answer.status_code == 403, path


def test_what_does_not_exist_below_v1_wants_a_token_too(running):
    assert running.http.get("/v1/nothing").status_code == 401
    assert running.get("/v1/nothing").status_code == 404


def test_a_token_ends_when_it_expires_or_is_revoked(tmp_path):
    now = [1000.0]
    tokens, other = (Tokens(tmp_path, b"k" * 32, clock=lambda: now[0]) for _ in range(2))
    token, secret = tokens.create(["operator"], expires_s=10)
    assert other.find(secret) == token
    now[0] = 1010.0
    assert other.find(secret) is None
    token, secret = tokens.create(["operator"])
    assert other.find(secret) == token
    tokens.revoke(token.id)
    assert other.find(secret) is None, "another process revoked it"
    assert tokens.find(secret[:-1] + "x") is None
    with pytest.raises(InputError, match="scope"):
        tokens.create(["root"])
    with pytest.raises(InputError, match="user"):
        tokens.create(["user"])


def test_secrets_and_names_of_users_are_not_stored(tmp_path):
    tokens = Tokens(tmp_path, b"k" * 32)
    token, secret = tokens.create(["user"], user="alice of aachen")
    tokens.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.id.encode() in kept
    assert secret.encode() not in kept
    assert secret.split("_", 2)[2].encode() not in kept
    assert b"alice" not in kept


def old_file(folder, key, **users):
    """An access.db as earlier versions wrote it; the tokens' secrets by user."""
    secrets = {}
    with closing(sqlite3.connect(folder / FILE)) as file, file:
        file.execute(
            "CREATE TABLE tokens (id TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL, user BLOB, "
            "note TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL, revoked REAL) STRICT"
        )
        for number, (user, expires) in enumerate(users.items()):
            id_ = f"{number:016x}"
            secret = secrets[user] = f"cause_{id_}_{'s' * 40}{number}"
            code = hmac.digest(key, b"user\0" + user.encode(), "sha256")
            row = [id_, hashlib.sha256(secret.encode()).digest(), '["user"]', code, "", 1.0, expires, None]
            file.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return secrets


def guesses(folder, key, names):
    """The names that somebody with the device's key finds in the file."""
    kept = b"".join(path.read_bytes() for path in folder.iterdir())
    return {name for name in names if hmac.digest(key, b"user\0" + name.encode(), "sha256") in kept}


def test_a_guess_of_a_users_name_is_neither_confirmed_nor_refuted(tmp_path):
    """With the file and every key of the device. Only a token's own secret tells its user."""
    key = b"k" * 32
    tokens = Tokens(tmp_path, key)
    (alice, secret), (again, _), (bob, _) = (tokens.create(["user"], user=user) for user in ("alice", "alice", "bob"))
    assert len({alice.user, again.user, bob.user}) == 3, "two tokens of one user have nothing in common"
    assert not guesses(tmp_path, key, ["alice", "bob", "carol"])
    row = next(each for each in tokens.list_all() if each.id == alice.id)
    assert [tokens.belongs_to(row, name) for name in ("alice", "bob", "carol")] == [False] * 3, "without the secret"
    found = tokens.find(secret)
    assert [tokens.belongs_to(found, name) for name in ("alice", "bob", "carol")] == [True, False, False]
    tokens.close()


def test_tokens_of_an_earlier_version_go_on_and_confirm_nothing_once_they_were_used(tmp_path):
    key, names = b"k" * 32, ["alice", "bob", "carol", "dora"]
    secrets = old_file(tmp_path, key, alice=1e12, bob=1e12, carol=1e12, dora=2.0)
    assert guesses(tmp_path, key, names) == set(names)
    tokens = Tokens(tmp_path, key, tidy=True)
    assert guesses(tmp_path, key, names) == {"alice", "bob", "carol"}, "dora's has expired"
    alice = tokens.find(secrets["alice"])
    assert not tokens.belongs_to(alice, "bob")
    assert tokens.belongs_to(alice, "alice")
    assert guesses(tmp_path, key, names) == {"bob", "carol"}
    tokens.revoke(tokens.find(secrets["bob"]).id)
    assert guesses(tmp_path, key, names) == {"carol"}
    tokens.close()
    again = Tokens(tmp_path, key)
    assert [len(again.list_all()), again.find(secrets["bob"]), again.find(secrets["dora"])] == [4, None, None]
    for user in ("alice", "carol"):
        found = again.find(secrets[user])
        assert [again.belongs_to(found, name) for name in names] == [name == user for name in names]
    assert not guesses(tmp_path, key, names)
    again.close()


def test_a_users_token_reads_uploads_and_erases_for_that_user_only(running):
    running.learn(alice=5, bob=5)
    assert running.get("/v1/users/alice", "alice").json()["samples"] == 5
    before = running.state()
    for path in ("samples", "erasures", "erasures/plan"):
        assert running.post(f"/v1/users/bob/{path}", "alice", {}).status_code == 403
    assert running.get("/v1/users/bob", "alice").status_code == 403
    for path in ("status", "shards", "requests", "receipts", "trace", "events", "rounds", "evaluations", "sub-models"):
        assert running.get(f"/v1/{path}", "alice").status_code == 403
    assert running.state() == before
    assert running.get("/v1/users/bob").json()["samples"] == 5
    answer = running.post("/v1/users/alice/erasures", "alice", {})
    assert answer.status_code == 202
    assert answer.json()["state"] == "in_effect"
    assert answer.json()["samples"] == 5
    assert running.get("/v1/users/alice", "alice").json()["samples"] == 0


def test_no_answer_tells_whether_another_user_exists(running):
    running.learn(bob=3)
    for method, path in (("GET", ""), ("POST", "/samples"), ("POST", "/erasures"), ("POST", "/erasures/plan")):
        answers = {
            (answer.status_code, answer.content, tuple(sorted({**answer.headers, "date": "any"}.items())))
            for user in ("bob", "nobody at all")
            for answer in [
                running.http.request(method, f"/v1/users/{user}{path}", headers=running.headers("alice"), json={})
            ]
        }
        assert len(answers) == 1, path


class Watched:
    """Stands for something, and notes what requests ask of it: the trainer looks whenever it likes."""

    def __init__(self, real, asked):
        self.__dict__.update(_real=real, _asked=asked)

    def __getattr__(self, name):
        if threading.current_thread().name != "trainer":
            self._asked.append(name)
        return getattr(self._real, name)

    def __setattr__(self, name, value):
        setattr(self._real, name, value)


def test_who_is_refused_makes_nobody_be_looked_up(running, monkeypatch):
    """So the time of a refusal does not tell who exists, either."""
    running.learn(bob=3)
    asked, device, home = [], running.service.device, running.service.home
    for owner, name in ((device, "ledger"), (home, "inbox"), (home, "database")):
        monkeypatch.setattr(owner, name, Watched(getattr(owner, name), asked))
    assert running.get("/v1/users/bob", "bob").status_code == 200
    assert {"rounds_of", "pieces_of", "of_any_spelling"} <= set(asked)  # the watch sees what is looked up
    running.headers("alice")
    asked.clear()
    for user in ("bob", "xyz"):
        assert running.get(f"/v1/users/{user}", "alice").status_code == 403
        for path in ("samples", "erasures", "erasures/plan"):
            assert running.post(f"/v1/users/{user}/{path}", "alice", {}).status_code == 403
    assert set(asked) <= {"round", "shards"}  # which the trainer reads meanwhile; neither is about a user


def test_an_erasure_of_nothing_is_answered_like_any_other(running):
    running.learn(carol=2)
    answers = [running.post(f"/v1/users/{user}/erasures", user, {}) for user in ("carol", "never there")]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [answer.json()["state"] for answer in answers] == ["in_effect"] * 2
    assert [answer.json()["samples"] for answer in answers] == [2, 0]
    assert all(len(answer.json()["receipts"]) >= 1 for answer in answers)
    wrong = running.post("/v1/users/carol/erasures", "carol", {"rounds": [1]})
    assert wrong.status_code == 409


def test_erasures_at_the_same_time_tell_nothing_of_each_other(running):
    users = {f"twin {number}": number + 2 for number in range(6)}
    running.learn(**users)
    for user in users:
        running.headers(user)
    answers = {}

    def erase(user):
        headers = running.headers(user) | {"Content-Type": "application/json"}
        answers[user] = httpx.post(
            f"{running.http.base_url}/v1/users/{user}/erasures", headers=headers, content=b"{}", trust_env=False
        ).json()

    threads = [threading.Thread(target=erase, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {user: answer["samples"] for user, answer in answers.items()} == users
    for answer in answers.values():
        (bundle, *_) = running.get(f"/v1/requests/{answer['id']}/receipts").json()["receipts"]
        body = json.loads(bundle["receipt"].split("\n")[0])
        assert sum(shard["samples"] for shard in body["shards"]) == answer["samples"]


def test_too_many_requests_and_attempts_are_refused(tmp_path):
    with Running(tmp_path / "home", rate=5.0, attempts=2.0) as running:
        answers = [running.get("/v1/token").status_code for _ in range(20)]
        assert answers.count(200) >= 10
        assert 429 in answers
        attempts = [running.http.get("/v1/token").status_code for _ in range(8)]
        assert attempts[:4] == [401] * 4
        assert attempts[-1] == 429
        refused = running.http.get("/v1/token")
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["detail"].endswith("from this address: at most 2 a second (setting `attempts`)")
        details = {running.get("/v1/token").json().get("detail") for _ in range(20)}
        assert details - {None} == {"too many requests with this token: at most 5 a second (setting `rate`)"}
        limited = next(each for _ in range(100) if (each := running.get("/v1/token")).status_code == 429)
        assert int(limited.headers["retry-after"]) >= 1


def test_while_the_tokens_are_locked_whoever_comes_is_told_to_come_again(tmp_path, caplog):
    with Running(tmp_path / "home") as running, closing(sqlite3.connect(tmp_path / "home" / FILE)) as other:
        headers = running.headers("operator")
        running.service.tokens._connection.execute("PRAGMA busy_timeout=20")
        other.execute("BEGIN EXCLUSIVE")
        for secret in (headers, {"Authorization": "Bearer cause_0_unknown"}):
            body = running.http.get("/v1/token", headers=secret)
            assert (body.status_code, body.headers["retry-after"]) == (503, "5")
            assert body.json()["type"] == "urn:cause:problem:unavailable"
        assert running.http.get("/healthz").status_code == 200
        assert "the tokens cannot be read: the home cannot be used (HomeError)" in caplog.messages
        other.execute("ROLLBACK")
        assert running.http.get("/v1/token", headers=headers).status_code == 200


def test_locked_tokens_hold_up_no_more_than_one_request(tmp_path, monkeypatch):
    """The file is read where requests arrive: while one waits for it, so does every other, /healthz too."""
    monkeypatch.setattr(tokens_module, "LOCKED_S", 0.5)
    with Running(tmp_path / "home") as running, closing(sqlite3.connect(tmp_path / "home" / FILE)) as other:
        headers = running.headers("operator")
        waits: list[float] = []
        tokens, reload = running.service.tokens, running.service.tokens._reload

        def timed() -> None:
            start = time.perf_counter()
            try:
                reload()
            finally:
                waits.append(time.perf_counter() - start)

        monkeypatch.setattr(tokens, "_reload", timed)
        other.execute("BEGIN EXCLUSIVE")
        assert {running.http.get("/v1/token", headers=headers).status_code for _ in range(6)} == {503}
        assert sum(wait > 0.4 for wait in waits) == 1, waits
        other.execute("ROLLBACK")
        assert running.http.get("/v1/token", headers=headers).status_code == 200
        (timeout,) = tokens._connection.execute("PRAGMA busy_timeout").fetchone()
        assert timeout == 500, "a short lock is waited for again"


def test_a_stream_ends_in_order_while_the_tokens_are_locked(tmp_path, caplog):
    with Running(tmp_path / "home") as running, closing(sqlite3.connect(tmp_path / "home" / FILE)) as other:
        running.service.tokens._connection.execute("PRAGMA busy_timeout=20")
        with running.http.stream("GET", "/v1/events", headers=running.headers("auditor")) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: hello"
            other.execute("BEGIN EXCLUSIVE")
            running.service.events.publish("upload.staged", samples=1)
            assert "upload.staged" not in "".join(lines), "and ends"
        assert not [
            record for record in caplog.records if record.name == "uvicorn.error" and record.levelname == "ERROR"
        ]


def test_a_users_token_fills_the_log_only_so_fast_and_an_operators_as_fast_as_it_likes(tmp_path):
    with Running(tmp_path / "home", erasures=3) as running:
        receipts = running.service.home.database
        answers = [running.post("/v1/users/ann/erasures", "ann", {}) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 429]
        assert 1000 <= int(answers[-1].headers["retry-after"]) <= 1200
        assert answers[-1].json()["detail"].endswith(": at most 3 an hour (setting `erasures`)")
        assert running.post("/v1/users/bob/erasures", "bob", {}).status_code == 202
        assert {running.post("/v1/users/ann/erasures", body={}).status_code for _ in range(5)} == {202}
        assert receipts.row("SELECT COUNT(*) FROM requests") == (9,)


def test_failed_attempts_keep_nobody_out_who_has_a_token_and_the_same_address(tmp_path):
    with Running(tmp_path / "home", attempts=0.1) as running:
        assert [running.http.get("/v1/token").status_code for _ in range(3)] == [401, 429, 429]
        assert running.get("/v1/token").status_code == 200


def test_the_access_log_names_routes_and_tokens_but_no_users(running, caplog):
    with caplog.at_level("INFO", logger="cause.serve.access"):
        running.get("/v1/users/zoe of zurich", "zoe of zurich")
        # it is written after the answer
        lines = wait_until(lambda: [each for each in caplog.records if each.name == "cause.serve.access"])
    (line,) = lines
    assert (line.route, line.status) == ("/v1/users/{user}", 200)
    assert "zoe" not in str(vars(line))
    assert running.secrets["zoe of zurich"] not in str(vars(line))


def test_answers_have_security_headers(running):
    for path in ("/", "/healthz", "/v1/token"):
        headers = running.http.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert running.http.get("/v1/token").headers["cache-control"] == "no-store"
    page = running.http.get("/js/app.js")
    assert page.headers["cache-control"] == "no-cache"
    again = running.http.get("/js/app.js", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
