"""A sealed connection between the device and one worker.

Both ends make a key pair for this connection alone. The public keys travel through Ray, whose tokens and TLS say who
may join the cluster. The secret that follows from them exists in the memory of these two processes only, and nothing
that was recorded can be opened once both have ended. Every message is cut into chunks. Each is sealed with AES-256-GCM
under the key of its direction, with its number as nonce, so that none can be changed, repeated, left out or reordered.
"""

import contextlib
import socket
import struct
from threading import Lock

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

CHUNK = 1 << 20
"""The bytes of a message that are sealed at a time."""
MOST_BYTES = 1 << 40
"""A message that says it is larger is refused."""
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
        keys = HKDF(SHA256(), length=64, salt=None, info=b"cause cluster 1" + lease).derive(secret)
        mine, theirs = (keys[:32], keys[32:]) if is_device else (keys[32:], keys[:32])
        self._sealer, self._opener = AESGCM(mine), AESGCM(theirs)
        self._sent = self._received = 0
        self._sending = Lock()

    @staticmethod
    def set_options(connection: socket.socket) -> None:
        """Let small messages, such as renewals, leave at once."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: int, body: bytes | bytearray | memoryview = b"") -> None:
        """Send one message; an `OSError` if the connection is closed."""
        with self._sending:
            self._write(_HEAD.pack(kind, len(body)))
            rest = memoryview(body)
            for start in range(0, len(rest), CHUNK):
                self._write(rest[start : start + CHUNK])

    def receive(self) -> tuple[int, bytearray]:
        """Return the kind and the body of the next message.

        Raises
        ------
        EOFError
            If the other end closed the connection.
        SealBroken
            If the message was not sealed by the other end.
        OSError
            If the connection broke.
        """
        kind, size = _HEAD.unpack(self._read(_HEAD.size))
        if size > MOST_BYTES:
            raise SealBroken(f"a message of {size:,} bytes")
        body = bytearray(size)
        for start in range(0, size, CHUNK):
            part = self._read(min(CHUNK, size - start))
            body[start : start + len(part)] = part
        return kind, body

    def _write(self, plain: bytes | memoryview) -> None:
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
            return self._opener.decrypt(nonce, bytes(sealed), None)
        except InvalidTag:
            raise SealBroken("a message that the other end did not seal") from None

    def shut(self) -> None:
        """End the connection: threads that send or receive get an error."""
        with contextlib.suppress(OSError):  # the other end was first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket, and forget the keys."""
        self._socket.close()
        del self._sealer, self._opener


def new_key() -> X25519PrivateKey:
    """Return the private key of one end of a new channel."""
    return X25519PrivateKey.generate()
