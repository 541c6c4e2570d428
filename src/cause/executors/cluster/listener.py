"""Where the workers of a cluster connect to the device."""

import contextlib
import socket
import threading
from concurrent.futures import Future

from cause.errors import InputError

LEASE_BYTES = 16
INTRODUCTION_S = 5.0
"""A connection that does not name its lease in this time is closed."""
MOST_STRANGERS = 64
"""Connections that have not named their lease yet; further ones are closed."""


class Listener:
    """Accepts connections and hands each to the worker object that expects its lease.

    A connection proves nothing yet: the channel that is built on it does.

    Parameters
    ----------
    host
        The address that workers can reach.
    port
        The port; 0 for any free one.

    Raises
    ------
    InputError
        If the address cannot be listened on.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        try:
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise InputError(f"cannot listen for workers on {host}, port {port}: {error.strerror}") from None
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._expected: dict[bytes, Future[socket.socket]] = {}
        self._lock = threading.Lock()
        self._strangers = threading.Semaphore(MOST_STRANGERS)
        threading.Thread(target=self._accept, daemon=True, name="cause-cluster-listener").start()

    def expect(self, lease: bytes) -> "Future[socket.socket]":
        """Return the future connection of a lease."""
        with self._lock:
            return self._expected.setdefault(lease, Future())

    def give_up(self, lease: bytes) -> None:
        """Stop waiting for the connection of a lease; close one that is there and that nobody took."""
        with self._lock:
            expected = self._expected.pop(lease, None)
        if expected is not None and not expected.cancel() and expected.done():
            with contextlib.suppress(Exception):
                expected.result().close()

    def close(self) -> None:
        """Accept no more connections."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._introduce, args=(connection,), daemon=True).start()

    def _introduce(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(INTRODUCTION_S)
            lease = bytearray()
            while len(lease) < LEASE_BYTES and (more := connection.recv(LEASE_BYTES - len(lease))):
                lease += more
            connection.settimeout(None)
            with self._lock:
                expected = self._expected.get(bytes(lease))
                if expected is not None and not expected.done():
                    expected.set_result(connection)
                    return
            connection.close()
        except OSError:
            connection.close()
        finally:
            self._strangers.release()
