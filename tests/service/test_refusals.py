"""What makes no sense is refused with a 4xx, and nothing is changed."""

import io
import json
import socket
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from cause.data.zipped import Arrays
from tests.device.homes import FEATURES
from tests.service.services import Running, rows

NPZ, TENSORS = "application/x-npz", "application/vnd.safetensors"


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def zipped(name, data, **more):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
        for other, content in more.items():
            archive.writestr(other, content)
    return buffer.getvalue()


def bomb():
    """Small, and 200 MiB when it is unpacked; made when it is asked for, since that takes a second."""
    return zipped("x.npy", npy((200 * 2**20,), "|u1", bytes(200 * 2**20)))


def npy(shape, dtype="<f4", data=b""):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def tensors(header, data=b""):
    head = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(head)) + head + data


GOOD = np.zeros((3, FEATURES), np.float32), np.array([0, 1, 2])
BAD = [
    (NPZ, b""),
    (NPZ, b"PK\x03\x04 not an archive"),
    (NPZ, npz(x=GOOD[0], y=GOOD[1])[:200]),
    (NPZ, npz(x=GOOD[0])),
    (NPZ, npz(x=GOOD[0], y=GOOD[1][:2])),
    (NPZ, npz(x=GOOD[0], y=np.array([0, 1, 99]))),
    (NPZ, npz(x=GOOD[0], y=np.array([0, 1, -1]))),
    (NPZ, npz(x=GOOD[0], y=np.array([0.5, 1, 2]))),
    (NPZ, npz(x=np.full((3, FEATURES), np.nan), y=GOOD[1])),
    (NPZ, npz(x=np.array([["a"] * FEATURES] * 3), y=GOOD[1])),
    (NPZ, npz(x=np.zeros((3, FEATURES + 1)), y=GOOD[1])),
    (NPZ, npz(x=np.zeros((0, FEATURES)), y=np.zeros(0, int))),
    (NPZ, zipped("../x.npy", npy((3, FEATURES)))),
    (NPZ, zipped("x.npy", npy((10**9, 10**9)), **{"y.npy": npy((3,), "<i8", bytes(24))})),
    (NPZ, zipped("x.npy", npy((3, FEATURES), "|O", b"cos\nsystem\n(S'true'\ntR."))),
    (NPZ, zipped("x.npy", b"\x93NUMPY\x03\x00" + bytes(100))),
    (NPZ, bomb),
    (TENSORS, b"\xff" * 8),
    (TENSORS, struct.pack("<Q", 2**40) + b"{}"),
    (TENSORS, tensors(b"[]")),
    (TENSORS, tensors({"x": {"dtype": "F32", "shape": [3, FEATURES], "data_offsets": [0, 12]}}, bytes(12))),
    (TENSORS, tensors({"x": {"dtype": "F32", "shape": [-1, 3], "data_offsets": [0, 12]}}, bytes(12))),
    (TENSORS, tensors({"x": {"dtype": "PY", "shape": [3], "data_offsets": [0, 12]}}, bytes(12))),
    (TENSORS, tensors(b"[" * 5000)),
    ("image/png", b"\x89PNG\r\n\x1a\n" + bytes(50)),
    ("application/json", b"{"),
    ("application/json", b"[" * 100_000),
    ("application/json", b'{"samples": []}'),
    ("application/json", b'{"samples": [{"x": [1], "y": 0}]}'),
    ("application/json", json.dumps({"samples": [{"x": [1e999] * FEATURES, "y": 0}]}).encode()),
    ("application/json", json.dumps({"samples": [{"x": [True] * FEATURES, "y": 0}]}).encode()),
    ("application/json", json.dumps({"samples": [{"x": ["1"] * FEATURES, "y": 0}]}).encode()),
    ("application/json", json.dumps({"samples": [{"x": [0.5] * FEATURES, "y": 0}], "dtype": "uint8"}).encode()),
    ("application/json", json.dumps({"samples": [{"x": [0.5] * FEATURES, "y": 10**30}]}).encode()),
    ("application/json", json.dumps({"samples": [{"x": [0.5] * FEATURES, "y": 0, "z": 1}]}).encode()),
    ("text/plain", b"x"),
    ("", b"x"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_samples_that_make_no_sense_are_refused(running, number):
    kind, body = BAD[number]
    body = body() if callable(body) else body
    before = running.state()
    label = "?label=1" if kind.startswith("image") else ""
    for path in (f"/v1/users/ann/samples{label}", f"/v1/evaluations{label}"):
        answer = running.post(path, body=body, Content_Type=kind)
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) >= {"type", "title", "status", "detail"}
    assert running.state() == before


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b'{"rounds": []}', b'{"rounds": [0]}', b'{"rounds": "1"}', b'{"count": 3}',
     b'{"rounds": [1, 2], "count": 1}', b'{"rounds": [1], "samples": [[1, 0]]}', b'{"samples": [[1]]}',
     b'{"samples": [[1, -1]]}', b'{"user": "bob"}', b'{"rounds": [1e400]}', b'{"rounds": [99999999999999999999]}',
     b'{"rounds": [true]}', b"\xff\xfe", b'{"rounds": [7]}', b'{"samples": [[1, 0]]}',
     b'{"rounds": null}', b'{"handles": null}', b'{"samples": null}', b'{"count": null}',
     b'{"nonce": null}', b'{"handles": null, "rounds": null}'],
)  # fmt: skip
def test_erasures_that_make_no_sense_are_refused(running, body):
    before = running.state()
    for path in ("erasures", "erasures/plan"):
        answer = running.post(f"/v1/users/zoe/{path}", body=body)
        assert 400 <= answer.status_code < 500, answer.text
    assert running.state() == before


