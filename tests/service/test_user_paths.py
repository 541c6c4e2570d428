"""Every user that can be uploaded can be read and erased over HTTP, whatever the name looks like in a path."""

import io
import socket
from urllib.parse import quote

import numpy as np
import pytest

from cause.client import Client
from tests.device.homes import samples
from tests.service.services import rows

NAMES = [".", "..", "/", "z/oe", "a/samples", "a/erasures", "../../etc", "a//b", "a\\b", "%2e", "%2F", "q?x=1", "a#b",
         "b;c", "a+b", "a&user=b", "ü/名"]  # fmt: skip


def bulk(user: str, count: int = 2) -> bytes:
    x, y = samples("ann", 1, count)
    body = io.BytesIO()
    np.savez(body, x=x, y=y, users=np.array([user] * count))
    return body.getvalue()


@pytest.fixture
def held(running, request):
    """A user of whom two samples wait, and the neighbours of whom one does each."""
    for user, count in ((request.param, 2), ("a", 1), ("samples", 1), ("erasures", 1)):
        assert running.post("/v1/samples", body=bulk(user, count), Content_Type="application/x-npz").status_code == 201
    yield request.param
    for user in ("a", "samples", "erasures"):
        assert running.post(f"/v1/users/{user}/erasures", body={}).json()["staged"] == 1, "a neighbour lost a sample"
    assert len(running.service.home.inbox) == 0


@pytest.mark.parametrize("held", NAMES, indirect=True)
def test_the_client_reads_and_erases_every_user(running, held):
    with Client(str(running.http.base_url), running.secrets["operator"]) as client:
        assert client.user(held)["staged"]["samples"] == 2
        assert len(list(client.samples(held))) == 2
        assert client.plan(held)["staged"] == 2
        assert len(client.match(held, *samples("ann", 1, 2)).handles) == 2
        handle = client.upload(held, *samples("ann", 2, 1)).handles[0]
        assert client.erase(held, handles=[handle]).staged == 1
        assert client.erase(held).staged == 2


@pytest.mark.parametrize("held", NAMES, indirect=True)
def test_a_users_own_token_works_with_the_name_in_the_query(running, held):
    query = f"?user={quote(held, safe='')}"
    assert running.get(f"/v1/user/samples{query}&limit=1", held).json()["items"]
    assert running.get(f"/v1/user{query}", held).json()["staged"]["samples"] == 2
    assert running.post(f"/v1/user/erasures{query}", held, {}).json()["staged"] == 2


@pytest.mark.parametrize("held", NAMES, indirect=True)
def test_a_percent_encoded_name_is_one_segment_of_the_path(running, held):
    path = "/v1/users/" + quote(held, safe="").replace(".", "%2E")
    assert running.get(path).json()["staged"]["samples"] == 2
    assert running.post(f"{path}/samples", body=rows("ann", 2, 3)).status_code == 201
    assert running.post(f"{path}/erasures", body={}).json()["staged"] == 5


@pytest.mark.parametrize(
    "target",
    ["/v1/users/a%2Fb", "/v1/users/a%2Fb/samples", "/v1/user?user=a/b", "/v1/user/samples?user=a%2Fb",
     "/v1/users/a%2fsamples", "/v1/users%2Fa%2Fb/samples", "/v1/user/samples?user=b&user=a",
     "/v1/user/samples?user=b", "/v1/users/%2561", "/v1/user/samples"],
)  # fmt: skip
def test_the_token_of_one_user_opens_no_other_users_path(running, target):
    headers = "\r\n".join(f"{name}: {value}" for name, value in running.headers("a").items())
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 404")), answer[:300]


def test_metrics_name_the_pattern_and_never_the_user(running):
    running.get("/v1/user?user=na%2Fmed")
    metrics = running.get("/metrics").text
    assert 'route="/v1/users/{user}"' in metrics
    assert "med" not in metrics.replace("named", "")
