"""A hash of a set that is kept up to date: to add or to remove an element takes the same time for any size of the set.

This is LtHash (Bellare and Micciancio 1997, Lewi and others 2019): SHAKE-256 makes 1,024 numbers of 16 bits of every
element, and the hash of a set is their sum, modulo 2^16 each. The order in which elements came and went leaves no
trace. To find two sets with the same hash is as hard as a short vector problem in a lattice, also for somebody who may
choose the elements; a sum of plain SHA-256 digests would not be that strong.
"""

from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray


class SetHash:
    """The hash of a set of byte strings.

    Parameters
    ----------
    value
        The hash to go on from; that of the empty set by default.

    Examples
    --------
    >>> one, other = SetHash(), SetHash()
    >>> for element in (b"a", b"b", b"c"):
    ...     one.add(element)
    >>> one.remove(b"b")
    >>> other.add(b"c"), other.add(b"a")
    (None, None)
    >>> one.value == other.value, len(one.value), SetHash(one.value).value == one.value
    (True, 2048, True)
    """

    BYTES = 2_048

    def __init__(self, value: bytes = bytes(BYTES)) -> None:
        self._lanes = np.frombuffer(value, dtype="<u2").copy()

    def add(self, element: bytes) -> None:
        """Add an element that is not in the set."""
        self._lanes += _expanded(element)

    def remove(self, element: bytes) -> None:
        """Remove an element that is in the set."""
        self._lanes -= _expanded(element)

    @property
    def value(self) -> bytes:
        """The hash, 2,048 bytes."""
        return self._lanes.tobytes()

    @classmethod
    def is_value(cls, value: bytes) -> bool:
        """Return whether bytes have the length of such a hash."""
        return len(value) == cls.BYTES


def _expanded(element: bytes) -> NDArray[np.uint16]:
    return np.frombuffer(shake_256(b"cause: element of a set\0" + element).digest(SetHash.BYTES), dtype="<u2")
