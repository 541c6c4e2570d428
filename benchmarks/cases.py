"""What is measured. Each case runs in a process of its own, so that its peak memory is its own."""

import json
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cause.common.hashing import root_key
from cause.engine.partition.ucdp import ucdp
from cause.engine.presets import PRESETS, parse_system
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import Add, Round, Trace, read_trace, write_trace
from cause.lab.workload import Workload


def long_trace(rounds: int, users: int = 200, seed: int = 0) -> Trace:
    """So many rounds, each with an upload of every user and one request for some of an earlier upload."""
    draw = random.Random(seed)
    left: dict[tuple[int, int], int] = {}
    made = []
    for number in range(1, rounds + 1):
        round_ = Round(number)
        for user in range(users):
            count = left[user, number] = draw.randint(1, 99)
            round_.adds.append(Add(f"u{user}", Part(count)))
        where = draw.randrange(users), draw.randint(1, number)
        while not left[where]:
            where = draw.randrange(users), draw.randint(1, number)
        count = draw.randint(1, left[where])
        left[where] -= count
        round_.forgets.append(Request(f"u{where[0]}", (where[1],), count))
        made.append(round_)
    return Trace(made)


def partition_users(users: int) -> dict[str, Any]:
    """UCDP on so many users, sizes as in the paper, S = 16."""
    draw = random.Random(0)
    sizes = {f"user-{i}": draw.randint(10, 10_000) for i in range(users)}
    return timed(lambda: {"users": len(ucdp(sizes, 16, {}, (root_key(0), 1)))})


def simulate_trace(system: str, path: str) -> dict[str, Any]:
    """A trace file from reading to result, S = 4, 256 slots."""

    def work() -> dict[str, Any]:
        result = simulate(read_trace(path), *parse_system(system), Setting(slots=256))
        return {"rsn": result.rsn, "floor_rsn": result.floor_rsn}

    return timed(work)


def simulate_paper(system: str) -> dict[str, Any]:
    """The paper's default workload."""
    trace = Workload().trace()
    return timed(lambda: {"rsn": simulate(trace, system, PRESETS[system]).rsn})


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of the whole process, beside what the work returns."""
    before = peak_mb()
    start, cpu = time.perf_counter(), time.process_time()
    answer = work()
    took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    return {**answer, **took, "before_mb": before, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory this process ever had; getrusage would count the parent's, from before it became this one."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def write_long_trace(rounds: int, folder: Path) -> Path:
    """The trace as a file."""
    path = folder / f"{rounds}.jsonl"
    write_trace(long_trace(rounds), path)
    return path


def learning(name: str, *args: str) -> dict[str, Any]:
    """A case of real training; torch is imported for these alone."""
    from benchmarks import learning as module

    told: dict[str, Any] = getattr(module, name)(*args)
    return told


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "partition": lambda users: partition_users(int(users)),
    "trace": simulate_trace,
    "paper": simulate_paper,
    "learning": learning,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*sys.argv[2:])))
