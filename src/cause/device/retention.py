"""Computes which samples the home's retention period (`retain`) will delete next. Only reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cause.common import positions as pos

if TYPE_CHECKING:
    from cause.device.home.home import Home

DAY_S = 86_400.0
Rule = tuple[int | None, float | None]
"""How long samples are kept: a number of rounds, or of seconds; see `parse_retain`."""


@dataclass(frozen=True)
class Expiring:
    """Samples that will be deleted together."""

    samples: int = 0
    users: int = 0
    rounds: tuple[int, ...] = ()
    """The rounds that they belong to; samples that wait for a round have none."""


@dataclass(frozen=True)
class ExpiringAt(Expiring):
    """Samples that will be deleted at a time."""

    at: float = 0.0
    """When the first of them is old enough (seconds since 1970); the others follow within a day."""


@dataclass(frozen=True)
class Retention:
    """The samples that the retention period will delete next."""

    retain: str | None
    """The setting: "2 rounds", "90 days", or None where samples are kept for ever."""
    next_round: Expiring
    """What goes when the next round closes, also when it is empty."""
    next: ExpiringAt | None
    """With "N days": what goes next without any round, and when; None if nothing is held, or by rounds."""


def retention(home: "Home") -> Retention:
    """Return which samples are deleted next under the current settings of the home.

    While the wall clock is not believed, nothing is deleted by its age: "N days" then shows nothing.
    """
    rounds, seconds = home.retain
    if rounds is None and seconds is None:
        return Retention(None, Expiring(), None)
    if seconds is None:
        return Retention(_text(home.retain), expiring(home, home.retain), None)
    if home.time.doubt() is not None:
        return Retention(_text(home.retain), Expiring(), None)
    return Retention(_text(home.retain), expiring(home, home.retain), _next(home, seconds))


def expiring(home: "Home", rule: Rule) -> Expiring:
    """Return which samples the next round would delete under this rule."""
    rounds, seconds = rule
    if rounds is not None:
        last = float(home.database.get("round", 0) + 1 - rounds)
        return _counted(home, home.queries.pieces_upto_round(last), None)
    if seconds is not None:
        limit = home.clock() - seconds
        return _counted(home, home.queries.pieces_before(limit), limit)
    return Expiring()


def _next(home: "Home", seconds: float) -> ExpiringAt | None:
    first = home.queries.first_arrival()
    if first is None:
        return None
    counted = _counted(home, home.queries.pieces_before(first + DAY_S), first + DAY_S)
    return ExpiringAt(counted.samples, counted.users, counted.rounds, at=first + seconds)


def _counted(home: "Home", pieces: Sequence[tuple[int, int, bytes]], staged_before: float | None) -> Expiring:
    samples = sum(len(pos.from_runs(runs)) for _, _, runs in pieces)
    users = {home.directory.name(pseudonym) for pseudonym, _, _ in pieces}
    for user, count in _staged(home, staged_before):
        users.add(user)
        samples += count
    return Expiring(samples, len(users), tuple(sorted({round_ for _, round_, _ in pieces})))


def _staged(home: "Home", before: float | None) -> Iterator[tuple[str, int]]:
    for upload in home.inbox.uploads():
        if before is not None and upload.arrived < before:
            yield upload.user, upload.samples


def _text(rule: Rule) -> str:
    """Return a rule as the setting is written.

    >>> _text((1, None)), _text((None, 90 * DAY_S))
    ('1 rounds', '90 days')
    """
    rounds, seconds = rule
    return f"{rounds} rounds" if rounds is not None else f"{(seconds or 0) / DAY_S:g} days"
