"""`cause serve`, `cause token`, and how the service is configured."""

import json
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cause.cli import main
from cause.client import Client, ServiceError
from cause.errors import InputError
from cause.service.settings import read_settings
from tests.device.homes import opened, samples
from tests.service.services import WarmDaemon
from tests.warm_processes import run_warm


@pytest.fixture
def cause(tmp_path):
    """Runs a command of `cause` in a process of its own."""
    return lambda *args: run_warm(args, tmp_path / "printed")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    from tests.device.homes import MASTER

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        folder = tmp_path_factory.mktemp("commands") / "home"
        opened(folder).close()
        yield folder


def test_tokens_are_made_used_and_revoked_while_the_service_runs(home, cause):
    daemon = WarmDaemon(home).start()
    try:
        made = json.loads(cause("token", "create", home, "--scope", "user", "--user", "ann", "--json").stdout)
        with daemon.client(made["secret"]) as ann, daemon.client(daemon.token("operator")) as operator:
            ann.upload("ann", *samples("ann", 1, 4))
            assert operator.status()["staged"]["samples"] == 4
            with pytest.raises(ServiceError, match="403"):
                ann.status()
            assert cause("token", "revoke", home, made["id"]).stdout == f"revoked {made['id']}\n"
            with pytest.raises(ServiceError, match="401"):
                ann.user("ann")
        listed = json.loads(cause("token", "list", home, "--json").stdout)["tokens"]
        assert next(each for each in listed if each["id"] == made["id"])["revoked"] is not None
        assert "secret" not in listed[0]
        taken = cause("serve", home, "--port", daemon.port)
        assert (taken.returncode, "in use by process" in taken.stderr) == (2, True)
    finally:
        assert daemon.stop() == 0


def certificate(folder):
    """Of a machine called localhost, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, plain))
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls_when_a_certificate_is_given(home, tmp_path):
    cert, key = certificate(tmp_path)
    daemon = WarmDaemon(home, tls_cert=cert, tls_key=key).start()
    try:
        url = f"https://127.0.0.1:{daemon.port}"
        trusting = ssl.create_default_context(cafile=cert)
        with Client(url, daemon.token("auditor"), verify=trusting) as client:
            assert client.log().size == 0
        with httpx.Client(verify=trusting, trust_env=False) as plain:
            assert "max-age" in plain.get(f"{url}/healthz").headers["strict-transport-security"]
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("serve", "nowhere"), "is not a home"),
        (("token", "create", "HOME"), "needs a scope"),
        (("token", "create", "HOME", "--scope", "user"), "user"),
        (("token", "create", "HOME", "--scope", "king"), "a scope is one of"),
        (("token", "revoke", "HOME", "nobody"), "there is no token"),
        (("token", "steal", "HOME"), "action"),
        (("serve", "HOME", "--repair", "tomorrow"), "repair"),
        (("serve", "HOME", "--tls-cert", "x.pem"), "certificate and its key"),
    ],
)
def test_mistakes_are_told_in_one_line(home, capsys, args, message):
    with pytest.raises(SystemExit) as ended:
        main([str(home) if part == "HOME" else part for part in args])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_settings_come_from_a_file_the_environment_and_options(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text('[serve]\nport = 1\nhost = "0.0.0.0"\nclose_every = "2h"\nrate = 5\n')
    found = read_settings(file, {"CAUSE_SERVE_PORT": "2", "CAUSE_SERVE_WORKERS": "3"}, port=None, workers=4)
    assert (found.port, found.host, found.close_every_s, found.workers, found.rate) == (2, "0.0.0.0", 7200.0, 4, 5)
    assert read_settings(environment={}).host == "127.0.0.1"


@pytest.mark.parametrize(
    "text", ["[serve]\nports = 1", "[serve]\nport = '1'", "[other]\na = 1", "serve", "[serve]\nclose_every = 'soon'"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path, text):
    (tmp_path / "serve.toml").write_text(text)
    with pytest.raises(InputError):
        read_settings(tmp_path / "serve.toml", {})


def test_a_number_in_the_environment_must_be_one():
    with pytest.raises(InputError, match="CAUSE_SERVE_PORT"):
        read_settings(environment={"CAUSE_SERVE_PORT": "many"})
