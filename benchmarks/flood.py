"""What a service takes in memory while clients send as much as it lets them.

python -m benchmarks.flood [--clients 12] [--seconds 20] [--json]
"""

import argparse
import io
import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.serve import Served
from cause.cli.output import print_json, print_table
from cause.common.machine import hardware
from cause.device.device import Cause
from cause.service.settings import read_settings

VALUES = 3_072
"""Of an input: a small picture's."""


def make(folder: Path) -> None:
    """A home whose samples are large."""
    from sklearn.naive_bayes import GaussianNB

    from cause.learners.sklearn import SklearnLearner

    os.environ["CAUSE_BENCH_KEY"] = "ab" * 32
    learner = SklearnLearner(GaussianNB(), classes=10, features=VALUES)
    x, y = np.random.default_rng(0).normal(size=(50, VALUES)).astype(np.float32), np.arange(50) % 10
    with Cause(folder, learner=learner, shards=4, memory="64MB", key={"env": "CAUSE_BENCH_KEY"}) as device:
        device.learn({f"user {n}": (x + n, y) for n in range(8)})


def packed(size: int, *, dense: bool) -> bytes:
    """An upload of so many bytes when unpacked; one that is not dense is short when packed."""
    count = size // (4 * VALUES + 1) - 1
    draw = np.random.default_rng(1)
    x = draw.normal(size=(count, VALUES)).astype(np.float32) if dense else np.zeros((count, VALUES), np.float32)
    buffer = io.BytesIO()
    (np.savez if dense else np.savez_compressed)(buffer, x=x, y=np.zeros(count, np.uint8))
    return buffer.getvalue()


def peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def flood(folder: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Half of the clients send what is large, half what becomes large; one asks for single predictions meanwhile."""
    settings = read_settings()
    bodies = [packed(settings.body_bytes, dense=True), packed(settings.unpacked_bytes, dense=False)]
    answered: Counter[int] = Counter()
    took: list[float] = []
    with Served(folder) as served:
        served.client.predict(np.zeros((1, VALUES), np.float32))
        time.sleep(1)
        idle = peak_mb(served.process.pid)
        url, end = f"http://127.0.0.1:{served.port}/v1", time.monotonic() + seconds
        headers = {"Authorization": f"Bearer {served.secret}", "Content-Type": "application/x-npz"}

        def ask(number: int) -> None:
            path = "predictions" if number // 2 % 2 else f"users/user {number}/samples"
            with httpx.Client(timeout=60, trust_env=False) as client:
                while time.monotonic() < end:
                    answer = client.post(f"{url}/{path}", headers=headers, content=bodies[number % 2])
                    answered[answer.status_code] += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            start = time.perf_counter()
            served.client.predict(np.zeros((1, VALUES), np.float32))
            took.append(time.perf_counter() - start)
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        peak = peak_mb(served.process.pid)
    took.sort()
    return {
        "clients": clients, "idle_mb": idle, "peak_mb": peak, "answered": dict(sorted(answered.items())),
        "single_p50_ms": 1e3 * took[len(took) // 2], "single_max_ms": 1e3 * took[-1],
    }  # fmt: skip


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood", description=__doc__)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        make(home)
        done = flood(home, asked.clients, asked.seconds)
    if asked.json:
        print_json({"machine": hardware(), "cpus": os.cpu_count(), **done})
        return
    answers = ", ".join(f"{count}× {status}" for status, count in done["answered"].items())
    print_table(
        f"A service that {asked.clients} clients flood",
        ["what", ""],
        [
            ["memory when idle", f"{done['idle_mb']:.0f} MB"],
            ["memory at most", f"{done['peak_mb']:.0f} MB"],
            ["answers", answers],
            ["a single prediction meanwhile, p50", f"{done['single_p50_ms']:.0f} ms"],
            ["a single prediction meanwhile, at most", f"{done['single_max_ms']:.0f} ms"],
        ],
    )


if __name__ == "__main__":
    main()
