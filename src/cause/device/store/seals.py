"""Seals for values in the ledger that describe samples or sub-models.

With a digest of samples, a sub-model's identity or a count of classes, a guessed sample could be checked. So none of
them is in the tables in plain form, where an old copy of the ledger would keep it: once the keys are destroyed, such a
copy reveals nothing. Values of an upload need the keys of all its blocks, and forgetting any of its samples destroys
one of them. A segment's digests have a key of the segment, which is replaced whenever the segment loses a sample. A
sub-model's identity has the sub-model's key.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cause.common.hashing import pack
from cause.device.vault import Vault, open_sealed, seal
from cause.device.vault.secrets_in_memory import Buffer
from cause.engine.samples import SegmentKey


def upload_key(vault: Vault, blocks: Iterable[bytes]) -> bytes:
    """Return the key of values that describe an upload; VaultError if the key of one of its blocks is destroyed."""
    return vault.joint_key(blocks)


DIGEST_ROW = np.dtype([("pseudonym", "<i8"), ("digest", "u1", (32,))])
"""One piece of a segment's sealed list of digests; the list is in the order of the users' names."""
NAME_BYTES = 32
"""A name is padded to a multiple of this before it is sealed, so that its length stays hidden."""


def name_bytes(user: str) -> bytes:
    """Return a user's name, padded for sealing.

    >>> len(name_bytes("ann")), name_of(name_bytes("ann"))
    (32, 'ann')
    """
    return padded(user.encode(), NAME_BYTES, b"\0")


def name_of(plain: bytes) -> str:
    """Return the name that `name_bytes` padded; earlier versions did not pad it."""
    return plain.rstrip(b"\0").decode()


def padded(plain: bytes, multiple: int, fill: bytes) -> bytes:
    """Pad bytes to a multiple of this length."""
    return plain + fill * (-len(plain) % multiple)


def seal_digest(key: bytes, piece: SegmentKey, digest: bytes) -> bytes:
    """Seal the digest of one piece of an upload, as in ledgers of formats 2 to 4."""
    return seal(key, digest, pack("piece", *piece))


def digest_rows(pairs: Sequence[tuple[int, bytes]]) -> NDArray[np.void]:
    """Return a segment's list of digests, from (pseudonym, digest) pairs in the order of the users' names."""
    rows = np.zeros(len(pairs), dtype=DIGEST_ROW)
    rows["pseudonym"] = [pseudonym for pseudonym, _ in pairs]
    rows["digest"] = np.frombuffer(b"".join(value for _, value in pairs), dtype=np.uint8).reshape(-1, 32)
    return rows


def seal_digests(key: Buffer, segment: SegmentKey, rows: NDArray[np.void]) -> bytes:
    """Seal the digests of all pieces of a segment under the segment's own key."""
    return seal(key, rows.tobytes(), pack("digests", *segment))


def open_digests(vault: Vault, name: bytes, segment: SegmentKey, sealed: bytes) -> bytes:
    """Open what `seal_digests` sealed; VaultError if it is damaged or the key is destroyed."""
    return vault.open_sealed(name, sealed, pack("digests", *segment))


def seal_classes(key: bytes, labels: NDArray[np.int64]) -> bytes:
    """Seal how many samples of each class a piece has, for the history.

    The sorted labels are sealed: the length of a table of counts would tell how many classes there are.
    """
    return seal(key, np.sort(labels).astype("<i8").tobytes(), b"classes")


def open_classes(key: bytes, sealed: bytes) -> dict[int, int]:
    """Open what `seal_classes` sealed: counts by class.

    >>> open_classes(b"k" * 32, seal_classes(b"k" * 32, np.array([3, 0, 3])))
    {0: 1, 3: 2}
    """
    labels = np.frombuffer(open_sealed(key, sealed, b"classes"), dtype="<i8")
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def seal_identity(vault: Vault, name: bytes, identity: bytes) -> bytes:
    """Seal the identity of a sub-model under the sub-model's own key."""
    return vault.seal(name, identity, b"identity")


def open_identity(vault: Vault, name: bytes, sealed: bytes) -> bytes:
    """Open what `seal_identity` sealed; VaultError if it is damaged or the key is destroyed."""
    return vault.open_sealed(name, sealed, b"identity")
