"""Host headers, plain HTTP for other machines, and JSON that names a key twice."""

import json
import socket

import numpy as np
import pytest

from cause.errors import InputError
from cause.service.settings import ServeSettings, read_settings
from tests.service.services import FEATURES, Daemon, Running, rows
from tests.service.test_commands import home

__all__ = ["home"]


def ask(device, *lines: str) -> int:
    """The status of a request that is written by hand."""
    with socket.create_connection(("127.0.0.1", device.port), 5) as raw:
        raw.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode())
        return int(raw.makefile("rb").readline().split()[1])


def test_a_missing_or_doubled_host_is_refused(running):
    assert ask(running, "GET /healthz HTTP/1.1", "Host: a") == 200
    assert ask(running, "GET /healthz HTTP/1.1") == 400
    assert ask(running, "GET /healthz HTTP/1.1", "Host:") == 400
    assert ask(running, "GET /healthz HTTP/1.1", "Host: a", "Host: b") == 400
    assert ask(running, "GET /healthz HTTP/1.1", "Host: a", "host: a") == 400
    assert ask(running, "GET /healthz HTTP/1.0") == 200, "HTTP/1.0 asks for none"


@pytest.mark.parametrize(
    "lines",
    [
        ("POST /v1/users/ann/erasures HTTP/1.1", "Authorization: Bearer other"),
        ("POST /v1/users/ann/erasures HTTP/1.1", "Content-Type: text/plain"),
        ("POST /v1/users/ann/erasures HTTP/1.1", "Idempotency-Key: a", "Idempotency-Key: b"),
        ("POST /v1/samples?label=1&label=2 HTTP/1.1",),
        ("GET /v1/requests?state=repaired&%73tate=open HTTP/1.1",),
        ("GET /v1/user?user=ann&user=bob HTTP/1.1",),
        ("POST /v1/users/ann/erasures?user=bob HTTP/1.1",),
        ("GET /v1/users/ann?%75ser=bob HTTP/1.1",),
        ("GET /v1%2Fusers/ann?user=bob HTTP/1.1",),
    ],
)
def test_a_header_or_parameter_that_is_named_twice_is_refused(running, lines):
    """As a key of JSON is: one of the two would be ignored, and proxies disagree on which."""
    valid = (
        "Host: a",
        f"Authorization: {running.headers('operator')['Authorization']}",
        "Content-Type: application/json",
    )
    before = running.state()
    assert ask(running, lines[0], *valid, "Content-Length: 0", *lines[1:]) == 400
    assert running.state() == before


def test_other_hosts_than_the_allowed_ones_are_refused(tmp_path):
    with Running(tmp_path / "home", hosts="Device.local, 10.0.0.5") as device:
        for host, status in {
            "device.local": 200, "DEVICE.LOCAL:8470": 200, "10.0.0.5:1": 200, "localhost:80": 200, "127.0.0.1": 200,
            "[::1]:8470": 200, "evil.example": 400, "device.local.evil.example": 400, "10.0.0.55": 400,
        }.items():  # fmt: skip
            assert ask(device, "GET /healthz HTTP/1.1", f"Host: {host}") == status, host
        assert ask(device, "GET /healthz HTTP/1.0") == 400


@pytest.mark.parametrize("hosts", ["a.local b.local", "https://a.local", "a.local/", "[::1"])
def test_hosts_that_no_request_could_name_are_refused(hosts):
    """Otherwise a slip in the file would refuse every request from elsewhere."""
    with pytest.raises(InputError, match="hosts are names and addresses with commas between them"):
        ServeSettings(hosts=hosts)


@pytest.mark.parametrize(
    "hosts", ["a.local", "A_1.local:8470, 10.0.0.5", "[fe80::1]:8470,[::ffff:10.0.0.5]", "a.local,", ""]
)
def test_names_and_addresses_with_and_without_a_port_are_hosts(hosts):
    assert ServeSettings(hosts=hosts).allowed_hosts


