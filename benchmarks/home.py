"""What a durable device costs: ingest, forgetting, opening, status, ledger work, and how that grows.

python -m benchmarks.home [growth] [ledger] [--json]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from benchmarks import ledger
from cause.cli.output import print_json, print_table
from cause.common.machine import hardware
from cause.device.device import Cause
from cause.learners.sklearn import SklearnLearner

ROUNDS, SHARDS, FEATURES = 16, 4, 3_072
UPLOAD = 100
"""Samples an upload."""
FEW = 64
"""Users of the smallest home: four a round when each uploads once, so that every shard has something to learn."""
FORGETS, BETWEEN_REPAIRS = 100, 25
WAITS = 12
"""How often a forget waits for the disk (strace: keys, commits, the log's truncation, folders)."""
SYSTEM = "cause-no-sc:policy=cost,requests=coalesced"
KEY = "CAUSE_BENCH_KEY"

GROWTH = {
    f"Growth with samples, {FEW} users": [(FEW, 1), (FEW, 4), (FEW, 16)],
    f"Growth with users, {FEW * 16 * UPLOAD:,} samples": [(FEW, 16), (4 * FEW, 4), (16 * FEW, 1)],
}
"""Homes by their users and how often each of them uploads; the largest have the size that is asked for."""


def measure(users: int, each: int, folder: Path) -> dict[str, Any]:
    """A home with so many users who upload so often, used as a device would be."""
    os.environ[KEY] = "ab" * 32
    learner = SklearnLearner(GaussianNB(), classes=10, features=FEATURES)
    device = Cause(folder, learner=learner, key={"env": KEY}, system=SYSTEM, shards=SHARDS, slots=ROUNDS * SHARDS)
    _tell(f"{users:,} users × {each} uploads of {UPLOAD}: learning")
    ingest = _learn(device, users, each)
    stored = len(device.memory)
    _tell("forgetting")
    forgets, busy, flushes = _forget(device, users, each, folder)
    _tell("opening, status")
    keys = len(device.home.vault) if device.home else 0
    device.close()
    opening, asking = [], []
    for _ in range(7):
        start = time.perf_counter()
        device = Cause(folder)
        opening.append(time.perf_counter() - start)
        asking.append(timed(device.status))
        device.close()
    status, start_up = [], []
    for _ in range(5):
        status.append(timed(lambda: _command("status", str(folder), "--json")))
        start_up.append(timed(lambda: _command("--help")))
    samples = users * each * UPLOAD
    return {
        "users": users, "uploads": users * each, "samples": samples, "sub_models": stored, "keys": keys,
        "ingest_mb_s": samples * FEATURES / 2**20 / ingest, "ingest_s": ingest, "forgets": len(forgets),
        "forget_median_ms": 1e3 * statistics.median(forgets), "forget_p99_ms": 1e3 * p99(forgets),
        "forget_cpu_ms": 1e3 * statistics.median(busy), "flushes_p99_ms": 1e3 * p99(flushes),
        "open_s": statistics.median(opening),
        "status_s": statistics.median(asking), "status_command_s": statistics.median(status),
        "help_command_s": statistics.median(start_up),
    }  # fmt: skip


def _learn(device: Cause, users: int, each: int) -> float:
    """All rounds; the seconds until samples are recorded, partitioned and durable, without what training takes."""
    draw, rounds, spent = np.random.default_rng(0), device._rounds, 0.0
    record = rounds.record

    def timed_record(*args: Any, **options: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        recorded = record(*args, **options)
        spent += time.perf_counter() - start
        return recorded

    rounds.record = timed_record
    period = ROUNDS // each
    for t in range(ROUNDS):
        device.learn({f"user {number}": _upload(draw) for number in range(t % period, users, period)})
    rounds.record = record
    return spent


def _forget(device: Cause, users: int, each: int, folder: Path) -> tuple[list[float], list[float], list[float]]:
    """One upload after the other, spread over users and rounds; every now and then all is repaired.

    Beside each the machine's own part, so that a busy one can be told: as many bare flushes as a forget waits for.
    """
    period = ROUNDS // each
    took: list[float] = []
    busy: list[float] = []
    flushes: list[float] = []
    count = min(FORGETS, users * each // 4)
    chosen = [(user, 1 + turn * period + user % period) for turn in range(each) for user in range(users)]
    for number, (user, round_) in enumerate(chosen[:: len(chosen) // count][:count]):
        if number and number % BETWEEN_REPAIRS == 0:
            device.repair()
        cpu = time.process_time()
        took.append(timed(partial(device.forget, f"user {user}", rounds=[round_], repair="later")))
        busy.append(time.process_time() - cpu)
        flushes.append(_flushes(folder.parent / "flushed"))
    return took, busy, flushes


def _flushes(path: Path, count: int = WAITS) -> float:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:

        def flush() -> None:
            for _ in range(count):
                os.pwrite(descriptor, bytes(4096), 0)
                os.fdatasync(descriptor)

        return timed(flush)
    finally:
        os.close(descriptor)


def _upload(draw: np.random.Generator) -> tuple[Any, Any]:
    """What one user sends: bytes and labels."""
    return draw.integers(256, size=(UPLOAD, FEATURES), dtype=np.uint8), draw.integers(10, size=UPLOAD)


def _command(*args: str) -> None:
    subprocess.run([sys.executable, "-m", "cause", *args], check=True, stdout=subprocess.DEVNULL)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def p99(values: Sequence[float]) -> float:
    """The value that 99 % do not exceed; of fewer than a hundred the greatest."""
    return sorted(values)[int(np.ceil(0.99 * len(values))) - 1]


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def growth() -> dict[str, list[dict[str, Any]]]:
    """Both series, and the table of each."""
    measured: dict[tuple[int, int], dict[str, Any]] = {}
    for point in (point for points in GROWTH.values() for point in points):
        if point not in measured:
            with tempfile.TemporaryDirectory() as folder:
                measured[point] = measure(*point, Path(folder) / "home")
    found = {title: [measured[point] for point in points] for title, points in GROWTH.items()}
    for title, rows in found.items():
        _show(title, rows)
    return found


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    shown = {
        "samples": ("{:,}", "samples", ""), "users": ("{:,}", "users", ""), "sub-models": ("{}", "sub_models", ""),
        "keys": ("{:,}", "keys", ""), "ingest, MB/s": ("{:.0f}", "ingest_mb_s", "≥ 50"),
        "forget an upload of 100, repair later: median, ms": ("{:.1f}", "forget_median_ms", ""),
        "… p99, ms": ("{:.1f}", "forget_p99_ms", "< 50"),
        f"… {WAITS} bare flushes beside each: p99, ms": ("{:.1f}", "flushes_p99_ms", ""),
        "… CPU time of a forget: median, ms": ("{:.1f}", "forget_cpu_ms", ""),
        "open, s": ("{:.3f}", "open_s", "< 0.5"), "status of an open home, s": ("{:.4f}", "status_s", "< 0.2"),
        "`cause status HOME --json`, whole process, s": ("{:.2f}", "status_command_s", ""),
        "… `cause --help` beside it, s": ("{:.2f}", "help_command_s", ""),
    }  # fmt: skip
    print_table(
        f"{title}; samples of 3 kB in uploads of {UPLOAD}, {ROUNDS} rounds, {SHARDS} shards",
        ["", "×1", "×4", "×16", "×16 / ×1", "asked for at 100,000 samples, 1,000 users"],
        [
            [what, *(form.format(row[name]) for row in rows), f"{rows[-1][name] / rows[0][name]:.1f}", asked]
            for what, (form, name, asked) in shown.items()
        ],
        note="Where bare flushes alone take many ms, other programs are keeping the machine from them: measure again.",
    )


def main() -> None:
    """Measure and show."""
    parts: dict[str, Callable[[], Any]] = {"growth": growth, "ledger": ledger.shares}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.home", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="which; both by default")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    asked = parser.parse_args()
    found = {name: parts[name]() for name in asked.parts or parts}
    if asked.json:
        print_json({"machine": hardware(), **found})


if __name__ == "__main__":
    main()
