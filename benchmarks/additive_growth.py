"""Whether a forget of an additive learner costs more the more its home holds: CPU time and bytes written of each.

python -m benchmarks.additive growth --held 1000000 --forgets 10000 --out results/additive-growth.json

One home at each size, d = 44 (43 features and the constant). Samples come in rounds of many users; each forget takes
one sample of another user, and returns when it is durable, has a receipt, and the state is whole. The service makes
each upload a round of its own, so a second table holds few samples in many rounds.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cause import AdditiveLearner, Cause

FEATURES, CLASSES, TENTHS = 43, 6, 10


def written() -> int:
    """The bytes that this process has passed to write calls."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def growth(samples: int, rounds: int, users: int, forgets: int, folder: Path | None = None) -> dict[str, Any]:
    """Single forgets in a row on a home that holds many samples.

    Parameters
    ----------
    samples, rounds, users
        What the home holds: as many samples of each user, as many users in each round; a user is in one round.
    forgets
        How many samples are forgotten, one by one; at most half of them.
    folder
        Where the home is made; the system's folder for temporary files by default.

    Returns
    -------
    dict
        CPU and wall milliseconds and kilobytes written of a forget, in each tenth of them.
    """
    draw, per_round, each = np.random.default_rng(0), users // rounds, samples // users
    start, tenth = time.perf_counter(), max(1, min(forgets, samples // 2) // TENTHS)

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:7.0f} s  {text}", file=sys.stderr, flush=True)

    cpu_ms, wall_ms, written_kb = [], [], []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
        device = Cause(Path(place) / "home", learner=learner)
        say(f"learning {samples:,} samples in {rounds:,} rounds")
        cpu = time.process_time()
        for round_ in range(rounds):
            names = (f"user {number}" for number in range(round_ * per_round, (round_ + 1) * per_round))
            device.learn(
                {name: (draw.normal(size=(each, FEATURES)).astype(np.float32), draw.integers(CLASSES, size=each))
                 for name in names}
            )  # fmt: skip
            if (round_ + 1) % max(1, rounds // 5) == 0:
                say(f"{round_ + 1:,} rounds learned")
        learn_s = time.process_time() - cpu
        order = draw.permutation(users)  # not in the order of the rounds: later ones have fewer rounds after them
        for part in range(TENTHS):
            before, cpu, wall = written(), time.process_time(), time.perf_counter()
            for number in range(part * tenth, (part + 1) * tenth):
                user = int(order[number % users])
                device.forget(f"user {user}", rounds=[user // per_round + 1], count=1)
            cpu_ms.append(round((time.process_time() - cpu) * 1e3 / tenth, 3))
            wall_ms.append(round((time.perf_counter() - wall) * 1e3 / tenth, 3))
            written_kb.append(round((written() - before) / 1024 / tenth, 2))
            say(f"{(part + 1) * tenth:,} forgotten: {cpu_ms[-1]:.1f} ms CPU, {written_kb[-1]:.1f} kB written of each")
        say("adding up everything again")
        holds = device.verify().holds
        device.close()
    return {
        "samples": samples, "rounds": rounds, "users": users, "forgets": tenth * TENTHS, "learn_cpu_s": learn_s,
        "cpu_ms": cpu_ms, "wall_ms": wall_ms, "written_kb": written_kb, "verified": holds,
    }  # fmt: skip


def by_samples(held: int, forgets: int, folder: Path | None = None) -> list[dict[str, Any]]:
    """A hundredth, a tenth and all of the samples: uploads of 100 each, in up to 100 rounds."""
    sizes = [(held // 100, min(500, forgets)), (held // 10, min(500, forgets)), (held, forgets)]
    return [
        growth(samples, min(100, users), users, count, folder)
        for samples, count in sizes
        for users in [max(1, samples // 100)]
    ]


def by_rounds(most: int, forgets: int, folder: Path | None = None) -> list[dict[str, Any]]:
    """Ten samples in each of more and more rounds."""
    sizes = [size for size in (most // 100, most // 10, most) if size]
    return [growth(10 * size, size, size, min(forgets, 500), folder) for size in sizes]


def table(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows of a printed table: first and last tenth."""
    return [
        [f"{row['samples']:,}", f"{row['rounds']:,}", f"{row['forgets']:,}", f"{row['cpu_ms'][0]:.1f}",
         f"{row['cpu_ms'][-1]:.1f}", f"{np.mean(row['wall_ms']):.1f}", f"{row['written_kb'][0]:.0f}",
         f"{row['written_kb'][-1]:.0f}", str(row["verified"])]
        for row in rows
    ]  # fmt: skip


COLUMNS = ["samples held", "rounds", "forgets", "ms first", "ms last", "ms wall", "kB first", "kB last", "verified"]
