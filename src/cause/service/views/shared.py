"""What several views share: segments as lists, spans of time, the fields that a user's own token may read."""

from typing import Any

from cause.engine.samples import SegmentKey
from cause.service import schemas as s


def key_list(segment: SegmentKey | None) -> list[int] | None:
    """Return shard, round and slice as JSON has them."""
    return None if segment is None else list(segment)


Span = tuple[float | None, float | None]
"""From when on and until when, in seconds since 1970; None: without a limit."""
ANY_TIME: Span = (None, None)


def within(at: float, span: Span) -> bool:
    """Return whether a time lies in a span."""
    since, until = span
    return (since is None or at >= since) and (until is None or at < until)


def own_fields(form: type[s.ResponseModel], whole: s.ResponseModel) -> dict[str, Any]:
    """Return those fields of a body that a smaller form has, too."""
    return {name: getattr(whole, name) for name in form.model_fields}
