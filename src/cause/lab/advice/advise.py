"""Measures candidates until the time is over, and recommends one."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from cause.common.version import __version__
from cause.errors import CauseError, InputError
from cause.lab.advice.cache import MeasurementCache
from cause.lab.advice.candidates import Candidate, candidates
from cause.lab.advice.choose import choose
from cause.lab.advice.measure import Demand, Features, Row, TimeUpError, measure
from cause.lab.advice.sample import Sample

Started = Callable[[Candidate, int, int], None]
"""Called before each candidate, with the candidate, how many are done, and how many there are."""
SHARE = 0.5
"""Of the time that is left, which one candidate may take."""
LATE = "the time was over"
FITTED = (
    "Its ranges follow from this sample, rounded to one digit: take them from a data sheet or from recordings of your "
    "own if users of the sample may ask to be forgotten."
)


@dataclass(frozen=True)
class Advice:
    """Measured candidates, others with the reason why they were not measured, and the recommended one."""

    rows: list[Row]
    not_measured: dict[str, str]
    chosen: Candidate | None
    reason: str
    demand: Demand

    @property
    def command(self) -> str | None:
        """The `cause init` command of the recommended candidate, after one that makes its file if it needs one."""
        if self.chosen is None:
            return None
        return " && ".join(shlex.join(command) for command in self.chosen.commands(self.demand.memory))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain data for JSON."""
        name = None if self.chosen is None else self.chosen.name
        return {
            "rows": [row.as_dict() for row in self.rows],
            "not_measured": self.not_measured,
            "recommended": {"name": name, "command": self.command, "reason": self.reason},
            "demand": asdict(self.demand),
        }


def advise(
    sample: Sample,
    demand: Demand,
    *,
    minutes: float = 9.5,
    cache: MeasurementCache | None = None,
    started: Started | None = None,
    device: str = "cpu",
    among: Sequence[Candidate] | None = None,
) -> Advice:
    """Measure candidates on a sample, and recommend one.

    Parameters
    ----------
    sample
        Of the user's data.
    demand
        The memory, how often users ask, and rounds.
    minutes
        How long to measure. A candidate that would take longer than half of what is left is given up, and named.
    cache
        Measurements of earlier runs; new ones are added.
    started
        Called before each candidate.
    device
        Where networks are trained.
    among
        The candidates; by default those that suit the sample.

    Raises
    ------
    InputError
        If there is no time.
    """
    if not minutes > 0:
        raise InputError(f"--minutes must be above 0, not {minutes}")
    cache = cache or MeasurementCache(None)
    to_measure = candidates(sample) if among is None else list(among)
    end = time.monotonic() + 60 * minutes
    rows: dict[str, Row] = {}
    missed: dict[str, str] = {}
    with closing(Features()) as features:
        for done, candidate in enumerate(to_measure):
            key = _key(candidate, sample, demand, device)
            row = cache.get(key)
            if row is None:
                left = end - time.monotonic()
                if left <= 0:
                    missed[candidate.name] = LATE
                    continue
                if started is not None:
                    started(candidate, done, len(to_measure))
                try:
                    row = measure(candidate, sample, demand, features, time.monotonic() + SHARE * left, device)
                except TimeUpError:
                    missed[candidate.name] = f"it takes longer than {SHARE * left:.0f} s"
                    continue
                except CauseError as error:
                    missed[candidate.name] = str(error)
                    continue
                cache.add(key, row)
            rows[candidate.name] = row
    if not rows:
        return Advice([], missed, None, "nothing was measured: give it more --minutes", demand)
    best, reason = choose(list(rows.values()), [candidate.name for candidate in to_measure if candidate.from_sample])
    chosen = next(candidate for candidate in to_measure if candidate.name == best.name)
    return Advice(list(rows.values()), missed, chosen, f"{reason} {FITTED}" if chosen.from_sample else reason, demand)


def _key(candidate: Candidate, sample: Sample, demand: Demand, device: str) -> str:
    parts = [__version__, sample.digest, candidate.kind, candidate.learner, candidate.system, candidate.shards]
    return sha256(json.dumps([*parts, asdict(demand), device], sort_keys=True).encode()).hexdigest()[:24]
