"""Chooses among measured candidates, and says why."""

from collections.abc import Collection, Sequence

from cause.common.units import format_bytes
from cause.lab.advice.measure import Row

WITHIN = 0.02
"""A candidate within so much of the best accuracy may be chosen for its lower cost."""
PRICE = 0.01
"""By so much a candidate whose scale follows from the sample must be more accurate than one with constants."""


def choose(rows: Sequence[Row], from_sample: Collection[str] = (), within: float = WITHIN) -> tuple[Row, str]:
    """Return the candidate that retrains least among those that are nearly as accurate as the best, and the reason.

    Of two that retrain the same, the more accurate one is chosen, then the smaller one.

    Parameters
    ----------
    rows
        The measured candidates.
    from_sample
        The names of those whose scale follows from the sample: they are chosen only if they are clearly better.
    within
        How far below the best accuracy the chosen one may be.

    Examples
    --------
    >>> def row(name, accuracy, rsn):
    ...     return Row(name, "network", accuracy, 0.01, rsn, 1000, 1.0, 1.0, 2**20, 4)
    >>> chosen, reason = choose([row("a", 0.91, 900), row("b", 0.90, 100), row("c", 0.70, 0)])
    >>> chosen.name
    'b'
    >>> print(reason)
    90.0 % of the held-out samples are right, 1.0 points below the best (a), which retrains 900 samples instead of 100.
    """
    best = max(rows, key=lambda row: (row.accuracy, -row.rsn))
    good = [row for row in rows if row.accuracy >= best.accuracy - within]
    worth = {row.name: row.accuracy - PRICE * (row.name in from_sample) for row in rows}
    chosen = min(good, key=lambda row: (row.rsn, -worth[row.name], row.sub_model_bytes))
    right = f"{100 * chosen.accuracy:.1f} % of the held-out samples are right"
    size = f"its state takes {format_bytes(chosen.sub_model_bytes)}"
    if chosen == best:
        nothing = [row for row in rows if row.rsn < best.rsn]
        if not nothing:
            return chosen, f"{right}, the best, and no candidate retrains less ({chosen.rsn:,} samples); {size}."
        near = max(nothing, key=lambda row: row.accuracy)
        behind = 100 * (best.accuracy - near.accuracy)
        return chosen, (
            f"{right}. It retrains {chosen.rsn:,} samples; the best of what retrains less ({near.name}) is "
            f"{behind:.1f} points worse."
        )
    behind = 100 * (best.accuracy - chosen.accuracy)
    return chosen, (
        f"{right}, {behind:.1f} points below the best ({best.name}), which retrains {best.rsn:,} samples instead of "
        f"{chosen.rsn:,}."
    )