@pytest.mark.parametrize(
    ("settings", "exposed"),
    [
        ({}, False),
        ({"host": "::1"}, False),
        ({"host": "127.8.8.8"}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "device.local"}, True),
        ({"host": "0.0.0.0", "plain": True}, False),
        ({"host": "0.0.0.0", "tls_cert": "c", "tls_key": "k"}, False),
    ],
)
def test_plain_http_for_other_machines_is_noticed(settings, exposed):
    assert ServeSettings(**settings).exposed == exposed


def test_plain_is_set_by_the_environment_and_by_a_file(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text("[serve]\nplain = true\n")
    assert read_settings(file, {}).plain
    assert read_settings(None, {"CAUSE_SERVE_PLAIN": "true"}).plain
    assert not read_settings(file, {"CAUSE_SERVE_PLAIN": "no"}).plain
    with pytest.raises(InputError, match="true or false"):
        read_settings(None, {"CAUSE_SERVE_PLAIN": "maybe"})
    file.write_text("[serve]\nplain = 1\n")
    with pytest.raises(InputError, match="plain must be bool"):
        read_settings(file, {})
    file.write_text("[serve]\nport = true\n")
    with pytest.raises(InputError, match="port must be int"):
        read_settings(file, {})


@pytest.mark.parametrize(("options", "warns"), [({}, True), pytest.param({"plain": ""}, False, marks=pytest.mark.long)])
def test_a_service_for_other_machines_without_tls_warns_even_when_quiet(home, capfd, options, warns):
    daemon = Daemon(home, host="0.0.0.0", **options)
    daemon.start()
    assert daemon.stop() == 0
    assert ("without TLS" in capfd.readouterr().err) == warns


DOUBLED = [
    ("/v1/users/alice/erasures", b'{"rounds": [1], "rounds": null}'),
    ("/v1/users/alice/erasures", b'{"rounds": [1], "\\u0072ounds": null}'),
    ("/v1/users/alice/erasures/plan", b'{"rounds": [1], "count": 1, "count": 2}'),
    ("/v1/rounds", b'{"empty": false, "empty": true}'),
    ("/v1/predictions", json.dumps({"inputs": [[0.0] * FEATURES]}).encode()[:-1] + b', "inputs": [[1.0]]}'),
]


@pytest.mark.parametrize(("path", "body"), DOUBLED)
def test_a_key_that_is_there_twice_is_refused(running, path, body):
    running.learn(alice=5)
    before = running.state()
    answer = running.post(path, body=body)
    assert answer.status_code == 422
    assert running.state() == before


def test_a_sample_with_a_key_twice_is_refused(running):
    whole = json.loads(rows("carl", 1, 2))
    text = json.dumps(whole).replace('"y"', '"y": 0, "y"', 1).encode()
    assert "twice" in running.post("/v1/users/carl/samples", body=text).json()["detail"]
    for sample in whole["samples"]:
        sample["user"] = "carl"
    text = json.dumps(whole).replace('"user"', '"user": "mallory", "user"', 1).encode()
    assert "twice" in running.post("/v1/samples", body=text).json()["detail"]
    tensor = f'"x":{{"dtype":"F32","shape":[1,{FEATURES}],"data_offsets":[0,{4 * FEATURES}]}}'
    header = f"{{{tensor},{tensor}}}".encode()
    body = len(header).to_bytes(8, "little") + header + np.zeros(FEATURES, np.float32).tobytes()
    assert running.post("/v1/predictions", body=body, Content_Type="application/vnd.safetensors").status_code == 422


def test_equal_keys_of_different_objects_and_texts_with_braces_are_fine(running):
    running.learn(alice=5)
    body = {"nonce": 'a "text" with {"nonce": 1} and \\ in it}', "rounds": [running.service.device.ledger.round]}
    assert running.post("/v1/users/alice/erasures", body=body).status_code == 202
