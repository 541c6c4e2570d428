"""Users with real data: a trace whose samples are rows of a data set, so that labels and sizes differ by user."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import labels_of
from cause.data.rows import TraceRows
from cause.engine.samples import Part
from cause.errors import InputError
from cause.lab.trace import Add, Round, Trace
from cause.lab.workload import Workload, ask_some

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shared:
    """A trace with the data behind it: a real run takes `uploads`, a simulation the trace alone."""

    trace: Trace
    x: NDArray[Any]
    y: NDArray[np.int64]
    rows: dict[tuple[str, int], Rows]  # of each upload, in the order of its positions

    def uploads(self, round_: Round) -> list[TraceRows]:
        """A round's uploads with their data."""
        return [TraceRows(upload, self.x, self.y, self.rows[upload.user, upload.round]) for upload in round_.uploads()]


def share_out(
    x: NDArray[Any],
    y: NDArray[np.int64],
    *,
    classes: int,
    users: int = 100,
    rounds: int = 10,
    samples: int | None = None,
    rho: float = 0.1,
    alpha: float = 0.5,
    seed: int = 0,
) -> Shared:
    """Give real samples to the users of the paper's workload; none is given twice.

    The trace is that of `Workload` with these numbers (all samples, unless `samples` says fewer): the same users,
    sizes, rounds and requests. Only its labels are bound to the data. Where the users together want more of a class
    than there is, chance decides whose wish is met (each wish with the same probability), and the others get, again by
    chance, what is left over of all classes; the same seed decides the same way. How many that were is a matter of α:
    see `unmet`. All that is drawn here comes from a generator of its own, so the workload is not disturbed.

    >>> shared = share_out(np.zeros((60, 2)), np.arange(60) % 3, classes=3, users=4, rounds=2, seed=1)
    >>> shared.trace.samples, len(set(np.concatenate(list(shared.rows.values())).tolist()))
    (60, 60)
    """
    labels = labels_of(y, "labels")
    if len(x) != len(labels) or not len(labels):
        raise InputError(f"there are {len(x)} inputs and {len(labels)} labels to share out: one label for each input")
    if labels.max() >= classes:
        raise InputError(f"label {labels.max()}, but there are {classes} classes (from 0)")
    wanted = len(labels) if samples is None else samples
    if not 1 <= wanted <= len(labels):
        raise InputError(f"from 1 to {len(labels):,} samples can be shared out, not {wanted:,}")
    drawn = Workload(users=users, rounds=rounds, samples=wanted, classes=classes, rho=rho, alpha=alpha, seed=seed)
    trace = drawn.trace()
    rng = np.random.default_rng([seed, 1])
    adds = [(round_.number, add) for round_ in trace.rounds for add in round_.adds]
    return _shared(trace, adds, _granted(_wishes(adds), labels, classes, rng), x, labels)


def share_own(
    x: NDArray[Any],
    y: NDArray[np.int64],
    owners: NDArray[np.str_],
    *,
    rounds: int = 10,
    rho: float = 0.1,
    seed: int = 0,
) -> Shared:
    """Spread the samples of the data's own users over rounds at random, and draw their requests as in the workload."""
    Workload(rounds=rounds, rho=rho, seed=seed)  # the same limits
    if not len(x) == len(y) == len(owners) > 0:
        raise InputError(f"{len(x)} inputs, {len(y)} labels and {len(owners)} users: one of each for a sample")
    rng = np.random.default_rng(seed)
    names, owner = np.unique(owners, return_inverse=True)
    when = rng.integers(rounds, size=len(owner))
    order = np.lexsort((np.arange(len(y)), y, owner, when))
    cuts = np.flatnonzero(np.diff(when[order] * len(names) + owner[order])) + 1
    trace, rows = Trace([Round(number) for number in range(1, rounds + 1)]), {}
    left: list[dict[int, int]] = [{} for _ in names]
    users = [str(name) for name in names]
    number_of = {user: index for index, user in enumerate(users)}
    for own in np.split(order, cuts):
        user, number = int(owner[own[0]]), int(when[own[0]]) + 1
        trace.rounds[number - 1].adds.append(Add(users[user], Part(len(own), _runs(y[own]))))
        rows[users[user], number] = own
    for round_ in trace.rounds:
        for add in round_.adds:
            left[number_of[add.user]][round_.number] = add.part.count
        round_.forgets.extend(ask_some(users, left, rho, rng))
    return Shared(trace, x, np.asarray(y, dtype=np.int64), rows)


def unmet(shared: Shared, wanted: Trace) -> int:
    """How many of a workload's samples have another label in the data that was shared out for it."""
    missed = 0
    for got, asked in zip(shared.trace.rounds, wanted.rounds, strict=True):
        for mine, wish in zip(got.adds, asked.adds, strict=True):
            have, want = dict(mine.part.labels or ()), dict(wish.part.labels or ())
            missed += sum(max(0, count - have.get(label, 0)) for label, count in want.items())
    return missed


def _wishes(adds: Sequence[tuple[int, Add]]) -> NDArray[np.int64]:
    """The label that each place of each upload wants."""
    runs = [run for _, add in adds for run in add.part.labels or ()]
    labels, counts = np.array(runs, dtype=np.int64).T
    return np.repeat(labels, counts)


def _granted(wishes: NDArray[np.int64], labels: NDArray[np.int64], classes: int, rng: np.random.Generator) -> Rows:
    """A row for each place: of the wanted class while there are any, then of what is left."""
    rows = np.full(len(wishes), -1, dtype=np.int64)
    left = []
    for label in range(classes):
        supply = rng.permutation(np.flatnonzero(labels == label))
        places = rng.permutation(np.flatnonzero(wishes == label))
        met = min(len(supply), len(places))
        rows[places[:met]] = supply[:met]
        left.append(supply[met:])
    short = np.flatnonzero(rows < 0)
    rows[short] = rng.permutation(np.concatenate(left))[: len(short)]
    return rows


def _shared(
    trace: Trace, adds: Sequence[tuple[int, Add]], granted: Rows, x: NDArray[Any], y: NDArray[np.int64]
) -> Shared:
    rows: dict[tuple[str, int], Rows] = {}
    bound = Trace([Round(round_.number, [], round_.forgets) for round_ in trace.rounds])
    ends = np.cumsum([add.part.count for _, add in adds])
    for (number, add), own in zip(adds, np.split(granted, ends[:-1]), strict=True):
        own = own[np.lexsort((own, y[own]))]  # positions follow labels in ascending order
        bound.rounds[number - 1].adds.append(Add(add.user, Part(len(own), _runs(y[own]))))
        rows[add.user, number] = own
    return Shared(bound, x, y, rows)


def _runs(labels: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    values, counts = np.unique(labels, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))