@pytest.mark.parametrize(
    "user",
    ["%00", "a%0ab", "a/b", "%c3%28", "x" * 257, "%7f", "%ed%a0%80", "%2F%00", "a%2F%20", "%E2%80%8B",
     "a%E2%80%8Bb", "%20a", "a%20", "%C2%A0a"],
)  # fmt: skip
def test_ids_that_cannot_be_are_refused(running, user):
    before = running.state()
    answer = running.post(f"/v1/users/{user}/samples", body=rows("ann", 1, 2))
    assert 400 <= answer.status_code < 500, answer.text
    assert running.state() == before


@pytest.mark.parametrize("user", ["ålice", "名前", "😀", "a b", "a+b", "a%b", "%2e%2e", "'; DROP TABLE uploads"])
def test_ids_in_any_script_are_themselves(running, user):
    from urllib.parse import quote

    path = f"/v1/users/{quote(user, safe='')}"
    assert running.post(f"{path}/samples", body=rows("ann", 1, 2)).status_code == 201
    assert [each.user for each in running.service.home.inbox.uploads()].count(user) == 1
    assert running.get(path, user).json()["staged"]["samples"] == 2
    assert running.post(f"{path}/erasures", user, {}).json()["staged"] == 2


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/..%2f..%2fcause.toml", "/%2e%2e/app.py", "/a/../../app.py"])
def test_static_files_are_those_of_the_folder_only(running, path):
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))


def test_what_is_too_large_is_refused_whether_it_says_so_or_not(tmp_path):
    with Running(tmp_path / "home", body="1MB") as running:
        before = running.state()
        assert running.post("/v1/users/ann/samples", body=b" " * (2**20 + 1)).status_code == 413
        chunks = (b" " * 2**16 for _ in range(100))
        headers = running.headers("operator") | {"Content-Type": "application/json"}
        answer = running.http.post("/v1/users/ann/samples", headers=headers, content=chunks)
        assert answer.status_code == 413
        assert running.state() == before


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/rounds HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/rounds HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST /v1/rounds HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_as_all_else_is(running, sent):
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.settimeout(10)
        raw.sendall(sent)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["type"] == "urn:cause:problem:bad-request"


