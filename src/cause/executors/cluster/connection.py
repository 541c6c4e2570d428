"""Joins a Ray cluster, and refuses one that is not protected."""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cause.errors import InputError
from cause.executors.cluster.reach import check_reachable, reason_of

LOGGER = logging.getLogger(__name__)
EXTRA = "Ray is not installed: pip install 'cause[ray]'"
JOIN_S = 60


def imported_ray() -> Any:
    """Return the module `ray`; an `InputError` that names the extra if it is missing."""
    # without it a call of Ray that comes too late, as at the end of the program, starts a cluster on this machine
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        import ray
    except ImportError:
        raise InputError(EXTRA) from None
    return ray


def join(address: str) -> Any:
    """Join the cluster at an address, unless this process has joined one, and return the module `ray`.

    Raises
    ------
    InputError
        If there is no such cluster, it does not answer, it runs another version, or it refuses the token.
    """
    ray = imported_ray()
    if ray.is_initialized():
        return ray
    with _logged_errors():
        check_reachable(ray, address)
    _record_no_command(ray)
    try:
        with _logged_errors():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace="cause")
    except Exception as error:
        raise InputError(f"cannot join the Ray cluster {address!r}: {reason_of(error)}") from None
    _print_no_deaths()
    return ray


@contextmanager
def _logged_errors() -> Iterator[None]:
    """Log what is written to the standard error meanwhile: Ray repeats each second there why it cannot connect."""
    try:
        kept = os.dup(2)
    except OSError:  # a program without standard error
        yield
        return
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            written.seek(0)
            for line in written.read().decode(errors="replace").splitlines():
                LOGGER.info("%s", line)


def _record_no_command(ray: Any) -> None:
    """Let Ray record no command line of this process: one such as `cause forget HOME --user NAME` names a user.

    Ray keeps it in the memory of the cluster's head, and shows it on its dashboard. It has no setting for that; its
    version is pinned, and a test looks for the name in Ray's processes and files.
    """
    ray._private.utils.get_entrypoint_name = lambda: "cause"


def _print_no_deaths() -> None:
    """Log what Ray says of ended workers instead of printing it: to end them is how samples are forgotten.

    Ray prints it to the standard output, among the JSON of a command, and has no setting for it. Its version is pinned,
    and a test sees that nothing is printed.
    """
    from ray._private import worker

    def log(data: Mapping[str, Any], ignore_prefix: bool) -> None:
        for line in data["lines"]:
            LOGGER.info("%s: %s", data["pid"], line)

    worker.print_to_stdstream = log


def require_protection(address: str, nodes: list[str], *, anew: bool = False) -> None:
    """Refuse a cluster of several machines without token authentication and TLS.

    Parameters
    ----------
    address
        The address of the cluster.
    nodes
        The addresses of its nodes.
    anew
        Try it again, although a cluster at this address was protected before: it may be another one.

    Raises
    ------
    InputError
        If a node is on another machine, and the cluster is not protected.
    """
    if anew:
        with _refusing_lock:
            _refusing.discard(address)
    elsewhere = sorted(node for node in nodes if not is_here(node))
    if not elsewhere:
        return
    if os.environ.get("RAY_USE_TLS", "0") != "1":
        raise InputError(
            f"node {elsewhere[0]} of the Ray cluster is on another machine, and TLS is off: set RAY_USE_TLS=1 with its "
            "certificates on every node and here"
        )
    if os.environ.get("RAY_AUTH_MODE") != "token" or accepts_strangers(address):
        raise InputError(
            f"node {elsewhere[0]} of the Ray cluster is on another machine, and the cluster takes commands without a "
            "token: start every node with RAY_AUTH_MODE=token, and set it here"
        )


def is_here(address: str) -> bool:
    """Return whether an address belongs to this machine: only then a socket can be bound to it.

    >>> is_here("127.0.0.1"), is_here("192.0.2.1")
    (True, False)
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True


def accepts_strangers(address: str) -> bool:
    """Return whether a process without a token can talk to the cluster, by trying it.

    A cluster that refused once is not tried again by this process: every start of a worker would cost a second.
    """
    with _refusing_lock:
        if address not in _refusing and not _refuses(address):
            return True
        _refusing.add(address)
        return False


_refusing: set[str] = set()  # the clusters that refused a process without a token
_refusing_lock = threading.Lock()
_REFUSED = 7
_STRANGER = f"""
import sys
from ray._raylet import GcsClient  # `ray.init` would take 20 s to say the same
try:
    GcsClient(address=sys.argv[1])
except Exception:
    sys.exit({_REFUSED})
"""


def _refuses(address: str) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _STRANGER, address],
            env=environment, capture_output=True, timeout=JOIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return tried.returncode == _REFUSED
