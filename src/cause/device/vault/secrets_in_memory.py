"""Overwrite keys in memory once they are no longer used.

CPython never clears what it frees: a key stays in the process's memory until something else happens to be put there.
The vault keeps keys in `bytearray`s, which can be overwritten. Results of `hmac`, `os.urandom` and AES-GCM are `bytes`,
which Python does not allow to be overwritten; `wipe` does so all the same, on CPython only.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

Buffer = bytes | bytearray | memoryview
_BYTES_HEAD = bytes.__basicsize__ - 1  # the characters follow the object's head, and one zero ends them


def wipe(*secrets: bytes | bytearray) -> None:
    r"""Overwrite secrets with zeros.

    A `bytes` object must be one that the caller made and that nothing else refers to: literals and arguments may be
    shared. On other interpreters than CPython `bytes` are left as they are.

    >>> key = bytearray(b"secret")
    >>> wipe(key)
    >>> key
    bytearray(b'\x00\x00\x00\x00\x00\x00')
    """
    for secret in secrets:
        if isinstance(secret, bytearray):
            secret[:] = bytes(len(secret))
        elif len(secret) > 1 and sys.implementation.name == "cpython":  # shorter ones are shared by all
            ctypes.memset(id(secret) + _BYTES_HEAD, 0, len(secret))


@contextmanager
def wiping(secret: bytes | bytearray) -> Iterator[bytes | bytearray]:
    """Lend a secret to a block of code and overwrite it afterwards."""
    try:
        yield secret
    finally:
        wipe(secret)
