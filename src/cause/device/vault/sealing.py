"""The two uses of a data key: sealing bytes, and committing to a digest without revealing it.

Each use has a key of its own, derived from the data key; once that is destroyed, neither can be derived again. A
process that has one data key needs nothing else of the vault. Keys may be any bytes-like object; derived keys are
overwritten after use.
"""

import hmac
import os
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.device.vault.secrets_in_memory import Buffer, wiping
from cause.errors import VaultError

KEY_BYTES = 32
_VERSION = b"\x01"
_NONCE_BYTES = 12
_TAG_BYTES = 16


def derive(key: Buffer, purpose: str) -> bytes:
    """Derive the key for one purpose; the keys of two purposes are independent."""
    return hmac.digest(key, f"cause vault 1: {purpose}".encode(), "sha256")


def seal(key: Buffer, plaintext: Buffer, aad: bytes = b"") -> bytes:
    """Encrypt bytes so that only the same key and the same `aad` open them.

    The nonce is random: of 2^32 seals under one key, one in 2^32 repeats one.

    >>> blob = seal(b"k" * 32, b"secret", b"block 7")
    >>> open_sealed(b"k" * 32, blob, b"block 7")
    b'secret'
    """
    with wiping(derive(key, "seal")) as derived:
        return seal_derived(derived, plaintext, aad)


def open_sealed(key: Buffer, blob: Buffer, aad: bytes = b"") -> bytes:
    """Decrypt sealed bytes; VaultError if they are damaged, or key or `aad` are not those of the sealing."""
    with wiping(derive(key, "seal")) as derived:
        return open_derived(derived, blob, aad)


def seal_derived(derived: Buffer, plaintext: Buffer, aad: bytes) -> bytes:
    """Seal as `seal` does, with the key that `derive` made for sealing."""
    nonce = os.urandom(_NONCE_BYTES)
    return _VERSION + nonce + AESGCM(derived).encrypt(nonce, plaintext, _VERSION + aad)


def open_derived(derived: Buffer, blob: Buffer, aad: bytes) -> bytes:
    """Open as `open_sealed` does, with the key that `derive` made for sealing."""
    if blob[:1] != _VERSION or len(blob) < 1 + _NONCE_BYTES + _TAG_BYTES:
        first = bytes(blob[:1]).hex() or "none"
        raise VaultError(f"not sealed bytes of this version: {len(blob)} bytes, the first is {first}")
    try:
        rest = memoryview(blob)[1:]
        return AESGCM(derived).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _VERSION + aad)
    except InvalidTag:
        raise VaultError("sealed bytes do not open: they were damaged, or belong to another key or place") from None


def joint_key(keys: Iterable[Buffer]) -> bytes:
    """Derive a key from several keys, in this order (HKDF's first step, RFC 5869).

    >>> joint_key([b"a" * 32, b"b" * 32]) == joint_key([b"b" * 32, b"a" * 32])
    False
    """
    joint = hmac.new(b"cause vault 1: joint", digestmod="sha256")
    for key in keys:
        joint.update(key)
    return joint.digest()


def commitment(key: Buffer, digest: bytes) -> bytes:
    """Commit to a digest. Without the key a guessed digest cannot be checked."""
    with wiping(derive(key, "commit")) as own:
        return hmac.digest(own, digest, "sha256")
