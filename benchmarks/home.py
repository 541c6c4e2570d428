"""What a durable device costs: ingest, forgetting, opening, and how that grows.

python -m benchmarks.home [--scale 1 4 16] [--json]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from cause.cli.output import print_json, print_table
from cause.learners.sklearn import SklearnLearner
from cause.machine import hardware
from cause.system import Cause

SAMPLES, USERS, ROUNDS, SHARDS, FEATURES = 100_000, 1_000, 16, 4, 3_072
UPLOAD = 100
FORGETS = 100


def upload(draw: np.random.Generator) -> tuple[Any, Any]:
    """What one user sends."""
    return draw.integers(256, size=(UPLOAD, FEATURES), dtype=np.uint8), draw.integers(10, size=UPLOAD)


def measure(share: float, folder: Path) -> dict[str, Any]:
    """A home with a share of the samples and users, used as a device would."""
    os.environ["CAUSE_BENCH_KEY"] = "ab" * 32
    users = max(ROUNDS, round(USERS * share))
    learner = SklearnLearner(GaussianNB(), classes=10, features=FEATURES)
    settings = {"system": "cause-no-sc:policy=cost,requests=coalesced", "shards": SHARDS, "slots": ROUNDS * SHARDS}
    device = Cause(folder / "home", learner=learner, key={"env": "CAUSE_BENCH_KEY"}, **settings)
    assert device.home is not None
    draw, record = np.random.default_rng(0), type(device.ledger).record
    spent = {"record": 0.0}

    def timed_record(ledger: Any, *args: Any) -> None:
        start = time.perf_counter()
        record(ledger, *args)
        spent["record"] += time.perf_counter() - start

    type(device.ledger).record = timed_record  # type: ignore[method-assign,assignment]
    start = time.perf_counter()
    for t in range(ROUNDS):
        names = [f"user {number}" for number in range(t, users, ROUNDS)]
        device.learn({name: upload(draw) for name in names})
    learn_s = time.perf_counter() - start
    type(device.ledger).record = record  # type: ignore[method-assign]
    ingested = users * UPLOAD * FEATURES / 2**20
    stored = len(device.memory)
    took = []
    for number in range(0, users, max(1, users // FORGETS)):
        start = time.perf_counter()
        device.forget(f"user {number}", repair="later")
        took.append(time.perf_counter() - start)
    keys = len(device.home.vault)
    device.close()
    opening = []
    for _ in range(5):
        start = time.perf_counter()
        device = Cause(folder / "home")
        opening.append(time.perf_counter() - start)
        device.close()
    return {
        "users": users, "samples": users * UPLOAD, "sub_models": stored, "keys": keys,
        "ingest_mb_s": ingested / spent["record"], "record_s": spent["record"], "learn_s": learn_s,
        "forgets": len(took), "forget_median_ms": 1e3 * statistics.median(took),
        "forget_p99_ms": 1e3 * sorted(took)[max(0, int(0.99 * len(took)) - 1)], "forget_most_ms": 1e3 * max(took),
        "open_s": statistics.median(opening),
    }  # fmt: skip


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.home", description=__doc__)
    parser.add_argument("--scale", type=int, nargs="*", default=[1, 4, 16], help="sixteenths of the full size")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = []
    for scale in asked.scale:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(scale / 16, Path(folder)))
    if asked.json:
        print_json({"machine": hardware(), "rows": rows})
        return
    print_table(
        "A home: samples of 3 kB in uploads of 100, 16 rounds, 4 shards (asked for at 100,000 samples: "
        "ingest ≥ 50 MB/s, forget p99 < 50 ms, open < 0.5 s)",
        ["samples", "users", "sub-models", "keys", "ingest MB/s", "forget ms", "p99 ms", "most ms", "open s"],
        [
            [f"{r['samples']:,}", f"{r['users']:,}", str(r["sub_models"]), f"{r['keys']:,}", f"{r['ingest_mb_s']:.0f}",
             f"{r['forget_median_ms']:.1f}", f"{r['forget_p99_ms']:.1f}", f"{r['forget_most_ms']:.1f}",
             f"{r['open_s']:.2f}"]
            for r in rows
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
