"""However much is asked at once and however slowly, the service holds a bounded part of it and answers the others."""

import contextlib
import io
import json
import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

from cause.engine.requests import Request
from cause.service.batching import MOST_SAMPLES
from cause.service.inputs import parse_erasure
from cause.service.responses import ChunkedResponse
from tests.device.homes import CLASSES, FEATURES
from tests.service.services import Running, inputs, rows
from tests.waiting import pass_time, wait_until

NPZ = "application/x-npz"
PROBLEM = "application/problem+json"


def npz(count, **more):
    x = np.random.default_rng(count).normal(size=(count, FEATURES)).astype(np.float32)
    buffer = io.BytesIO()
    np.savez(buffer, x=x, **more)
    return x, buffer.getvalue()


def labelled(count):
    return npz(count, y=np.zeros(count, np.int64))[1]


def asked(running, body, kind=NPZ, who="operator", query=""):
    """A prediction on a connection of its own."""
    headers = running.headers(who) | {"Content-Type": kind}
    return httpx.post(
        f"{running.http.base_url}/v1/predictions{query}", headers=headers, content=body, timeout=30, trust_env=False
    )


def unavailable(answer, limit=""):
    assert answer.status_code == 503, answer.text
    assert limit in answer.json()["detail"]
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json()["type"] == "urn:cause:problem:unavailable"
    return int(answer.headers["retry-after"]) >= 1


class Raw:
    """A client that sends what it is told to, and no more."""

    def __init__(self, running, path="/healthz", who=None, length=0, method="POST"):
        self.socket = socket.create_connection(("127.0.0.1", running.port))
        self.socket.settimeout(20)
        if who is not None:
            token = running.headers(who)["Authorization"]
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
            )
            self.socket.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """All that comes until it is closed."""
        return b"".join(iter(lambda: self.socket.recv(65536), b""))

    def begun(self):
        return self.socket.recv(65536)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", "11" * 32)
        with Running(tmp_path_factory.mktemp("bounds") / "home", waiting="1MB") as running:
            running.learn(alice=40, bob=40)
            yield running


def test_inputs_that_wait_are_bounded_and_a_short_request_still_gets_through(learned):
    batches, (_, large) = learned.service.batcher, npz(20_000)
    with ThreadPoolExecutor(8) as pool:
        with learned.service.device.lock:  # nobody can be asked who votes
            first = pool.submit(asked, learned, large)
            wait_until(lambda: batches._budget.held_bytes)
            held = batches._budget.held_bytes
            assert unavailable(asked(learned, large), "bytes (setting `waiting`)")
            assert unavailable(asked(learned, large, who="predict"))
            short = pool.submit(asked, learned, json.dumps({"inputs": inputs()}).encode(), "application/json")
            wait_until(lambda: len(batches._jobs) == 2)
            assert batches._budget.held_bytes == held
        assert (first.result().status_code, short.result().status_code) == (200, 200)
    wait_until(lambda: batches._budget.held_bytes == 0)
    assert asked(learned, large).status_code == 200


def test_a_short_request_waits_for_one_batch_of_a_long_one_only(learned, monkeypatch):
    heads, batches, (x, large) = learned.service.predictors, learned.service.batcher, npz(10 * MOST_SAMPLES)
    seen, predict = [], heads.predict
    short = json.dumps({"inputs": inputs()}).encode()
    answers: dict[str, Future] = {}
    with ThreadPoolExecutor(8) as pool:

        def predicting(x):
            seen.append(len(x))
            if len(seen) == 3:  # in the middle of it
                for number in range(3):
                    answers[f"short {number}"] = pool.submit(asked, learned, short, "application/json")
                wait_until(lambda: len(batches._jobs) == 4)
            return predict(x)

        monkeypatch.setattr(heads, "predict", predicting)
        answers["long"] = pool.submit(asked, learned, large, query="?probabilities=true")
        wait_until(lambda: len(answers) == 4)
        ended: dict[str, int] = {}

        def end(name: str, _: object) -> None:
            ended.setdefault(name, len(seen))

        for name, answer in answers.items():
            answer.add_done_callback(partial(end, name))
        body = answers["long"].result().json()
        assert {answers[f"short {number}"].result().status_code for number in range(3)} == {200}
    assert max(seen) <= MOST_SAMPLES
    assert len(seen) == 11, "three more samples need no more than one more batch"
    assert sum(seen) == len(x) + 3
    assert seen[3] == MOST_SAMPLES, "the batch after it has the short ones in it, and is filled up with the long one"
    expected = predict(x)
    assert body["labels"] == expected.labels.tolist()
    assert np.allclose(body["probabilities"], expected.probabilities.mean(axis=0))


