"""A sealed connection between the device and one worker.

Both ends make a key pair for this connection alone. The public keys travel through Ray, whose tokens and TLS say who
may join the cluster. The secret that follows from them exists in the memory of these two processes only, and nothing
that was recorded can be opened once both have ended. Everything is sealed with AES-256-GCM under the key of its
direction, with its number as nonce, so that nothing can be changed, repeated, left out or reordered.

A message of more than 16 KB is cut into parts. Other messages, such as renewals and the order to end, pass between
them, so that a worker with a slow link keeps its lease while it receives samples, and hears at once that they were
forgotten. A message is handed on when it has arrived as a whole.
"""

import contextlib
import socket
import struct
from dataclasses import dataclass
from threading import Lock

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from cause.executors.cluster.pacing import LEAST_PART, MOST_PART, Finished, Pace

SMALL = LEAST_PART
"""Messages of up to so many bytes are not cut into parts."""
MOST_BYTES = 1 << 40
"""A message that says it is larger is refused."""
_PART, _CONFIRMED = 254, 255  # kinds: a part of the large message that was announced; one part has been received
_HEAD = struct.Struct(">BQ")  # the kind of a message, and the bytes of its body
_TAG_BYTES = 16


class SealBroken(OSError):
    """What arrived was not sealed by the other end of the channel."""


class Channel:
    """Sends and receives messages over a connected socket.

    Several threads may send; one thread receives.

    Parameters
    ----------
    connection
        A connected stream socket, which the channel closes.
    own
        The private key of this end, for this channel alone.
    other
        The public key of the other end.
    lease
        The lease that the connection belongs to: both ends must name the same.
    is_device
        True at the device's end, False at the worker's.
    """

    def __init__(
        self, connection: socket.socket, own: X25519PrivateKey, other: bytes, lease: bytes, *, is_device: bool
    ) -> None:
        self.set_options(connection)
        self._socket = connection
        secret = own.exchange(X25519PublicKey.from_public_bytes(other))
        keys = HKDF(SHA256(), length=64, salt=None, info=b"cause cluster 2" + lease).derive(secret)
        mine, theirs = (keys[:32], keys[32:]) if is_device else (keys[32:], keys[:32])
        self._sealer, self._opener = AESGCM(mine), AESGCM(theirs)
        self._sent = self._received = 0
        self._sending, self._sending_large = Lock(), Lock()
        self._finished = False
        self._pace = Pace()
        self._large: _Large | None = None  # the message whose parts are arriving

    @staticmethod
    def set_options(connection: socket.socket) -> None:
        """Let small messages, such as renewals, leave at once."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: int, body: bytes | bytearray | memoryview = b"") -> None:
        """Send one message.

        Raises
        ------
        Finished
            If the last message was sent, also while parts of this one were.
        OSError
            If the connection is closed.
        """
        if len(body) <= SMALL:
            self._send(kind, len(body), body)
            return
        with self._sending_large:
            self._send(kind, len(body))
            rest = memoryview(body)
            while rest:
                size = self._pace.next(len(rest))
                self._send(_PART, size, rest[:size])
                rest = rest[size:]

    def finish(self, kind: int) -> None:
        """Send a last message without a body. Of a message that another thread sends, no further part is sent."""
        with self._sending:
            self._finished = True
            self._write(_HEAD.pack(kind, 0))
        self._pace.stop()

    def receive(self) -> tuple[int, bytearray]:
        """Return the kind and the body of the next message.

        Raises
        ------
        EOFError
            If the other end closed the connection.
        SealBroken
            If the message was not sealed by the other end, or is none that it may send.
        OSError
            If the connection broke.
        """
        while True:
            kind, size = _HEAD.unpack(self._read(_HEAD.size))
            if kind == _CONFIRMED:
                self._confirmed()
            elif kind == _PART:
                if (whole := self._receive_part(size)) is not None:
                    return whole
            elif size > SMALL:
                if self._large is not None or size > MOST_BYTES:
                    raise SealBroken(f"an unexpected message of {size:,} bytes")
                self._large = _Large(kind, bytearray(size))
            else:
                return kind, bytearray(self._read(size) if size else b"")

    def _confirmed(self) -> None:
        try:
            self._pace.confirm()
        except ValueError as error:
            raise SealBroken(str(error)) from None

    def _receive_part(self, size: int) -> tuple[int, bytearray] | None:
        """Receive and confirm a part; return its message if that was the last one."""
        large = self._large
        if large is None or not 0 < size <= min(MOST_PART, len(large.body) - large.received):
            raise SealBroken(f"an unexpected part of {size:,} bytes")
        large.body[large.received : large.received + size] = self._read(size)
        large.received += size
        with contextlib.suppress(OSError):  # a connection that broke is noticed by the thread that receives
            self._send(_CONFIRMED, 0)
        if large.received < len(large.body):
            return None
        self._large = None
        return large.kind, large.body

    def _send(self, kind: int, size: int, body: bytes | bytearray | memoryview = b"") -> None:
        with self._sending:
            if self._finished:
                raise Finished("the last message of this channel was sent")
            self._write(_HEAD.pack(kind, size))
            if body:
                self._write(body)

    def _write(self, plain: bytes | bytearray | memoryview) -> None:
        nonce = self._sent.to_bytes(12, "big")
        self._sent += 1
        self._socket.sendall(self._sealer.encrypt(nonce, plain, None))

    def _read(self, size: int) -> bytes:
        sealed = bytearray(size + _TAG_BYTES)
        rest = memoryview(sealed)
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError("the other end closed the connection")
            rest = rest[count:]
        nonce = self._received.to_bytes(12, "big")
        self._received += 1
        try:
            return self._opener.decrypt(nonce, sealed, None)
        except InvalidTag:
            raise SealBroken("a message that the other end did not seal") from None

    def shut(self) -> None:
        """End the connection: threads that send or receive get an error."""
        self._pace.stop()
        with contextlib.suppress(OSError):  # the other end was first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket, and forget the keys and what has arrived of a message."""
        self._pace.stop()
        self._socket.close()
        self._large = None
        del self._sealer, self._opener


@dataclass
class _Large:
    """A message that arrives in parts."""

    kind: int
    body: bytearray
    received: int = 0


def new_key() -> X25519PrivateKey:
    """Return the private key of one end of a new channel."""
    return X25519PrivateKey.generate()
