"""Fields after a chunked body (trailers): they are no headers, and are held no more than headers are."""

import json
import socket

import pytest

from cause.service.protocol import MOST_HEAD_BYTES
from tests.service.services import inputs

BODY = json.dumps({"inputs": inputs()}).encode()
CHUNKS = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n"


@pytest.fixture(scope="module", autouse=True)
def learned(running):
    running.learn(alice=20, bob=20)


def head(running, who: str | None) -> bytes:
    lines = ["POST /v1/predictions HTTP/1.1", "Host: x", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    if who is not None:
        lines.append(f"Authorization: {running.headers(who)['Authorization']}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def answer(running, *sent: bytes) -> bytes:
    """Send the parts of a request; return the response, empty if the service closed the connection first."""
    with socket.create_connection(("127.0.0.1", running.port), 20) as client:
        try:
            for part in sent:
                client.sendall(part)
            return b"".join(iter(lambda: client.recv(65536), b""))
        except ConnectionError:
            return b""


@pytest.mark.parametrize(
    "trailer", [b"Content-Type: text/csv", b"Host: evil.example", b"Authorization: Bearer x", b"X-Checksum: 1"]
)
def test_trailers_are_ignored(running, trailer):
    assert answer(running, head(running, "alice") + CHUNKS + trailer + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_token_in_a_trailer_gives_no_access(running):
    """A proxy in front that checks or removes headers does not look at trailers."""
    token = f"Authorization: {running.headers('operator')['Authorization']}\r\n\r\n".encode()
    assert answer(running, head(running, None) + CHUNKS + token).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("line", [b"a" * 65_536, b"X: 1\r\n" * 10_000])
def test_trailers_without_end_are_refused(running, line):
    """The parser keeps a field until its end: its memory and, since it copies, its time would grow without a limit."""
    parts = [head(running, "alice") + CHUNKS + b"X: ", *[line] * 200]
    assert not answer(running, *parts).startswith(b"HTTP/1.1 200 ")
    assert 200 * len(line) > 100 * MOST_HEAD_BYTES
    assert running.get("/v1/status").status_code == 200


def test_a_body_in_chunks_of_one_byte_is_read(running):
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY + b" " * 20_000) + b"0\r\n\r\n"
    assert answer(running, head(running, "alice") + chunks).startswith(b"HTTP/1.1 200 ")


def test_a_request_after_one_with_trailers_is_served(running):
    first = head(running, "alice").replace(b"Connection: close\r\n", b"") + CHUNKS + b"X: 1\r\n\r\n"
    assert answer(running, first * 3 + head(running, "alice") + CHUNKS + b"\r\n").count(b"HTTP/1.1 200 ") == 4
