"""Times as texts."""

from datetime import UTC, datetime


def time_text(seconds: float) -> str:
    """Return a time, in seconds since 1970, as receipts show it: UTC, in milliseconds.

    >>> time_text(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
