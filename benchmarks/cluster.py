"""Workers on Ray nodes beside workers of this machine. `python -m benchmarks.cluster [--json FILE]`.

Both sides run in turns in one process, so that other programs on the machine disturb both alike; compare the ratios,
not the seconds. `benchmarks.cluster_costs` has the costs of one message, one renewal, one segment.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_costs import all_costs
from benchmarks.cluster_learners import Computing
from cause.cli.output import print_table
from cause.engine.arrays import ArrayUpload
from cause.engine.executor import Executor, ShardWork, Task
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.executors import Processes
from cause.lab.provenance import write_result
from cause.learners import CountingLearner
from tests.executors.cluster.nodes import local_cluster

NODES = 2
SHARDS = 6
SEGMENT_S = 5.0
FEATURES = 768  # float32: 3 KB a sample, as a small picture


def shards_of(count: int, samples: int) -> list[ShardWork]:
    """Return the work of so many shards, a segment of so many samples each."""
    draw = np.random.default_rng(0)
    work = []
    for shard in range(count):
        x, y = draw.normal(size=(samples, FEATURES)).astype(np.float32), draw.integers(10, size=samples)
        upload = ArrayUpload(f"user {shard}", 1, x, y)
        piece = Piece(upload, upload.positions)
        lesson = Lesson(SegmentKey(shard, 1), (piece,), samples)
        work.append(ShardWork(shard, lambda: None, (Task(lesson, bytes([shard])),), lambda: True))
    return work


def seconds_of(executor: Executor, learner: CountingLearner, work: Sequence[ShardWork]) -> float:
    """Train, and return how long it took."""
    start = time.perf_counter()
    blobs = list(executor.train(learner, work, lambda *_: None))
    assert None not in blobs
    return time.perf_counter() - start


def in_turns(turns: int, sides: Mapping[str, Callable[[], float]], what: str) -> dict[str, Any]:
    """Measure both sides so often, one after the other, the first of each uncounted; with the ratio of each pair."""
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns + 1):
        for name in names if turn % 2 else reversed(names):
            taken = sides[name]()
            if turn:  # the first one starts workers
                seconds[name].append(taken)
        shown = ", ".join(f"{name} {taken[-1]:.2f} s" for name, taken in seconds.items() if taken)
        print(f"{what}: turn {turn} of {turns} {shown}", flush=True)
    local, ray = names
    ratios = [b / a for a, b in zip(seconds[local], seconds[ray], strict=True)]
    return {
        "what": what,
        "turns": turns,
        f"{local}_s": [round(each, 4) for each in seconds[local]],
        f"{ray}_s": [round(each, 4) for each in seconds[ray]],
        "median_ratio": statistics.median(ratios),
        "smallest_ratio": min(ratios),
        "largest_ratio": max(ratios),
    }


def starts(executor: Any) -> float:
    """Return how long it takes until a new worker has trained something that takes no time."""
    executor.retire(range(SHARDS))
    return seconds_of(executor, CountingLearner(), shards_of(1, 1))


def compare(address: str, turns: int) -> list[dict[str, Any]]:
    """Measure throughput, the overhead of a segment and the start of a worker."""
    from cause.executors.cluster import RayExecutor

    with closing(Processes(NODES)) as local, closing(RayExecutor(address, workers=NODES)) as ray:
        found = []
        for shards, learner, name in (
            (SHARDS, Computing(16), f"{SHARDS} computing segments on {NODES}"),
            (1, Computing.for_seconds(SEGMENT_S), f"a computing segment of about {SEGMENT_S:g} s"),
        ):
            for samples in (100, 5_000):
                work = shards_of(shards, samples)
                sides: dict[str, Callable[[], float]] = {
                    "local": partial(seconds_of, local, learner, work),
                    "ray": partial(seconds_of, ray, learner, work),
                }
                size = f"{samples:,} samples ({samples * FEATURES * 4 / 1e6:.1f} MB)"
                found.append(in_turns(turns, sides, f"{name}, {size}"))
        found.append(in_turns(turns, {"local": lambda: starts(local), "ray": lambda: starts(ray)}, "start of a worker"))
    return found


def main() -> None:
    """Measure, print and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="how often each side is measured (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    root = Path(__file__).parents[1]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # 15 by default: beside local workers they would get what these leave
    costs = all_costs()
    with local_cluster(nodes=NODES) as address:
        pairs = compare(address, options.turns)
    rows = [
        [pair["what"], statistics.median(pair["local_s"]), statistics.median(pair["ray_s"]), pair["median_ratio"]]
        for pair in pairs
    ]
    print_table(
        "Ray workers beside local ones (medians)",
        ["what", "local s", "ray s", "ratio"],
        [[what, f"{local:.2f}", f"{ray:.2f}", f"{ratio:.3f}"] for what, local, ray, ratio in rows],
    )
    print_table("Costs", ["what", "value"], [[name, f"{value:,.6g}"] for name, value in costs.items()])
    if options.json:
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        result = {"load_average_at_the_end": load, "pairs": pairs, "costs": costs}
        write_result(options.json, result, ("python", "-m", "benchmarks.cluster"))


if __name__ == "__main__":
    main()