def test_half_of_a_batch_is_the_oldest_requests_whatever_else_comes():
    from cause.service.batching import _Job, take_batch

    def job_of(count, values=6):
        job = _Job(np.zeros((count, values)), None, None)
        job.todo.append((0, count))
        return job

    oldest, middle, short = job_of(1000), job_of(800), job_of(5)
    first = take_batch([oldest, middle, short])
    taken = {id(job): 0 for job in (oldest, middle, short)}
    for piece in first:
        taken[id(piece.job)] += piece.span[1] - piece.span[0]
    assert list(taken.values()) == [MOST_SAMPLES // 2, MOST_SAMPLES // 2 - 5, 5]
    assert [job.rows_left for job in (oldest, middle, short)] == [
        1000 - MOST_SAMPLES // 2,
        800 - MOST_SAMPLES // 2 + 5,
        0,
    ]
    wide = job_of(5, values=2**20)  # 8 MiB a sample: one at a time, but one
    assert [piece.span for piece in take_batch([wide])] == [(0, 1)]


def test_a_long_request_is_answered_by_those_who_vote_at_its_end(tmp_path, monkeypatch):
    with Running(tmp_path / "home", repair="never") as running:
        running.learn(alice=40, bob=40)
        heads, (x, large) = running.service.predictors, npz(4 * MOST_SAMPLES)
        predict, calls = heads.predict, []

        def predicting(x):
            answer = predict(x)
            calls.append(len(x))
            if len(calls) == 2:
                running.service.erasures.erase(Request("alice", (1,), 3), "ab" * 16)
            return answer

        before = predict(x)
        monkeypatch.setattr(heads, "predict", predicting)
        body = asked(running, large, query="?probabilities=true").json()
        after = predict(x)
        assert [voter.sub_model for voter in before.voters] != [voter.sub_model for voter in after.voters]
        assert body["voters"] == len(after.voters)
        assert np.allclose(body["probabilities"], after.probabilities.mean(axis=0))
        assert len(calls) == 6, "what was predicted before the erasure is predicted again"


def test_bodies_that_arrive_are_bounded_and_short_ones_still_get_through(tmp_path):
    with Running(tmp_path / "home", arriving="1MB") as running:
        large = labelled(30_000)
        assert 700_000 < len(large) < 2**20
        with Raw(running, "/v1/users/ann/samples", "ingest", 2**20) as arriving:
            arriving.send(b" " * 1_000)
            wait_until(lambda: running.service.body_reader._budget.held_bytes)
            before = running.state()
            refused = running.post("/v1/users/bob/samples", body=large, Content_Type=NPZ)
            assert unavailable(refused, "at most 1,048,576 bytes (setting `arriving`)")
            assert running.state() == before
            pieces = (large[start : start + 50_000] for start in range(0, len(large), 50_000))
            headers = running.headers("operator") | {"Content-Type": NPZ}
            unsaid = running.http.post("/v1/users/bob/samples", headers=headers, content=pieces)
            assert unavailable(unsaid), "one that does not say how long it is"
            assert running.post("/v1/users/bob/samples", body=rows("bob", 1, 5)).status_code == 201
        wait_until(lambda: not running.service.body_reader._budget.held_bytes)
        assert running.post("/v1/users/bob/samples", body=large, Content_Type=NPZ).status_code == 201


def test_one_token_cannot_take_all_the_room_for_what_arrives(tmp_path):
    with Running(tmp_path / "home", arriving="1MB", waiting="4MB") as running:
        running.learn(alice=40)
        budget, large = running.service.body_reader._budget, labelled(15_000)
        assert 2**20 // 4 < len(large) < 2**20 // 2
        held = [Raw(running, "/v1/predictions", "predict", 2**19) for _ in range(3)]
        try:
            wait_until(lambda: budget.held_bytes == 2**19)
            assert sum(raw.begun().startswith(b"HTTP/1.1 503") for raw in held[1:]) == 2
            assert running.post("/v1/users/bob/samples", body=large, Content_Type=NPZ).status_code == 201
        finally:
            for raw in held:
                raw.socket.close()
        wait_until(lambda: not budget.held_bytes)
        assert running.post("/v1/users/bob/samples", "ingest", large, Content_Type=NPZ).status_code == 201


def test_one_token_cannot_take_all_the_room_for_what_waits(learned):
    batches, part = learned.service.batcher, npz(2_500)[1]
    with ThreadPoolExecutor(2) as pool:
        with learned.service.device.lock:
            first = pool.submit(asked, learned, part)
            wait_until(lambda: batches._budget.held_bytes)
            size = batches._budget.held_bytes
            assert 2**18 < size < 2**19, "a second one would fit"
            assert 2 * size > 2**20 * 3 // 4 > size
            assert unavailable(asked(learned, part))
            other = pool.submit(asked, learned, part, who="predict")
            wait_until(lambda: batches._budget.held_bytes == 2 * size)
        assert (first.result().status_code, other.result().status_code) == (200, 200)
    wait_until(lambda: not batches._budget.held_bytes)


def test_an_answer_that_is_read_slowly_holds_no_more_than_itself(learned):
    _, large = npz(20_000)
    token, budget = learned.headers("predict")["Authorization"], learned.service.batcher._budget
    head = f"POST /v1/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Type: {NPZ}\r\n"
    seen = []
    with pytest.MonkeyPatch.context() as patch:

        async def answering(self, scope, receive, send):
            seen.append(budget.held_bytes)
            await called(self, scope, receive, send)

        called = ChunkedResponse.__call__
        patch.setattr(ChunkedResponse, "__call__", answering)
        with Raw(learned) as raw:
            raw.send(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large)
            assert raw.begun().startswith(b"HTTP/1.1 200")
    assert seen == [0], "labels alone are short"
    wait_until(lambda: not budget.held_bytes)


@pytest.mark.long
def test_a_tokens_many_erasures_keep_nobody_elses_waiting(tmp_path):
    with Running(tmp_path / "home") as running:
        running.learn(alice=20, bob=20)
        begun, erasures = [], running.service.erasures
        erase = erasures.erase
        erasures.erase = lambda *asked: (begun.append(asked[0].user), erase(*asked))[1]
        with ThreadPoolExecutor(60) as pool:

            def erased(who, body):
                headers = running.headers(who) | {"Content-Type": "application/json"}
                url = f"{running.http.base_url}/v1/users/{who}/erasures"
                return httpx.post(url, headers=headers, content=body, timeout=60, trust_env=False)

            running.headers("alice"), running.headers("bob")
            with erasures._lock:  # one of them takes long
                many = [pool.submit(erased, "alice", b"{}") for _ in range(50)]
                wait_until(lambda: begun == ["alice"])
                wait_until(lambda: len(running.server.server_state.tasks) >= 50)
                assert running.http.get("/v1/requests", headers=running.headers("auditor"), timeout=5).is_success
                own = pool.submit(erased, "bob", b'{"rounds": [1]}')
                wait_until(lambda: "bob" in begun)
                assert begun == ["alice", "bob"]
            assert own.result().json()["samples"] == 20
            assert {each.result().status_code for each in many} == {202}
        assert not len(running.service.body_reader._reading)


def test_a_tokens_many_uploads_keep_nobody_elses_waiting(tmp_path):
    with Running(tmp_path / "home") as running:
        begun, device, first = [], running.service.device, threading.Event()
        stage_all = device.stage_all

        def staging(uploads, **more):
            begun.extend(uploads)
            first.wait(20)
            return stage_all(uploads, **more)

        device.stage_all = staging
        running.headers("alice"), running.headers("bob")
        with ThreadPoolExecutor(40) as pool:

            def uploaded(who, number):
                headers = running.headers(who) | {"Content-Type": "application/json"}
                url = f"{running.http.base_url}/v1/users/{who}/samples"
                return httpx.post(url, headers=headers, content=rows(who, number, 3), timeout=60, trust_env=False)

            answers = [pool.submit(uploaded, "alice", number) for number in range(20)]
            wait_until(lambda: len(running.server.server_state.tasks) >= 20)
            answers.append(pool.submit(uploaded, "bob", 1))
            wait_until(lambda: len(running.server.server_state.tasks) >= 21)
            wait_until(lambda: "bob" in begun or len(running.service.body_reader._unpacking) == 2)
            first.set()
            assert {each.result().status_code for each in answers} == {201}
        assert begun.index("bob") <= 2, "after the one that is staged, and the one that waits for its slot"
        assert not len(running.service.body_reader._unpacking)


@pytest.mark.parametrize("path", ["/v1/users/ann/erasures", "/v1/users/ann/erasures/plan"])
def test_long_erasures_are_counted_among_what_arrives_and_read_where_they_hold_up_nobody(tmp_path, monkeypatch, path):
    threads = []

    def read(kind, body):
        threads.append(threading.current_thread().name)
        return parse_erasure(kind, body)

    monkeypatch.setattr("cause.service.routes.users.parse_erasure", read)
    with Running(tmp_path / "home") as running:
        budget = running.service.body_reader._budget
        pairs = json.dumps({"samples": [[2**31 - 1, 2**31 - 1]] * 10_000}).encode()
        with Raw(running, path, "operator", len(pairs)) as raw:
            raw.send(pairs[:-1])
            wait_until(lambda: budget.held_bytes == len(pairs))
            raw.send(pairs[-1:])
            assert raw.begun().startswith(b"HTTP/1.1 409"), "there is no such round"
        wait_until(lambda: not budget.held_bytes)
        with Raw(running, path, "operator", len(pairs)) as raw:
            raw.send(pairs[:-1])
            wait_until(lambda: budget.held_bytes)
        wait_until(lambda: not budget.held_bytes)
        assert running.post(path, body=json.dumps({"samples": [[1, 1]] * 10_001}).encode()).status_code == 422
        assert running.post(path, body=b" " * (2**18 + 1)).status_code == 413
        with Raw(running, path, "bob", len(pairs)) as raw:
            assert raw.begun().startswith(b"HTTP/1.1 403"), "before anything of it comes"
        assert len(threads) == 2
        assert all("AnyIO" in name for name in threads)


def test_only_so_many_bodies_are_unpacked_at_once_and_never_where_requests_arrive(tmp_path, monkeypatch):
    with Running(tmp_path / "home", unpackings=2) as running:
        reader, lock = running.service.reader, threading.Lock()
        inside, most, threads = [0], [0], set()

        def watched(read):
            def reading(*args, **more):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    threads.add(threading.current_thread())
                pass_time(0.05)  # long enough for others to come in
                try:
                    return read(*args, **more)
                finally:
                    with lock:
                        inside[0] -= 1

            return reading

        for name in ("read_inputs", "read_labelled"):
            monkeypatch.setattr(reader, name, watched(getattr(reader, name)))
        headers = running.headers("operator") | {"Content-Type": NPZ}
        with ThreadPoolExecutor(8) as pool:
            paths = ["/v1/predictions", "/v1/users/ann/samples"] * 5
            urls = [f"{running.http.base_url}{path}" for path in paths]
            body = labelled(10)
            answers = list(
                pool.map(lambda url: httpx.post(url, headers=headers, content=body, trust_env=False).status_code, urls)
            )
        assert answers == [409, 201] * 5
        assert most[0] == 2
        assert running.thread not in threads, "a short archive may hold much"


@pytest.mark.parametrize("path", ["/v1/predictions", "/v1/users/ann/samples", "/v1/users/ann/erasures"])
def test_a_body_that_does_not_come_in_time_is_refused(tmp_path, path):
    with Running(tmp_path / "home", slow="1s") as running, Raw(running, path, "operator", 100) as raw:
        start = time.monotonic()
        raw.send(b'{"')
        answer = raw.read()
        assert 0.9 < time.monotonic() - start < 5
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"application/problem+json" in answer
        assert b"urn:cause:problem:timeout" in answer


def test_a_large_body_that_comes_steadily_may_take_longer(tmp_path):
    with Running(tmp_path / "home", slow="1s") as running:
        body = b" " * 400_000
        with Raw(running, "/v1/predictions", "operator", len(body)) as raw:
            for start in range(0, len(body), 100_000):
                raw.send(body[start : start + 100_000])
                pass_time(0.7)
            assert raw.begun().startswith(b"HTTP/1.1 422")


def test_headers_that_do_not_come_in_time_end_the_connection(tmp_path):
    with Running(tmp_path / "home", slow="1s") as running:
        for before in (b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"):
            for sent in (b"", b"GET /he", b"GET /healthz HTTP/1.1\r\nHost"):
                if before and not sent:
                    continue  # it waits for another request
                with Raw(running) as raw:
                    if before:
                        raw.send(before)
                        assert raw.begun().startswith(b"HTTP/1.1 200")
                    raw.send(sent)
                    start = time.monotonic()
                    answer = raw.read()
                    assert time.monotonic() - start < 4
                    assert answer.startswith(b"HTTP/1.1 408")
                    assert b"urn:cause:problem:timeout" in answer


def test_the_rest_of_a_refused_body_may_not_drip_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("cause.service.protocol.LINGER_S", 1.0)
    with Running(tmp_path / "home") as running, Raw(running, "/v1/rounds", "predict", 1000) as raw:
        assert raw.begun().startswith(b"HTTP/1.1 403")
        start, ended = time.monotonic(), False
        while not ended and time.monotonic() - start < 8:
            try:
                raw.send(b" ")
                pass_time(0.2)
            except OSError:
                ended = True
        assert ended


def test_an_answer_that_is_not_read_is_not_kept_for_ever(tmp_path):
    with Running(tmp_path / "home", slow="1s") as running:
        running.learn(alice=40)
        _, large = npz(99_000)
        token, budget = running.headers("operator")["Authorization"], running.service.batcher._budget
        head = f"POST /v1/predictions?probabilities=true HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        with Raw(running) as raw:
            raw.send(f"{head}Content-Type: {NPZ}\r\nContent-Length: {len(large)}\r\n\r\n".encode() + large)
            wait_until(lambda: budget.held_bytes)
            wait_until(lambda: not budget.held_bytes, 20)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := raw.socket.recv(65536):
                    got += piece
        answer_head, _, body = got.partition(b"\r\n\r\n")
        (whole,) = re.findall(rb"content-length: (\d+)", answer_head)
        assert len(body) < int(whole), "it was cut off"


def test_requests_at_once_are_bounded_and_one_token_cannot_take_them_all(tmp_path):
    with Running(tmp_path / "home", requests=4) as running:
        held = [Raw(running, "/v1/predictions", "operator", 100) for _ in range(3)]
        try:
            wait_until(lambda: running.get("/v1/token").status_code == 429)
            full = running.get("/v1/token")
            assert (full.json()["type"], full.headers["retry-after"]) == ("urn:cause:problem:rate-limited", "1")
            assert "at most 3 (of the setting `requests`)" in full.json()["detail"]
            assert running.get("/v1/token", "auditor").status_code == 200
            held.append(Raw(running, "/v1/predictions", "predict", 100))
            wait_until(lambda: running.get("/v1/token", "auditor").status_code == 503)
            assert unavailable(running.get("/v1/token", "auditor"), "at most 4 (setting `requests`)")
            assert running.http.get("/healthz").status_code == running.http.get("/readyz").status_code == 200
        finally:
            for each in held:
                each.socket.close()
        wait_until(lambda: running.get("/v1/token").status_code == 200)
        assert 'status="500"' not in running.get("/metrics").text, "a client that goes away is no error of ours"


def test_streams_are_bounded_for_each_token_and_in_all_and_apart_from_requests(tmp_path):
    with Running(tmp_path / "home", streams=5, requests=1) as running:
        running.secrets["second"] = running.service.tokens.create(["operator"])[1]
        secrets = [running.service.tokens.create(["auditor"])[1] for _ in range(5)]
        running.secrets |= {f"auditor {number}": secret for number, secret in enumerate(secrets)}
        held = [Raw(running, "/v1/events", f"auditor {number}", method="GET") for number in range(4)]
        try:
            assert all(b"event: hello" in raw.begun() or b"event: hello" in raw.begun() for raw in held)
            assert running.get("/v1/events", "auditor 0").status_code == 429
            held.append(Raw(running, "/v1/events", "auditor 4", method="GET"))
            held[-1].begun()
            assert unavailable(running.get("/v1/events"))
            assert running.get("/v1/token").status_code == 200
        finally:
            for each in held:
                each.socket.close()

        def listens():
            with running.http.stream("GET", "/v1/events", headers=running.headers("operator")) as answer:
                return answer.status_code == 200

        wait_until(listens)


def test_a_client_that_goes_away_and_had_asked_for_more_ends_its_stream(tmp_path, caplog):
    with Running(tmp_path / "home", streams=4) as running:
        listeners = running.service.events._listeners
        for more in ("", "/healthz", "/v1/token"):
            raw = Raw(running, "/v1/events", "auditor", method="GET")
            wait_until(lambda: listeners)
            if more:
                token = running.headers("auditor")["Authorization"]
                raw.send(f"GET {more} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode())
                assert b"event: hello" in raw.begun() or b"event: hello" in raw.begun()
                (connection,) = running.server.server_state.connections
                wait_until(partial(getattr, connection, "pipeline"))  # the second request has come
            raw.socket.close()

            def noticed():
                running.service.events.publish("upload.staged", samples=1)  # nobody is there to read it
                return not listeners

            wait_until(noticed)
        assert not caplog.records, "a client that goes away is no error of ours"
        assert running.get("/v1/token", "auditor").status_code == 200


def test_connections_are_bounded(tmp_path):
    with Running(tmp_path / "home", connections=3) as running:
        token = running.headers("auditor")["Authorization"]
        held = [Raw(running) for _ in range(3)]
        try:
            for stream in held:
                stream.send(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode())
            wait_until(lambda: len(running.service.events._listeners) == 3)
            with Raw(running) as one_too_many:
                answer = one_too_many.read()
                assert answer.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1" in answer
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "urn:cause:problem:unavailable"
        finally:
            for each in held:
                each.socket.close()
        wait_until(lambda: not running.server.server_state.connections)
        assert running.http.get("/healthz").status_code == 200


def test_half_open_connections_keep_nobody_out(tmp_path):
    """300 of one address that send nothing or half a request: others are answered, and so is a stream under way."""
    with Running(tmp_path / "home") as running:
        headers = running.headers("auditor") | {"Host": "localhost"}
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with (
            httpx.Client(base_url=str(running.http.base_url), transport=other, trust_env=False, timeout=5) as client,
            client.stream("GET", "/v1/events", headers=headers) as stream,
        ):
            lines = stream.iter_lines()
            assert next(lines) == "event: hello"
            held = []
            try:
                for at in range(300):
                    held.append(socket.create_connection(("127.0.0.1", running.port), 5))
                    if at % 2:
                        held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
                for _ in range(5):
                    assert client.get("/healthz").status_code == 200
                    assert client.get("/v1/token", headers=headers).status_code == 200
                assert running.http.get("/healthz").status_code == 200, "also from that address"
                connections = running.server.server_state.connections
                assert len(connections) <= running.service.settings.connections + 1
                running.service.events.publish("upload.staged", samples=1)
                assert any("upload.staged" in next(lines) for _ in range(5)), "the stream was not closed"
            finally:
                for each in held:
                    each.close()


def test_every_route_says_that_it_may_be_busy(learned):
    paths = learned.http.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            if path not in ("/healthz", "/readyz"):
                body = operation["responses"]["503"]
                assert PROBLEM in body["content"]
                assert "Retry-After" in body["headers"]
            if "requestBody" in operation:
                assert PROBLEM in operation["responses"]["408"]["content"]


def test_an_evaluation_is_counted_among_what_waits(learned):
    batches, body = learned.service.batcher, labelled(30_000)
    with ThreadPoolExecutor(2) as pool:
        with learned.service.device.lock:
            first = pool.submit(asked, learned, npz(30_000)[1])
            wait_until(lambda: batches._budget.held_bytes)
            assert unavailable(learned.post("/v1/evaluations", body=body, Content_Type=NPZ))
        assert first.result().status_code == 200
    done = learned.post("/v1/evaluations", body=body, Content_Type=NPZ)
    assert done.json()["samples"] == 30_000
    assert sum(each["samples"] for each in done.json()["classes"]) == 30_000
    wait_until(lambda: not batches._budget.held_bytes)
    assert learned.service.device.classes == CLASSES


def test_clients_that_go_away_leave_nothing_behind(tmp_path):
    with Running(tmp_path / "home") as running:
        running.learn(alice=40)
        service = running.service
        middleware: Any = running.app.middleware_stack
        while not hasattr(middleware, "_requests"):
            middleware = middleware.app
        body = labelled(3_500)
        assert len(body) > 65_536
        paths = ("users/bob/samples", "users/bob/erasures", "users/bob/erasures/plan", "predictions", "evaluations")
        token = running.headers("operator")["Authorization"]
        for path in (*paths, "predictions?probabilities=true", "rounds", "events"):
            method = "GET" if path == "events" else "POST"
            head = f"{method} /v1/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Type: {NPZ}\r\n"
            lengths = (f"Content-Length: {len(body)}", f"Content-Length: {2**25}", "Transfer-Encoding: chunked")
            for length, sent in ((length, sent) for length in lengths for sent in (0, 1_000, len(body))):
                chunk = f"{len(body):x}\r\n".encode() if "chunked" in length else b""
                request = f"{head}{length}\r\n\r\n".encode() + chunk + body[:sent]
                with Raw(running) as raw, contextlib.suppress(OSError):
                    running.arrive(partial(raw.send, request))
        wait_until(lambda: not middleware._requests._total and not middleware._streams._total)
        assert (service.body_reader._budget.held_bytes, service.batcher._budget.held_bytes) == (0, 0)
        assert (
            service.body_reader._slots._value,
            len(service.body_reader._reading),
            len(service.body_reader._unpacking),
        ) == (1, 0, 0)
        assert not service.batcher._jobs
        assert service.body_reader._budget._held_by_token == service.batcher._budget._held_by_token == {}
        assert 'status="500"' not in running.get("/metrics").text
        assert running.post("/v1/users/bob/samples", body=body, Content_Type=NPZ).status_code == 201
