"""An attacker with the master key and the live home guesses what was forgotten: does the home confirm the guess?

He reads every block and every table, knows how many samples there were, and tests whether a candidate fits what is
left of the upload it would have been part of. A home keeps its promise if wrong candidates fit as often as the true
one; it need not be that none fits.
"""

import bisect
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.store.blocks import SAMPLES, open_block
from cause.device.store.layout import BLOCKS, LEDGER
from cause.engine.arrays import ArrayUpload
from cause.engine.requests import Request
from tests.device.homes import CLASSES, FEATURES, samples
from tests.device.old_ledger import readable_values
from tests.torture.attack import keys_of
from tests.torture.calls import Case, Learn
from tests.torture.life import open_device
from tests.torture.sample_ids import translated

Candidate = tuple[NDArray[Any], int]
"""Inputs and label of a sample."""
ODDS = 1e-6
"""Below this probability a difference between true and wrong guesses is no accident."""


@dataclass(frozen=True)
class Row:
    """A retained sample as the attacker sees it: its digest, and its position."""

    digest: bytes
    label: int
    position: int
    part: int


@dataclass(frozen=True)
class View:
    """What is left of an upload, by digest."""

    rows: tuple[Row, ...]
    count: int  # how many there were
    classes: Counter[int] | None  # what the tables say of how many of each class there were

    def place(self, digest: bytes) -> int:
        """Where a candidate would come among them."""
        return bisect.bisect([row.digest for row in self.rows], digest)


def confirmed_guesses(
    home: Path, user: str, round_: int, candidates: Sequence[Candidate], count: int
) -> list[dict[str, bool]]:
    """Test candidates for a forgotten sample of an upload that had `count` samples.

    Returns
    -------
    For each candidate whether it fits what is left, by the name of the test.
    """
    view = _view(home, user, round_, count)
    digests = _digests(user, round_, candidates)
    return [
        {name: test(view, digest, label) for name, test in TESTS.items()}
        for digest, (_, label) in zip(digests, candidates, strict=True)
    ]


def _fits_a_gap(view: View, digest: bytes, label: int) -> bool:
    """A position is free between those of its neighbours by digest."""
    place, free = view.place(digest), set(range(view.count)) - {row.position for row in view.rows}
    low = view.rows[place - 1].position if place else -1
    high = view.rows[place].position if place < len(view.rows) else view.count
    return any(low < position < high for position in free)


def _fits_a_short_block(view: View, digest: bytes, label: int) -> bool:
    """It comes between the lowest and the highest digest of a block that is not full, and not the last."""
    blocks: dict[int, list[bytes]] = {}
    for row in view.rows:
        blocks.setdefault(row.part, []).append(row.digest)
    last = max(blocks)
    return any(
        len(own) < SAMPLES and part != last and own[0] <= digest <= own[-1] for part, own in blocks.items()
    )  # fmt: skip


def _fits_by_rank(view: View, digest: bytes, label: int) -> bool:
    """Blocks were cut by digest: its rank says in which one it would have been, and that one lacks something."""
    part = view.place(digest) // SAMPLES
    full = min(SAMPLES, view.count - part * SAMPLES)
    return sum(row.part == part for row in view.rows) < full


def _fits_the_classes(view: View, digest: bytes, label: int) -> bool:
    """The tables remember more samples of its class than there are."""
    if view.classes is None:
        return False
    return view.classes[label] > sum(row.label == label for row in view.rows)


TESTS: dict[str, Callable[[View, bytes, int], bool]] = {
    "gap": _fits_a_gap,
    "short block": _fits_a_short_block,
    "rank in blocks": _fits_by_rank,
    "classes": _fits_the_classes,
}


def _view(home: Path, user: str, round_: int, count: int) -> View:
    """Open every block with every key; whose a sample is follows from the digest of what the user uploaded."""
    keys, rows = keys_of(home), list[Row]()
    for part, name in _blocks(home):
        block = open_block(name, keys[name], (home / BLOCKS / name.hex()).read_bytes())
        labels = block.labels.tolist()
        own = _digests(user, round_, list(zip(block.x, labels, strict=True)))
        if own[0] == bytes(block.digests[0]):  # a digest names the user, so this is one of theirs
            rows += map(Row, own, labels, block.positions.tolist(), [part] * len(own))
    return View(tuple(sorted(rows, key=lambda row: row.digest)), count, _classes(home, keys, count))


