"""Whether a Ray cluster can be reached at an address: Ray itself tries for minutes, and says nothing meanwhile."""

import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, cast

from cause.errors import InputError

LOCAL = ("auto", "local")
"""Addresses that name a cluster of this machine."""
ANSWER_S = 10.0
RAY_ANSWER_S = 30.0
_TOKEN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as on its nodes"
_CERTIFICATES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def check_reachable(ray: Any, address: str) -> None:
    """Refuse an address at which no Ray cluster answers in the way in which this process would talk to it.

    Parameters
    ----------
    ray
        The module `ray`.
    address
        `HOST:PORT`, or one of `LOCAL`.

    Raises
    ------
    InputError
        If the address is none, nothing answers there, one side uses TLS and the other does not, or what answers is no
        Ray cluster.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    if address in LOCAL:
        return
    host, port = parsed(address)
    try:
        with socket.create_connection((host, port), ANSWER_S):
            pass
    except socket.gaierror:
        raise InputError(f"cannot join the Ray cluster {address!r}: no machine is called {host!r}") from None
    except TimeoutError:
        raise InputError(
            f"cannot join the Ray cluster {address!r}: it does not answer within {ANSWER_S:g} seconds"
        ) from None
    except OSError as error:
        raise InputError(f"cannot join the Ray cluster {address!r}: {error.strerror or error}") from None
    _check_tls(address, host, port)
    _check_ray(ray, address)


def parsed(address: str) -> tuple[str, int]:
    """Return host and port of an address.

    >>> parsed("10.0.0.1:6379"), parsed("[::1]:6379")
    (('10.0.0.1', 6379), ('::1', 6379))
    >>> parsed("http://host")
    Traceback (most recent call last):
    cause.errors.InputError: the address of a Ray cluster is HOST:PORT, auto or local, not 'http://host'
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise InputError(f"the address of a Ray cluster is HOST:PORT, {' or '.join(LOCAL)}, not {address!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_tls(address: str, host: str, port: int) -> None:
    """Refuse a cluster with TLS if this process has none, and one without if it has."""
    if os.environ.get("RAY_USE_TLS", "0") != "1":
        if _handshake(_context(), host, port) is None:
            raise InputError(f"the Ray cluster {address!r} uses TLS: set RAY_USE_TLS=1 with its certificates here, too")
        return
    for name in _CERTIFICATES:
        path = os.environ.get(name, "")
        if not Path(path).is_file():
            raise InputError(f"RAY_USE_TLS=1 needs certificates: {name} names {path!r}, which is no file")
    context = _context()
    try:
        context.load_cert_chain(*(os.environ[name] for name in _CERTIFICATES[:2]))
        context.load_verify_locations(os.environ[_CERTIFICATES[2]])
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"the certificates of RAY_TLS_… cannot be used: {error}") from None
    context.verify_mode = ssl.CERT_REQUIRED
    problem = _handshake(context, host, port)
    if isinstance(problem, ssl.SSLCertVerificationError):
        raise InputError(
            f"the certificate of the Ray cluster {address!r} is not of RAY_TLS_CA_CERT: {problem.verify_message}"
        )
    if problem is not None:
        raise InputError(f"the Ray cluster {address!r} does not use TLS, and RAY_USE_TLS=1 is set here")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # whether it is the right cluster is for Ray to find out
    context.set_alpn_protocols(["h2"])
    return context


def _handshake(context: ssl.SSLContext, host: str, port: int) -> Exception | None:
    """Return why a TLS handshake fails; None if it succeeds."""
    try:
        with (
            socket.create_connection((host, port), ANSWER_S) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except OSError as error:  # also those of `ssl`
        return error


def _check_ray(ray: Any, address: str) -> None:
    """Refuse an address at which something listens that does not answer as a Ray cluster does."""
    answered, errors = threading.Event(), list[Exception]()

    def ask() -> None:
        try:
            ray._raylet.GcsClient(address=address)
        except Exception as error:  # of Ray
            errors.append(error)
        finally:
            answered.set()

    threading.Thread(target=ask, daemon=True).start()
    if not answered.wait(RAY_ANSWER_S):
        raise InputError(
            f"cannot join the Ray cluster {address!r}: what listens there does not answer as one within "
            f"{RAY_ANSWER_S:g} seconds"
        )
    if errors and _is_about_tokens(_whole_text(errors[0])):  # joining would take 20 s to say the same
        raise InputError(f"cannot join the Ray cluster {address!r}: {reason_of(errors[0])}")


def reason_of(error: Exception) -> str:
    """Return the first line of an error of Ray that says something, and the way out where it is known."""
    text, low = str(error), _whole_text(error)
    if "version mismatch" in low:
        return "it runs another version of Ray or Python: " + " ".join(text.split())[:200]
    if _is_about_tokens(low):
        own = Path("~/.ray/auth_token").expanduser()  # where Ray looks if no variable is set
        if not any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")) and not own.exists():
            return "a token is needed and none is set: " + _TOKEN
        return "it refuses the token: " + _TOKEN
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def _whole_text(error: Exception) -> str:
    """Return the texts of an error and of those that led to it, in small letters."""
    texts, cause = [], cast("BaseException | None", error)
    while cause is not None:
        texts.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    return "\n".join(texts).lower()


def _is_about_tokens(low: str) -> bool:
    return "unauthenticated" in low or "authentication" in low or "authtoken" in low
