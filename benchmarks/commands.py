"""How long each command takes as a process of its own, for two versions in turn.

`python -m benchmarks.commands --before DIR --json results/commands.json`: DIR is another checkout (`git worktree add`).
Commands of both are run in turn, so that a busy machine slows both; the ratio is of the medians.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cause.cli.output import print_table
from cause.lab.provenance import write_result

ROOT = Path(__file__).parents[1]
LEARNERS = {
    "torch": ["--model", "mlp", "--shape", "1,8,8", "--epochs", "1"],
    "sklearn": ["--estimator", "GaussianNB", "--features", "64"],
}
FORGET = ["forget", "home", "--user", "user1", "--rounds", "1", "--count", "5"]
COMMANDS: dict[str, list[str]] = {
    "--help": ["--help"],
    "init": ["init", "new"],
    "learn": ["learn", "home", "data.npz"],
    "status": ["status", "home"],
    "forget": FORGET,
    "forget --repair later": [*FORGET, "--repair", "later"],
    "forget --plan": [*FORGET, "--plan"],
    "receipts": ["receipts", "home"],
    "verify": ["verify", "--home", "home"],
    "doctor": ["doctor"],
}


def _run(source: Path, folder: Path, command: Sequence[str]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "cause", *command], cwd=folder, env=environment, check=True, capture_output=True
    )
    taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _prepared(source: Path, learner: str) -> Path:
    """A folder with data and a home with one round, a receipt among it."""
    folder = Path(tempfile.mkdtemp())
    draw = np.random.default_rng(0)
    users = np.array([f"user{i % 4}" for i in range(600)])
    np.savez(folder / "data.npz", x=draw.random((600, 64)).astype(np.float32), y=draw.integers(0, 10, 600), users=users)
    for command in (["init", "home", *LEARNERS[learner]], ["learn", "home", "data.npz"], [*FORGET, "--count", "1"]):
        _run(source, folder, command)
    return folder


def _copied(folder: Path) -> Path:
    into = Path(tempfile.mkdtemp()) / "copy"
    shutil.copytree(folder, into)
    return into


def measured(sources: dict[str, Path], learner: str, times: int) -> list[dict[str, Any]]:
    """A row for each command."""
    homes = {name: _prepared(source, learner) for name, source in sources.items()}
    rows = []
    for name, command in COMMANDS.items():
        taken: dict[str, list[tuple[float, float]]] = {version: [] for version in sources}
        for _ in range(times):
            for version, source in sources.items():
                folder = _copied(homes[version])
                own = [*command, *LEARNERS[learner]] if name == "init" else command
                taken[version].append(_run(source, folder, own))
                shutil.rmtree(folder.parent)
        row: dict[str, Any] = {"learner": learner, "command": name}
        for version, found in taken.items():
            row[f"{version}_s"] = round(statistics.median(wall for wall, _ in found), 2)
            row[f"{version}_cpu_s"] = round(statistics.median(cpu for _, cpu in found), 2)
        if "before" in sources:
            row["ratio_cpu"] = round(row["after_cpu_s"] / row["before_cpu_s"], 2)
        rows.append(row)
        print(row, file=sys.stderr)
    for folder in homes.values():
        shutil.rmtree(folder)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--learner", choices=sorted(LEARNERS), action="append")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    sources = ({} if given.before is None else {"before": given.before.resolve()}) | {"after": ROOT}
    rows: list[dict[str, Any]] = []
    for learner in given.learner or sorted(LEARNERS, reverse=True):
        rows += measured(sources, learner, given.times)
        result = {"before": _commit(given.before), "times": given.times, "load": os.getloadavg(), "commands": rows}
        if given.json is not None:
            write_result(given.json, result, ("python", "-m", "benchmarks.commands"))
    print_table(
        "Seconds of processor time, median",
        ["learner", "command", "before", "after"],
        [
            [row["learner"], row["command"], f"{row.get('before_cpu_s', 0):.2f}", f"{row['after_cpu_s']:.2f}"]
            for row in rows
        ],
    )


def _commit(folder: Path | None) -> str | None:
    if folder is None:
        return None
    found = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