def _blocks(home: Path) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(f"file:{home / LEDGER}?mode=ro", uri=True)) as ledger:
        return [(part, bytes(name)) for part, name in ledger.execute("SELECT part, key FROM blocks")]


def _classes(home: Path, keys: dict[bytes, bytes], count: int) -> Counter[int] | None:
    """Anything in the tables that opens to as many labels as there were samples."""
    for plain in readable_values(home / LEDGER, keys):
        if len(plain) == 8 * count:
            labels = np.frombuffer(plain, dtype="<i8")
            if labels.min() >= 0 and labels.max() < CLASSES:
                return Counter(labels.tolist())
    return None


def _digests(user: str, round_: int, candidates: Sequence[Candidate]) -> list[bytes]:
    x, y = np.stack([each for each, _ in candidates]), np.array([label for _, label in candidates])
    upload = ArrayUpload(user, round_, x, y)
    inputs, _ = upload.arrays(upload.positions)
    by_content = dict(zip((row.tobytes() for row in inputs), upload.twins(upload.positions), strict=True))
    return [by_content[row.tobytes()] for row in x]


def guessed(scratch: Path, rows: int, uploads: int, *, wrong: int = 20, seed: int = 0) -> dict[str, list[list[bool]]]:
    """Let each of many users upload that many samples and forget one; test it beside wrong ones.

    Returns
    -------
    By the name of the test, for each user whether each candidate fits; the first is the true one.
    """
    draw = np.random.default_rng([seed, rows])
    users = [f"user {number} of {rows}" for number in range(uploads)]
    case = Case((Learn(1, tuple((user, rows) for user in users)),), "frugal", shards=1, slots=2)
    chosen = {user: int(draw.integers(rows)) for user in users}
    with open_device(scratch / "home", case) as device:
        device.learn({user: samples(user, 1, rows) for user in users}, repair="later")
        for user, row in chosen.items():
            device.serve(translated(device.ledger, [Request(user, samples=((1, row),))]), repair="later")
    fitting: dict[str, list[list[bool]]] = {name: [] for name in TESTS}
    for user, row in chosen.items():
        x, y = samples(user, 1, rows)
        candidates = [(x[row], int(y[row]))]
        candidates += [
            (each.astype(np.float32), int(draw.integers(CLASSES))) for each in draw.normal(size=(wrong, FEATURES))
        ]
        fits = confirmed_guesses(scratch / "home", user, 1, candidates, rows)
        for name in TESTS:
            fitting[name].append([each[name] for each in fits])
    return fitting


def told_apart(fits: Sequence[Sequence[bool]]) -> str | None:
    """Whether the true candidate, the first of each row, fits more or less often than chance has it; how often, if so.

    If nothing tells it from the others, it is one of them drawn at random: the number of rows in which it fits is a sum
    of independent draws, whose distribution is computed.
    """
    distribution = np.array([1.0])
    for row in fits:
        chance = sum(row) / len(row)
        distribution = np.convolve(distribution, [1 - chance, chance])
    true = sum(row[0] for row in fits)
    tail = min(distribution[true:].sum(), distribution[: true + 1].sum())
    if tail >= ODDS:
        return None
    others = [fit for row in fits for fit in row[1:]]
    return f"the true one fits in {true} of {len(fits)}, wrong ones in {np.mean(others):.2%}"


def problems(scratch: Path, rows: int, uploads: int, seed: int = 0) -> list[str]:
    """The tests by which the home tells true guesses from wrong ones."""
    differences = []
    for name, fits in guessed(scratch, rows, uploads, seed=seed).items():
        difference = told_apart(fits)
        if difference is not None:
            differences.append(f"guesses in uploads of {rows:,}, by {name}: {difference}")
    return differences
