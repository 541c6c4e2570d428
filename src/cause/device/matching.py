"""Finds the stored samples of a user that equal given rows.

The rows are compared with the stored samples and kept nowhere: the request that follows names handles or positions.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common import positions as pos
from cause.common.zeroize import wipe_arrays
from cause.engine.arguments import array_of
from cause.engine.arrays import checked, raw
from cause.engine.arrivals import check_arrays, spec_from_settings, spec_of
from cause.engine.requests import Request
from cause.engine.samples import WithArrays
from cause.engine.summing import SummingLearner
from cause.errors import RequestError

if TYPE_CHECKING:
    from cause.device.core import DeviceCore

Rows = ArrayLike | tuple[ArrayLike, ArrayLike | None]
"""Inputs, or inputs and labels."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The samples of a user that equal given rows."""

    user: str
    handles: tuple[str, ...]
    """Of all such samples, with a home; identical samples are all among them."""
    samples: tuple[tuple[int, int], ...]
    """The same without a home: (round, position)."""
    rows: int
    unmatched: tuple[int, ...]
    """Numbers of the given rows that equal no sample of the user."""

    def request(self, nonce: str | None = None) -> Request:
        """Return the request that forgets all of these samples; raise an error if there are none."""
        if not self.handles and not self.samples:
            raise RequestError(
                f"none of the {self.rows:,} rows equals a sample that is held of user {self.user!r}: nothing to forget"
            )
        return Request(self.user, None, None, self.samples or None, self.handles or None, nonce)


class RowIndex:
    """An index of rows by a hash of their values, whose random key only this object has.

    A row equals a sample if an upload of it would have been stored with the same values: numbers of another type are
    converted to that of the sample, which must lose nothing unless the sample's are floats.

    >>> rows = RowIndex(np.array([[1, 2], [3, 4]]), None)
    >>> list(rows.equal(np.array([[3.0, 4.0], [9.0, 9.0]], dtype=np.float32), np.array([0, 0])))
    [(0, [1])]
    """

    def __init__(self, x: NDArray[Any], y: NDArray[np.int64] | None) -> None:
        self._x, self._y, self._key = x.reshape(len(x), -1), y, os.urandom(32)
        self._tables: dict[np.dtype[Any], dict[bytes, list[int]]] = {}

    def equal(self, x: NDArray[Any], labels: NDArray[np.int64]) -> Iterator[tuple[int, list[int]]]:
        """Return the places of the samples that equal some of the rows, each with the numbers of those rows."""
        flat = x.reshape(len(x), -1)
        if flat.shape[1] != self._x.shape[1]:
            return
        if flat.dtype not in self._tables:
            self._tables[flat.dtype] = self._table(flat.dtype)
        table = self._tables[flat.dtype]
        for place, code in enumerate(self._codes(flat)):
            rows = table.get(code, [])
            if self._y is not None:
                rows = [row for row in rows if self._y[row] == labels[place]]
            if rows:
                yield place, rows

    def _table(self, dtype: np.dtype[Any]) -> dict[bytes, list[int]]:
        with np.errstate(all="ignore"):
            made = self._x.astype(dtype)
        fits = np.ones(len(made), dtype=bool) if dtype.kind == "f" else (made == self._x).all(axis=1)
        table: dict[bytes, list[int]] = {}
        for row, code in enumerate(self._codes(made)):
            if fits[row]:
                table.setdefault(code, []).append(row)
        wipe_arrays(made)
        return table

    def _codes(self, x: NDArray[Any]) -> list[bytes]:
        plain = x + x.dtype.type(0) if x.dtype.kind == "f" else x  # -0.0 and 0.0 are equal
        codes = [blake2b(raw(row), key=self._key, digest_size=32).digest() for row in plain]
        if plain is not x:
            wipe_arrays(plain)
        return codes


def match(device: "DeviceCore", user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
    """Compare rows with all that is held of a user, learned or staged.

    Parameters
    ----------
    device
        The device; its lock is held.
    user
        Whose samples.
    x, y
        Inputs and labels to look for; without labels the inputs alone count.
    """
    count = len(np.atleast_1d(array_of("the rows to match", x)))
    inputs, labels = checked(user, x, np.zeros(count, dtype=np.int64) if y is None else y)
    learner = device.learner
    if isinstance(learner, SummingLearner):  # the recorded form is compared: inputs if they are kept, or else features
        spec = spec_of(spec_from_settings(None, None), learner, device.ledger, device.journal.staged_kind)
        inputs, labels = check_arrays(user, inputs, labels, spec, learner)
        inputs = _comparable(learner, inputs)
    rows, matched = RowIndex(inputs, None if y is None else labels), set[int]()
    handles: list[str] = []
    samples: list[tuple[int, int]] = []
    for round_, positions, held_x, held_y, held_handles in _held(device, user):
        compared = _comparable(learner, held_x) if isinstance(learner, SummingLearner) else held_x
        for place, equal in rows.equal(compared, held_y):
            matched.update(equal)
            if held_handles is not None:
                handles.append(held_handles[place].tobytes().hex())
            else:
                samples.append((round_, int(positions[place])))
        wipe_arrays(held_x, compared)
    wipe_arrays(inputs)
    unmatched = tuple(row for row in range(count) if row not in matched)
    return Matched(user, tuple(handles), tuple(samples), count, unmatched)


def _comparable(learner: SummingLearner, recorded: NDArray[Any]) -> NDArray[Any]:
    """Return what two recorded samples must share to be equal: their inputs, whose dtypes may differ, or features."""
    inputs = learner.inputs_of(recorded)
    return recorded if inputs is None else inputs


def inputs_and_labels(rows: Rows, others: Sequence[object]) -> tuple[ArrayLike, ArrayLike | None]:
    """Return the inputs and labels that a call of `Cause.forget` names samples by; labels are None unless given.

    Parameters
    ----------
    rows
        Inputs, or inputs and labels.
    others
        What else the call named, which must be nothing.

    Raises
    ------
    RequestError
        If the call named samples in another way, too.
    """
    if any(other is not None for other in others):
        raise RequestError("name samples by the rows that they match, or by rounds, positions or handles, not by both")
    return rows if isinstance(rows, tuple) and len(rows) == 2 else (rows, None)


_Part = tuple[int, NDArray[np.int64], NDArray[Any], NDArray[np.int64], "NDArray[np.uint8] | None"]


def _held(device: "DeviceCore", user: str) -> Iterator[_Part]:
    """Yield what is held of a user, an upload at a time: round, positions, inputs, labels and handles, all copies."""
    ledger, home = device.ledger, device.home
    for name in ledger.names_like(user):
        for round_ in ledger.rounds_of(name):
            if home is not None:
                stored = home.ledger.upload(name, round_)
                x, y = stored.arrays(stored.positions)
                yield round_, pos.array(stored.positions), x, y, stored.handles(stored.positions)
                continue
            for key, held in ledger.pieces_of(name, round_):
                upload = ledger.lineage(key.shard)[key].piece(name).upload
                if not isinstance(upload, WithArrays):
                    raise RequestError("samples of a trace have no contents that rows could equal")
                x, y = upload.arrays(held)
                yield round_, pos.array(held), np.array(x), y, None
    for part in [] if home is None else home.inbox.contents(user):
        yield 0, pos.array(range(len(part))), part.x, part.labels, part.handles
