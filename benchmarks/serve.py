"""What the service costs: predictions beside calls in the process, erasures while a round trains, memory.

python -m benchmarks.serve [--seconds 5] [--json]
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from cause.cli.output import print_json, print_table
from cause.client import Client
from cause.common.machine import hardware
from cause.device.device import Cause
from cause.lab.digits import load_digits
from cause.service.predictor_cache import PredictorCache
from cause.service.service import tokens_of

USERS, SHARDS, CLIENTS = 60, 4, 64
ERASURES, PAUSE_S = 40, 1.5
"""A worker that was stopped takes a second or two to start again; without a pause nothing would ever train."""


def make(folder: Path, kind: str, epochs: int = 5) -> None:
    """A home that has learned digits."""
    os.environ["CAUSE_BENCH_KEY"] = "ab" * 32
    x, y = load_digits()
    if kind == "torch":
        from cause.learners.torch import TorchLearner

        learner: Any = TorchLearner("cnn", classes=10, shape=(1, 8, 8), std=16.0, epochs=epochs)
    else:
        from sklearn.naive_bayes import GaussianNB

        from cause.learners.sklearn import SklearnLearner

        learner = SklearnLearner(GaussianNB(), classes=10, features=64)
    system = "cause-no-sc:policy=cost,requests=coalesced"
    with Cause(folder, learner=learner, system=system, shards=SHARDS, memory="64MB",
               key={"env": "CAUSE_BENCH_KEY"}) as device:  # fmt: skip
        device.learn({f"user {n}": (x[n::USERS], y[n::USERS]) for n in range(USERS)})


class Served:
    """The service in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]

    def __enter__(self) -> "Served":
        tokens = tokens_of(self.folder)
        self.secret = tokens.create(["operator"])[1]
        tokens.close()
        command = [sys.executable, "-m", "cause", "serve", str(self.folder), "--port", str(self.port), "--quiet"]
        self.process = subprocess.Popen(command, env={**os.environ, "CAUSE_SERVE_RATE": "1000000"})
        self.client = Client(f"http://127.0.0.1:{self.port}", self.secret)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return self
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *error: object) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def memory_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return float("nan")


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def in_process(folder: Path, x: Any, seconds: float) -> list[float]:
    """The same heads, asked without a service."""
    took: list[float] = []
    with Cause(folder, read_only=True) as device:
        heads, end = PredictorCache(device), time.perf_counter() + seconds
        heads.predict(x[:1])
        while time.perf_counter() < end:
            start = time.perf_counter()
            heads.predict(x[len(took) % len(x)][None])
            took.append(time.perf_counter() - start)
    return took


def raw_request(secret: str, row: Any) -> bytes:
    body = json.dumps({"inputs": [np.asarray(row).reshape(-1).tolist()]}).encode()
    head = f"POST /v1/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
    return (head + f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


async def _asking(port: int, request: bytes, end: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(next(line for line in head.split(b"\r\n") if line.startswith(b"content-length")).split(b":")[1])
        await reader.readexactly(length)
        assert head.startswith(b"HTTP/1.1 200"), head
        took.append(time.perf_counter() - start)
    writer.close()


def over_http(port: int, secret: str, x: Any, clients: int, seconds: float) -> list[float]:
    """Clients that ask as fast as they are answered, on one core."""
    took: list[float] = []

    async def all_of_them() -> None:
        end = time.perf_counter() + seconds
        requests = [raw_request(secret, x[number % len(x)]) for number in range(clients)]
        await asyncio.gather(*(_asking(port, request, end, took) for request in requests))

    asyncio.run(all_of_them())
    return took


def predictions(folder: Path, seconds: float) -> dict[str, float]:
    x, _ = load_digits()
    alone = in_process(folder, x, seconds)
    with Served(folder) as served:
        over_http(served.port, served.secret, x, 1, 0.5)
        single = over_http(served.port, served.secret, x, 1, seconds)
        many = over_http(served.port, served.secret, x, CLIENTS, seconds)
    return {
        "in_process_p50_ms": 1e3 * statistics.median(alone),
        "http_p50_ms": 1e3 * statistics.median(single),
        "http_p99_ms": 1e3 * quantile(single, 0.99),
        "overhead_p50_ms": 1e3 * (statistics.median(single) - statistics.median(alone)),
        "throughput_s": len(many) / seconds,
        "many_p50_ms": 1e3 * statistics.median(many),
        "many_p99_ms": 1e3 * quantile(many, 0.99),
    }


def erasures(folder: Path) -> dict[str, float]:
    """One client erases user after user while a round trains."""
    x, y = load_digits()
    took, training = [], 0
    with Served(folder) as served:
        stop = threading.Event()

        def rounds() -> None:
            with Client(f"http://127.0.0.1:{served.port}", served.secret) as client:
                while not stop.is_set():
                    for number in range(SHARDS):
                        client.upload(f"more {time.time()}", x[number::SHARDS], y[number::SHARDS])
                    client.close_round()
                    stop.wait(4)

        thread = threading.Thread(target=rounds)
        thread.start()
        time.sleep(3)
        for number in range(ERASURES):
            training += served.client.status()["training"] is not None
            start = time.perf_counter()
            served.client.erase(f"user {number}")
            took.append(time.perf_counter() - start)
            time.sleep(PAUSE_S)
        stop.set()
        thread.join()
    return {
        "erasures": len(took), "training": training, "p50_ms": 1e3 * statistics.median(took),
        "p99_ms": 1e3 * quantile(took, 0.99),
    }  # fmt: skip


def memory(folder: Path, kind: str) -> float:
    """Idle, after one prediction."""
    make(folder, kind)
    with Served(folder) as served:
        served.client.predict(load_digits()[0][:1])
        time.sleep(1)
        return served.memory_mb()


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each way of predicting")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make(place / "predict", "torch")
        predicted = predictions(place / "predict", asked.seconds)
        make(place / "erase", "torch", epochs=60)
        erased = erasures(place / "erase")
        used = {kind: memory(place / kind, kind) for kind in ("torch", "sklearn")}
    if asked.json:
        print_json({"machine": hardware(), "predictions": predicted, "erasures": erased, "memory_mb": used})
        return
    print_table(
        "The service: digits, small CNN, 4 heads",
        ["what", "", "asked for"],
        [
            ["predict one, in the process, p50", f"{predicted['in_process_p50_ms']:.2f} ms", ""],
            ["predict one, over HTTP, p50", f"{predicted['http_p50_ms']:.2f} ms", ""],
            ["overhead, p50", f"{predicted['overhead_p50_ms']:.2f} ms", "≤ 3 ms"],
            ["predict one, over HTTP, p99", f"{predicted['http_p99_ms']:.2f} ms", ""],
            [f"predictions a second, {CLIENTS} clients", f"{predicted['throughput_s']:.0f}", "≥ 500"],
            [f"p50 and p99 with {CLIENTS} clients",
             f"{predicted['many_p50_ms']:.0f} and {predicted['many_p99_ms']:.0f} ms", ""],
            [f"erase in effect, p50 ({erased['training']} of {erased['erasures']} in the middle of a training)",
             f"{erased['p50_ms']:.0f} ms", ""],
            ["erase in effect, p99", f"{erased['p99_ms']:.0f} ms", "≤ 100 ms"],
            ["memory when idle, torch", f"{used['torch']:.0f} MB", ""],
            ["memory when idle, scikit-learn", f"{used['sklearn']:.0f} MB", ""],
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
