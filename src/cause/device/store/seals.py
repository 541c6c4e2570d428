"""What the ledger says of contents, sealed like the contents.

A digest of samples, a sub-model's identity or a count of classes lets whoever guesses a sample check the guess. So none
of them lies in the tables as it is, where an old copy of the ledger would keep it: once the keys are destroyed, such a
copy tells nothing. What is said of an upload takes the keys of all its blocks to open, and to forget any of its samples
destroys one of them. A segment's digests have a key of the segment, which is replaced whenever the segment loses a
sample. A sub-model's identity has the sub-model's key.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cause.common.hashing import pack
from cause.device.vault import Vault, open_sealed, seal
from cause.device.vault.secrets_in_memory import Buffer
from cause.engine.samples import SegmentKey


def upload_key(vault: Vault, blocks: Iterable[bytes]) -> bytes:
    """The key of what is said of an upload; an error if that of one of its blocks is gone."""
    return vault.joint_key(blocks)


NAME_BYTES = 32
"""A name is filled up to a multiple of this before it is sealed: an old ledger does not tell how long it was."""


def name_bytes(user: str) -> bytes:
    """A user's name, to be sealed.

    >>> len(name_bytes("ann")), name_of(name_bytes("ann"))
    (32, 'ann')
    """
    return padded(user.encode(), NAME_BYTES, b"\0")


def name_of(plain: bytes) -> str:
    """The name that `name_bytes` made; earlier versions did not fill it up."""
    return plain.rstrip(b"\0").decode()


def padded(plain: bytes, multiple: int, fill: bytes) -> bytes:
    """Fill up to a multiple of so many bytes."""
    return plain + fill * (-len(plain) % multiple)


def seal_digest(key: bytes, piece: SegmentKey, digest: bytes) -> bytes:
    """The digest of one piece of an upload, as ledgers of formats 2 to 4 hold it."""
    return seal(key, digest, pack("piece", *piece))


def open_digest(key: bytes, piece: SegmentKey, sealed: bytes) -> bytes:
    return open_sealed(key, sealed, pack("piece", *piece))


def seal_digests(key: Buffer, segment: SegmentKey, rows: NDArray[np.void]) -> bytes:
    """The digests of all pieces of a segment, under the segment's own key, for the ledger."""
    return seal(key, rows.tobytes(), pack("digests", *segment))


def open_digests(vault: Vault, name: bytes, segment: SegmentKey, sealed: bytes) -> bytes:
    return vault.open_sealed(name, sealed, pack("digests", *segment))


def seal_classes(key: bytes, labels: NDArray[np.int64]) -> bytes:
    """How many samples of each class a piece has, for the history.

    The labels themselves, in order: the length of a table of counts would tell how many classes there are.
    """
    return seal(key, np.sort(labels).astype("<i8").tobytes(), b"classes")


def open_classes(key: bytes, sealed: bytes) -> dict[int, int]:
    """Counts by class.

    >>> open_classes(b"k" * 32, seal_classes(b"k" * 32, np.array([3, 0, 3])))
    {0: 1, 3: 2}
    """
    labels = np.frombuffer(open_sealed(key, sealed, b"classes"), dtype="<i8")
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def seal_identity(vault: Vault, name: bytes, identity: bytes) -> bytes:
    """The identity of the sub-model that this key seals, for the ledger."""
    return vault.seal(name, identity, b"identity")


def open_identity(vault: Vault, name: bytes, sealed: bytes) -> bytes:
    return vault.open_sealed(name, sealed, b"identity")