@pytest.mark.parametrize(("path", "status"), [("/v1/status", 401), ("/healthz", 200), ("/v1/nowhere", 401)])
def test_a_request_to_speak_websocket_passes_the_gate_as_all_others_do(running, path, status):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = running.http.get(path, headers={**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_headers_without_end_are_refused(running):
    huge = running.http.get("/v1/token", headers=running.headers("operator") | {"X-Long": "a" * 20_000})
    assert huge.status_code == 431
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        answer = b""
        try:
            for number in range(40):
                raw.sendall(b"X-%d: " % number + b"a" * 65_000 + b"\r\n")
            answer = raw.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            answer = answer or b"HTTP/1.1 431"
    assert b"431" in answer or answer == b""


def test_a_full_store_refuses_uploads_and_still_forgets(tmp_path):
    from tests.device.homes import opened

    opened(tmp_path / "home", storage="5kB").close()
    with Running(tmp_path / "home") as running:
        assert running.post("/v1/users/ann/samples", body=rows("ann", 1, 40)).status_code == 201
        before = running.state()
        full = running.post("/v1/users/bob/samples", body=rows("bob", 1, 40))
        assert (full.status_code, full.json()["type"]) == (409, "urn:cause:problem:storage-full")
        assert running.state() == before
        assert running.post("/v1/rounds").status_code == 202, "what is staged has its room already"
        assert running.post("/v1/users/ann/erasures", body={}).json()["samples"] == 40
        assert running.post("/v1/users/bob/samples", body=rows("bob", 1, 40)).status_code == 201


def test_json_that_would_take_more_memory_than_samples_may_is_refused_unread(tmp_path):
    with Running(tmp_path / "home", unpacked="1MB") as running:
        before, many = running.state(), json.dumps({"samples": [{"x": [0] * FEATURES, "y": 0}] * 4_000}).encode()
        assert 2**16 < len(many) < 2**20
        refused = running.post("/v1/users/ann/samples", body=many)
        assert (refused.status_code, running.state()) == (413, before)
        assert "npz" in refused.json()["detail"]
        assert running.post("/v1/users/ann/samples", body=rows("ann", 1, 20)).status_code == 201


READING = """
import resource, sys
from cause.service.inputs import InputLayout, SampleReader
from cause.service.problems import ProblemError
body = sys.argv[1].encode() * (int(sys.argv[2]) // len(sys.argv[1]))
body = b'{"inputs": [' + body[:-1] + b"]}"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    SampleReader(InputLayout(6, None, 4), 64 << 20).read_inputs("application/json", body)
except ProblemError as problem:
    print(problem.status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("part", ["[[[[[[[[]]]]]]]],", "[0],", '{"":0},', "[],"])
def test_json_made_of_many_small_lists_takes_no_more_memory_than_samples_may(part):
    ran = subprocess.run(
        [sys.executable, "-c", READING, part, str(2**22 - 1000)], capture_output=True, text=True, check=True
    )
    status, kilobytes = map(int, ran.stdout.split())
    assert status == 422
    assert kilobytes < 64 * 1024


def test_as_many_samples_as_may_come_as_json_do(running):
    sample = {"x": [0.5] * FEATURES, "y": 1}
    for count, status in ((4_096, 201), (4_097, 422)):
        body = json.dumps({"samples": [sample] * count, "dtype": "float32"}).encode()
        assert running.post("/v1/users/many/samples", body=body).status_code == status
    assert running.post("/v1/users/many/erasures", body={}).json()["staged"] == 4_096


def test_an_archive_that_is_all_table_is_refused_unread(running, monkeypatch):
    line = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, *[0] * 3, 0, 33, *[0] * 3, 1, *[0] * 6) + b"a"
    opened = []
    monkeypatch.setattr("cause.service.inputs.Arrays", lambda *archive: opened.append(archive) or Arrays(*archive))
    for count, reads in ((10_001, 0), (10_000, 1)):
        end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, count * len(line), 0, 0)
        refused = running.post("/v1/predictions", body=line * count + end, Content_Type="application/x-npz")
        assert (refused.status_code, len(opened)) == (422, reads)
    assert "no array" in refused.json()["detail"], "it was a table as zipfile reads it"
