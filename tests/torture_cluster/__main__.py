"""`make torture-cluster`: forgets among trainings on three Ray nodes that are killed, stopped and cut off.

Every node has a network namespace, so that links can be cut for real; the device and the head of Ray run outside. After
each forget plus the lease plus a second nothing forgotten may be left anywhere. Ends with 1 on any violation.
"""

import argparse
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cause.executors.cluster.other_environments import WHOLE_SHARDS
from cause.lab.provenance import write_result
from tests.device.homes import MASTER
from tests.process_memory import readable
from tests.torture_cluster import network
from tests.torture_cluster.life import Life, Tally
from tests.torture_cluster.nodes import Cluster

NODES = 3
FORGETS_PER_LIFE = 80
WHOLE_SHARDS_LIFE: dict[str, Any] = {"learner": "ByProcessor", "other_environments": WHOLE_SHARDS}
"""Every third life: the node without vector instructions trains whole shards, which have other bits."""


def why_not() -> str | None:
    """Return why it cannot run here; None if it can."""
    if find_spec("ray") is None:
        return "Ray is not installed: pip install 'cause[ray]'"
    if not readable():
        return "the memory of processes cannot be read here (/proc/PID/mem)"
    return network.why_not()


def run(forgets: int, seed: int, lease: float, tally: Tally, show: Any = print, minutes: float = math.inf) -> None:
    """Run lives until so many forgets have returned, or the time is over."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    os.environ["OMP_NUM_THREADS"] = "1"
    folder, start = Path(tempfile.mkdtemp(prefix="ct")), time.monotonic()
    try:
        with network.Network(NODES, os.getpid() % 200 + 20) as made, Cluster(made, folder) as cluster:
            while tally.forgets < forgets and time.monotonic() < start + 60 * minutes:
                life_folder = folder / f"life{seed}"
                life_folder.mkdir()
                before = len(tally.violations)
                how = WHOLE_SHARDS_LIFE if seed % 3 == 0 else {}
                life = Life(cluster, life_folder, seed, lease, tally, **how)
                try:
                    life.live(min(FORGETS_PER_LIFE, forgets - tally.forgets))
                except Exception as error:
                    tally.violations.append(f"life {seed}: ended by {type(error).__name__}: {error}")
                    life.abandon()
                if len(tally.violations) == before:
                    shutil.rmtree(life_folder)
                seed += 1
                spent = (time.monotonic() - start) / 60
                show(
                    f"{spent:5.1f} min  {tally.lives} lives, {tally.forgets:,} of {forgets:,} forgets, "
                    f"{sum(tally.faults.values()):,} faults, {len(tally.violations)} violations"
                )
                for violation in tally.violations[before:]:
                    show(f"  {violation}")
    finally:
        if not tally.violations:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            show(f"homes, logs and stacks of the lives with violations are in {folder}")


def summary(options: argparse.Namespace, tally: Tally, seconds: float) -> dict[str, Any]:
    """Return what is written as JSON."""
    times = sorted(tally.forget_s)
    return {
        "nodes": NODES,
        "lease_s": options.lease,
        "seconds": round(seconds),
        "lives": tally.lives,
        "lives_of_whole_shards": tally.lives_of_whole_shards,
        "shards_of_another_environment": tally.shards_elsewhere,
        "rounds": tally.rounds,
        "forgets": tally.forgets,
        "samples_forgotten": tally.samples_forgotten,
        "device_kills": tally.device_kills,
        "faults": dict(tally.faults.most_common()),
        "errors_answered_and_retried": dict(tally.errors.most_common()),
        "checks": tally.checks,
        "processes_searched": tally.processes_searched,
        "longest_hit_in_the_device_after_s": round(tally.device_held_s, 1),
        "load_average_at_the_end": [round(each, 1) for each in os.getloadavg()],
        "forget_later_s": {
            "count": len(times),
            "median": round(times[len(times) // 2], 3) if times else None,
            "p99": round(times[int(0.99 * (len(times) - 1))], 3) if times else None,
            "max": round(times[-1], 3) if times else None,
        },
        "violations": tally.violations,
    }


def main() -> int:
    """Run it and show a summary."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture_cluster", description=__doc__)
    parser.add_argument("--forgets", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first life (default: 0)")
    parser.add_argument("--lease", type=float, default=1.0, help="seconds of a lease (default: 1)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no life after so many minutes")
    parser.add_argument("--json", metavar="FILE", help="write a summary to this file; - for the standard output")
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes and namespaces are removed all the same
    tally, start = Tally(), time.monotonic()
    run(
        options.forgets, options.seed, options.lease, tally,
        lambda line: print(line, file=sys.stderr if options.json == "-" else sys.stdout, flush=True),
        options.minutes,
    )  # fmt: skip
    result = summary(options, tally, time.monotonic() - start)
    if options.json and options.json != "-":
        write_result(Path(options.json), result, ("python", "-m", "tests.torture_cluster"))
    else:
        print(json.dumps(result, indent=1))
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
