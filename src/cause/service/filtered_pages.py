"""Lists that are filtered page by page: of each page only so many rows are read, however few of them fit."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Query

from cause.service.problems import ProblemError

T = TypeVar("T")
STEP = 500
"""Rows that are read at once."""
MOST_READ = 5_000
"""Rows that are read for one page. If they do not fill it, the page is short and its cursor leads on."""

Since = Annotated[
    str | None,
    Query(
        max_length=40,
        description="Only from this time on: a date, or an RFC 3339 time with its zone",
        examples=["2026-01-31", "2026-01-31T12:00:00Z"],
    ),
]
Until = Annotated[
    str | None,
    Query(
        max_length=40,
        description="Only before this time: a date, or an RFC 3339 time with its zone",
        examples=["2026-02-01", "2026-02-01T12:00:00Z"],
    ),
]
IdPrefix = Annotated[
    str | None, Query(pattern=r"^[0-9a-f]{1,64}$", description="How the request's id begins", examples=["6f1e1cf8"])
]


def moment(text: str | None, name: str) -> float | None:
    """Return a time of a query as seconds since 1970; a date means its beginning in UTC.

    Parameters
    ----------
    text
        A date, or an RFC 3339 time with its zone; None stays None.
    name
        The name of the parameter, for the message.

    Raises
    ------
    ProblemError
        422 if it is neither.

    Examples
    --------
    >>> moment("1970-01-02", "since"), moment("1970-01-01T02:00:00+01:00", "since")
    (86400.0, 3600.0)
    """
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)  # a plus that was not encoded
        if parsed.tzinfo is None:
            if len(text) != len("2026-01-31"):
                raise ValueError
            parsed = parsed.replace(tzinfo=UTC)
        return parsed.timestamp()
    except (ValueError, OverflowError):
        detail = "a date (2026-01-31) or an RFC 3339 time with its zone (2026-01-31T12:00:00Z)"
        raise ProblemError(422, f"{name} is {detail}, not {text[:40]!r}") from None


def search(
    fetch: Callable[[int | None, int], Sequence[T]],
    number: Callable[[T], int],
    fits: Callable[[T], bool],
    before: int | None,
    limit: int,
    *,
    step: int = STEP,
    most_read: int = MOST_READ,
) -> tuple[list[T], int | None]:
    """Return a page of the rows that fit, the newest first, and the cursor of the next page.

    Parameters
    ----------
    fetch
        Returns rows below a number (None: from the newest on), the newest first, and at most so many.
    number
        The number of a row.
    fits
        Whether a row belongs in the list.
    before
        The cursor of this page; None for the first one.
    limit
        The most rows of the page.
    step
        Rows that are read at once; more than `limit` where all rows fit.
    most_read
        The most rows that are looked at.

    Returns
    -------
    The rows, fewer than `limit` where `most_read` rows were looked at; and the cursor, None after the last page.

    Examples
    --------
    >>> below = lambda before, most: [n for n in range(9, -1, -1) if before is None or n < before][:most]
    >>> search(below, lambda n: n, lambda n: n % 2 == 0, None, 3)
    ([8, 6, 4], 4)
    >>> search(below, lambda n: n, lambda n: n % 2 == 0, 4, 3)
    ([2, 0], None)
    """
    page: list[T] = []
    read = 0
    while read < most_read:
        rows = fetch(before, step)
        for row in rows:
            if fits(row):
                if len(page) == limit:
                    return page, number(page[-1])
                page.append(row)
        read += len(rows)
        if len(rows) < step:
            return page, None
        before = number(rows[-1])
    return page, before
