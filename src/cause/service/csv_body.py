"""Samples as a table: CSV with a header, a column of labels, perhaps one of users, and columns of numbers."""

import csv
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.table import without_underscore
from cause.service.problems import ProblemError

LABEL, USER = "label", "user"
MOST_COLUMNS = 2**20
PARSED_BYTES = 16
"""Memory that a byte of a table may take once it is parsed: a text of one digit and its comma."""


def read_table(
    body: bytes, most_rows: int, most_bytes: int, *, labels: bool | None, users: bool
) -> tuple[NDArray[np.float32], NDArray[np.int64] | None, list[str]]:
    r"""Return the inputs, labels and users of a table.

    The first line names the columns. `label` is the column of labels, `user` that of users; all others are values of
    the input, in their order and under any name.

    Parameters
    ----------
    body
        The table, in UTF-8.
    most_rows, most_bytes
        The most rows, and the most memory that they may take.
    labels
        Whether there must be labels, must not be, or may be (None).
    users
        Whether there must be users; otherwise there must not be.

    Raises
    ------
    ProblemError
        413 if it is too long, 422 if it is not such a table; the message names the line.

    Examples
    --------
    >>> x, y, users = read_table(b"user,a,b,label\nann,1,2.5,0\n", 10, 1000, labels=True, users=True)
    >>> x.tolist(), y.tolist(), users
    ([[1.0, 2.5]], [0], ['ann'])
    """
    if len(body) * PARSED_BYTES > most_bytes:
        raise ProblemError(413, f"{len(body):,} bytes of CSV are more than {most_bytes // PARSED_BYTES:,}: send npz")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ProblemError(422, "the table is not text in UTF-8") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(lines, [])]
        columns, label_at, user_at = _columns(header, labels, users)
        x: list[list[float]] = []
        y: list[int] = []
        names: list[str] = []
        for row in lines:
            if not row:
                continue
            line = lines.line_num
            if len(row) != len(header):
                raise ProblemError(
                    422, f"line {line} of the table has {len(row)} values, but there are {len(header)} columns"
                )
            if len(x) == most_rows:
                raise ProblemError(413, f"more than {most_rows:,} samples at once")
            x.append(_numbers(row, columns, line))
            if label_at is not None:
                y.append(_label(row[label_at], line))
            if user_at is not None:
                names.append(row[user_at])
    except csv.Error as error:
        raise ProblemError(422, f"not a table: {error}") from None
    if not x:
        raise ProblemError(422, "the table has no rows below its header")
    inputs = np.array(x, dtype=np.float32)
    return inputs, np.array(y, dtype=np.int64) if label_at is not None else None, names


def _columns(header: list[str], labels: bool | None, users: bool) -> tuple[list[int], int | None, int | None]:
    """Return where the values, the labels and the users are."""
    if len(header) > MOST_COLUMNS:
        raise ProblemError(422, f"the table has {len(header):,} columns: at most {MOST_COLUMNS:,}")
    for name in (LABEL, USER):
        if header.count(name) > 1:
            raise ProblemError(422, f"the column {name!r} is there twice")
    for name in header:
        if name not in (LABEL, USER) and name.casefold() in (LABEL, USER):  # it would be taken for a value of the input
            raise ProblemError(422, f"is it the column {name.casefold()!r}? Its name here is {name!r}")
    if labels and LABEL not in header:
        raise ProblemError(422, f"the first line names the columns, and one is {LABEL!r}")
    if labels is False and LABEL in header:
        raise ProblemError(422, f"there are labels in it: leave out the column {LABEL!r}")
    if users and USER not in header:
        raise ProblemError(422, f"samples of several users need a column {USER!r}")
    if not users and USER in header:
        raise ProblemError(
            422, f"it says itself whose its samples are: upload it to /v1/samples, or leave out the column {USER!r}"
        )
    values = [at for at, name in enumerate(header) if name not in (LABEL, USER)]
    if not values:
        first = f"names {' and '.join(map(repr, header))} alone" if header else "is empty"
        raise ProblemError(422, f"there is no column of values: the first line {first}")
    places: dict[str, Any] = {name: at for at, name in enumerate(header)}
    return values, places.get(LABEL), places.get(USER)


def _numbers(row: list[str], columns: list[int], line: int) -> list[float]:
    try:
        numbers = [float(without_underscore(row[at])) for at in columns]
    except ValueError:
        raise ProblemError(422, f"line {line} of the table: every value is a number") from None
    if not all(math.isfinite(number) and abs(number) <= 1e9 for number in numbers):
        raise ProblemError(422, f"line {line} of the table: values are finite and at most 1e9")
    return numbers


def _label(text: str, line: int) -> int:
    label = text.strip()
    if not (label.isascii() and label.isdigit() and len(label) <= 6):
        raise ProblemError(422, f"line {line} of the table: a label is a whole number from 0")
    return int(label)
