"""Digests, seeds and keyed hashes: everything random in CAUSE is a function of the root seed and a name.

Nothing here keeps state, so no choice depends on what was drawn before it (the law, leak 6).
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Part = str | int | bytes
Hashes = NDArray[np.uint64]


def pack(*parts: Part) -> bytes:
    """Join parts so that different parts never give the same bytes.

    >>> pack("ab", "c") == pack("a", "bc") or pack("a", "b") == pack("as:b") or pack(1) == pack("1")
    False
    """
    out = []
    for part in parts:
        if isinstance(part, bytes):
            out.append(b"b%d:%b" % (len(part), part))
        elif isinstance(part, str):
            data = part.encode("utf-8", "surrogatepass")  # any text a caller can hold has an id
            out.append(b"s%d:%b" % (len(data), data))
        else:
            out.append(b"i%d;" % part)
    return b"".join(out)


def pack_digests(digests: Sequence[bytes]) -> bytes:
    """Return `pack(*digests)` for digests of 32 bytes, several times as fast.

    >>> pack_digests([bytes(32), b"a" * 32]) == pack(bytes(32), b"a" * 32), pack_digests([]) == pack()
    (True, True)
    """
    return b"".join([b"b32:", b"b32:".join(digests)]) if digests else b""


def digest(*parts: Part) -> bytes:
    """Return a collision-resistant digest (SHA-256) of the parts; identities are such digests."""
    return hashlib.sha256(pack(*parts)).digest()


def root_key(seed: int) -> bytes:
    """Return the key of a seed from which all other keys are derived."""
    return digest("cause root", seed)


def derive(key: bytes, *parts: Part) -> bytes:
    """Derive the key of a purpose, a shard or a round: the parts name it."""
    return hashlib.blake2b(pack(*parts), key=key, digest_size=32).digest()


def training_seed(key: bytes, shard: int, round_: int, slice_: int) -> bytes:
    """Return the seed of a sub-model's training; a replay gets the same one."""
    return hashlib.blake2b(b"%d/%d/%d" % (shard, round_, slice_), key=key, digest_size=32).digest()


def keyed_int(key: bytes, *parts: Part) -> int:
    """Return a number below 2^64 that only the holder of the key can predict."""
    return int.from_bytes(hashlib.blake2b(pack(*parts), key=key, digest_size=8).digest(), "big")


def scatter(base: int, positions: NDArray[np.int64]) -> Hashes:
    """Return hashes of many positions at once from one keyed number, by the finaliser of splitmix64.

    >>> [int(h) % 4 for h in scatter(7, np.arange(6))] == [int(h) % 4 for h in scatter(7, np.arange(6))]
    True
    """
    z = np.uint64(base) + (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
