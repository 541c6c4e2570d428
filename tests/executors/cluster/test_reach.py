"""An address at which no cluster can be joined is refused in one line, at once: Ray itself tries for minutes."""

import socket
import ssl
import threading
from contextlib import contextmanager

import pytest

from cause.errors import InputError
from cause.executors.cluster import reach
from tests.torture_cluster.certificates import make_certificates


@contextmanager
def listening(context: ssl.SSLContext | None = None):
    """Something that listens; with a context, it speaks TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                    connection.settimeout(2)
                    if context is None:
                        connection.sendall(b"not TLS, and no Ray")
                        connection.close()
                    else:
                        context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    if server.fileno() < 0:
                        return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def certificates(tmp_path):
    return make_certificates(tmp_path, [])


def server_context(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates["RAY_TLS_SERVER_CERT"], certificates["RAY_TLS_SERVER_KEY"])
    return context


def refused(address: str) -> str:
    with pytest.raises(InputError) as error:
        reach.check_reachable(None, address)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "address", ["", "host", "http://host", "ray://host:10001", "host:", "host:0", "host:99999", ":1"]
)
def test_what_is_no_address_is_refused(address):
    assert "HOST:PORT" in refused(address)


def test_an_address_at_which_nothing_listens_is_refused_at_once(monkeypatch):
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "refused" in refused(f"127.0.0.1:{port}")
    assert "no machine is called" in refused("no-such-host.invalid:6379")


def test_tls_on_one_side_only_is_named(monkeypatch, certificates):
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with listening(server_context(certificates)) as address:
        assert "uses TLS: set RAY_USE_TLS=1" in refused(address)
    for name, value in certificates.items():
        monkeypatch.setenv(name, value)
    with listening() as address:
        assert "does not use TLS" in refused(address)


def test_certificates_that_are_missing_or_of_another_authority_are_named(monkeypatch, certificates, tmp_path):
    (tmp_path / "other").mkdir()
    others = make_certificates(tmp_path / "other", [])
    for name, value in certificates.items():
        monkeypatch.setenv(name, value)
    with listening(server_context(others)) as address:
        assert "is not of RAY_TLS_CA_CERT" in refused(address)
    monkeypatch.setenv("RAY_TLS_CA_CERT", str(tmp_path / "none.pem"))
    with listening(server_context(certificates)) as address:
        assert "RAY_TLS_CA_CERT" in refused(address)


def test_something_else_that_listens_is_refused_after_a_while(monkeypatch):
    """Asking it never ends, as with Ray."""

    class Silent:
        def GcsClient(self, address: str) -> None:  # noqa: N802
            forever.wait(10)

    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    monkeypatch.setattr(reach, "RAY_ANSWER_S", 0.2)
    forever = threading.Event()
    with listening() as address, pytest.raises(InputError, match="does not answer as one"):
        reach.check_reachable(type("ray", (), {"_raylet": Silent()}), address)
    forever.set()
