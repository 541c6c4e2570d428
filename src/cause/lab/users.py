"""Users with real data: traces whose samples are rows of a data set, so that labels and sizes differ by user."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import labels_of
from cause.data.rows import TraceRows
from cause.engine.samples import Part
from cause.errors import InputError
from cause.lab.ages import UNIFORM, Ages
from cause.lab.trace import Add, Round, Trace
from cause.lab.workload import PART, Asking, Left, Workload, picking

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shared:
    """A trace with its data: a real run learns `uploads`, a simulation takes the trace alone."""

    trace: Trace
    x: NDArray[Any]
    y: NDArray[np.int64]
    rows: dict[tuple[str, int], Rows]  # by user and round, in the order of the upload's positions

    def uploads(self, round_: Round) -> list[TraceRows]:
        """Return the uploads of a round with their data."""
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
    **requests: str,
) -> Shared:
    """Distribute real samples over the users of the paper's workload; no sample is used twice.

    The trace is that of `Workload` with these numbers: the same users, sizes, rounds and requests. Only its labels come
    from the data. Where the workload has more samples of a class than the data, a random part of them gets that class
    (each with the same probability), and the others get random samples of what is left; `unmet` counts them, and how
    many there are depends on α. A separate random generator is used, so the workload is that of the seed.

    Parameters
    ----------
    x
        The inputs of the data set.
    y
        Its labels.
    classes
        The number of classes.
    users
        How many users are drawn.
    rounds
        The number of rounds.
    samples
        How many samples are distributed; by default all.
    rho
        The probability that a user asks in a round.
    alpha
        How even the labels of a user are.
    seed
        The seed of the workload and of the distribution.
    **requests
        `ages`, `scope`, `arrivals` and `labels` of `Workload`.

    Raises
    ------
    InputError
        If inputs and labels do not fit, or there are too few samples.

    Examples
    --------
    >>> shared = share_out(np.zeros((60, 2)), np.arange(60) % 3, classes=3, users=4, rounds=2, seed=1)
    >>> shared.trace.samples, len(set(np.concatenate(list(shared.rows.values())).tolist()))
    (60, 60)
    """
    labels = labels_of(y, "labels")
    if len(x) != len(labels) or not len(labels):
        raise InputError(f"there are {len(x)} inputs and {len(labels)} labels to share out: one label for each input")
    if labels.max() >= classes:
        raise InputError(f"label {labels.max()}, but there are {classes} classes (from 0)")
    count = len(labels) if samples is None else samples
    if not 1 <= count <= len(labels):
        raise InputError(f"from 1 to {len(labels):,} samples can be shared out, not {count:,}")
    trace = Workload(users, rounds, count, classes, rho, alpha, seed, **requests).trace()
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
    ages: str = UNIFORM,
    scope: str = PART,
) -> Shared:
    """Spread the samples of a data set with users over rounds at random, and draw requests as in the workload.

    Parameters
    ----------
    x
        The inputs of the data set.
    y
        Its labels.
    owners
        The user of each sample.
    rounds
        The number of rounds.
    rho
        The probability that a user asks in a round.
    seed
        The seed of all random choices.
    ages, scope
        As for `Workload`.

    Raises
    ------
    InputError
        If there is not one input, label and user for each sample.
    """
    Workload(rounds=rounds, rho=rho, seed=seed, ages=ages, scope=scope)  # the same limits
    if not len(x) == len(y) == len(owners) > 0:
        raise InputError(f"{len(x)} inputs, {len(y)} labels and {len(owners)} users: one of each for a sample")
    rng = np.random.default_rng(seed)
    names, owner = np.unique(owners, return_inverse=True)
    when = rng.integers(rounds, size=len(owner))
    order = np.lexsort((np.arange(len(y)), y, owner, when))
    cuts = np.flatnonzero(np.diff(when[order] * len(names) + owner[order])) + 1
    trace, rows = Trace([Round(number) for number in range(1, rounds + 1)]), {}
    left: list[Left] = [{} for _ in names]
    asking = Asking(Ages.parse(ages), scope, rng, picking(seed))
    users = [str(name) for name in names]
    number_of = {user: index for index, user in enumerate(users)}
    for rows_of_upload in np.split(order, cuts):
        user, number = int(owner[rows_of_upload[0]]), int(when[rows_of_upload[0]]) + 1
        trace.rounds[number - 1].adds.append(Add(users[user], Part(len(rows_of_upload), _runs(y[rows_of_upload]))))
        rows[users[user], number] = rows_of_upload
    for round_ in trace.rounds:
        for add in round_.adds:
            left[number_of[add.user]][round_.number] = range(add.part.count)
        round_.forgets.extend(asking.each(users, left, rho, round_.number))
    return Shared(trace, x, np.asarray(y, dtype=np.int64), rows)


def unmet(shared: Shared, workload: Trace) -> int:
    """Return how many samples of a workload got another label when data was distributed for it."""
    missed = 0
    for shared_round, workload_round in zip(shared.trace.rounds, workload.rounds, strict=True):
        for given, wished in zip(shared_round.adds, workload_round.adds, strict=True):
            given_labels, wished_labels = dict(given.part.labels or ()), dict(wished.part.labels or ())
            missed += sum(max(0, count - given_labels.get(label, 0)) for label, count in wished_labels.items())
    return missed


def _wishes(adds: Sequence[tuple[int, Add]]) -> NDArray[np.int64]:
    """Return the label of each sample of each upload in the workload."""
    runs = [run for _, add in adds for run in add.part.labels or ()]
    labels, counts = np.array(runs, dtype=np.int64).T
    return np.repeat(labels, counts)


def _granted(wishes: NDArray[np.int64], labels: NDArray[np.int64], classes: int, rng: np.random.Generator) -> Rows:
    """Return a row for each sample: of its class while there are any, then of what is left."""
    rows = np.full(len(wishes), -1, dtype=np.int64)
    left = []
    for label in range(classes):
        supply = rng.permutation(np.flatnonzero(labels == label))
        places = rng.permutation(np.flatnonzero(wishes == label))
        count = min(len(supply), len(places))
        rows[places[:count]] = supply[:count]
        left.append(supply[count:])
    short = np.flatnonzero(rows < 0)
    rows[short] = rng.permutation(np.concatenate(left))[: len(short)]
    return rows


def _shared(
    trace: Trace, adds: Sequence[tuple[int, Add]], granted: Rows, x: NDArray[Any], y: NDArray[np.int64]
) -> Shared:
    rows: dict[tuple[str, int], Rows] = {}
    bound_trace = Trace([Round(round_.number, [], round_.forgets) for round_ in trace.rounds])
    ends = np.cumsum([add.part.count for _, add in adds])
    for (number, add), taken in zip(adds, np.split(granted, ends[:-1]), strict=True):
        taken = taken[np.lexsort((taken, y[taken]))]  # positions follow labels in ascending order
        bound_trace.rounds[number - 1].adds.append(Add(add.user, Part(len(taken), _runs(y[taken]))))
        rows[add.user, number] = taken
    return Shared(bound_trace, x, y, rows)


def _runs(labels: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    values, counts = np.unique(labels, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))
