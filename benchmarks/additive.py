"""What forgetting costs an additive learner, beside refitting and beside retraining, on one core, as ratios in one run.

`python -m benchmarks.additive` prints the tables; `--samples` and `--forgets` make it smaller. CPU seconds are counted,
so that other processes of the machine disturb little; a durable call has its wall time beside them.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.additive_growth import COLUMNS, by_rounds, by_samples, table
from cause import AdditiveLearner, Cause, SklearnLearner
from cause.cli.output import print_json, print_table
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Piece
from cause.lab.provenance import write_result
from cause.learners.additive.gcv import share_by_gcv
from cause.learners.additive.solve import lapack, portable

PROGRAM = ("python", "-m", "benchmarks.additive")
FEATURES, CLASSES, FORGOTTEN, USERS = 1_280, 10, 400, 50


class Clock:
    """The CPU and the wall seconds of a piece of work."""

    cpu = wall = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Measure what is done inside."""
    clock, cpu, wall = Clock(), time.process_time(), time.perf_counter()
    yield clock
    clock.cpu, clock.wall = time.process_time() - cpu, time.perf_counter() - wall


def least(work: Callable[[], object], times: int = 5) -> Clock:
    """The fastest of several runs."""
    clocks = []
    for _ in range(times):
        with timed() as clock:
            work()
        clocks.append(clock)
    return min(clocks, key=lambda clock: clock.cpu)


def pictures(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features like those of a network that ends in ReLU: half of them zero, a class shifts some of the others."""
    draw = np.random.default_rng(seed)
    y = draw.integers(CLASSES, size=n)
    centres = np.random.default_rng(99).normal(scale=12, size=(CLASSES, FEATURES))
    x = draw.normal(scale=40, size=(n, FEATURES)).astype(np.float32) + centres[y]
    return np.clip(x, 0, 255).astype(np.uint8), y


def learner(**arguments: Any) -> AdditiveLearner:
    return AdditiveLearner(features=FEATURES, scale=(0, 255), classes=CLASSES, **arguments)


def speed(samples: int) -> dict[str, Any]:
    """Forget 400 of many samples, durably, with the new head solved; add 1,000; solve."""
    from sklearn.linear_model import Ridge, SGDClassifier

    each = samples // USERS
    uploads = {f"user {n}": pictures(each, n) for n in range(USERS)}
    made = learner()
    row: dict[str, Any] = {"samples": samples, "features": FEATURES, "state_mb": made.sub_model_bytes / 2**20}
    with tempfile.TemporaryDirectory() as folder:
        device = Cause(Path(folder) / "home", learner=made)
        for user, upload in uploads.items():
            device.learn({user: upload})
        device.predict(uploads["user 0"][0][:1])
        with timed() as clock:
            device.forget("user 7", rounds=[8], count=FORGOTTEN)
            device.predict(uploads["user 0"][0][:1])  # with the new head
        row |= {"forget_cpu_s": clock.cpu, "forget_wall_s": clock.wall}
        more = pictures(1_000, 1_000)
        with timed() as clock:
            device.learn({"more": more})
        row |= {"learn_1000_cpu_s": clock.cpu, "learn_1000_wall_s": clock.wall}
        device.close()
    recorded = ArrayUpload("ann", 1, made.recorded(more[0]), more[1])
    piece, state = Piece(recorded, recorded.positions), made.empty()
    z = np.concatenate([more[0], np.ones((1_000, 1))], axis=1).astype(np.float64)
    row["syrk_s"] = least(lambda: z.T @ z).cpu
    row["add_1000_s"] = least(lambda: made.add(state, piece)).cpu
    row["add_share"] = row["syrk_s"] / row["add_1000_s"]
    x = np.concatenate([x for x, _ in uploads.values()]).astype(np.float64)
    y = np.concatenate([y for _, y in uploads.values()])
    with timed() as clock:
        Ridge(alpha=1.0).fit(x[FORGOTTEN:], np.eye(CLASSES)[y[FORGOTTEN:]])
    row |= {"refit_s": clock.cpu, "refit_share": row["forget_cpu_s"] / clock.cpu}
    del x, y
    trained = Cause(
        learner=SklearnLearner(SGDClassifier(), classes=CLASSES, features=FEATURES), system="frugal", shards=4, slots=40
    )
    for start in range(0, USERS, 5):  # ten rounds
        trained.learn({f"user {n}": uploads[f"user {n}"] for n in range(start, start + 5)})
    with timed() as clock:
        (forgotten,) = trained.forget("user 7", rounds=[2], count=FORGOTTEN)
    row |= {"frugal_s": clock.cpu, "frugal_rsn": forgotten.rsn, "frugal_share": row["forget_cpu_s"] / clock.cpu}
    return row


def solving() -> list[dict[str, Any]]:
    """The time of either solution, and of choosing λ from the state, by the number of features."""
    rows = []
    for size in (129, 513, 1_281, 2_049):
        draw = np.random.default_rng(size)
        a = draw.normal(size=(size, size))
        a, b = a @ a.T + size * np.eye(size), draw.normal(size=(size, CLASSES))
        row = {"size": size, "lapack_s": least(partial(lapack, a, b), 3).cpu}
        row["gcv_s"] = least(partial(share_by_gcv, a, b, 2 * size), 1).cpu
        rows.append(row | {"portable_s": least(partial(portable, a, b), 1).cpu})
    return rows


MEMORY = """
import sys
for blocked in ("torch", "sklearn", "torch_pruning", "matplotlib"):
    sys.modules[blocked] = None  # as in an install without it: an import fails
sys.argv = ["cause", "serve", sys.argv[1], "--port", sys.argv[2], "--quiet"]
from cause.cli import main
main()
"""
"""Starts the service as an install of cause[additive,serve] would: no learning library can be imported."""


def memory(backbone: Path, size: int) -> dict[str, Any]:
    """What a service takes that has a backbone loaded and has predicted, without torch."""
    from cause.client import Client
    from cause.service.service import tokens_of

    os.environ["CAUSE_BENCH_KEY"] = "ab" * 32
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        made = AdditiveLearner(str(backbone), classes=CLASSES)
        draw = np.random.default_rng(0)
        pictures_ = draw.integers(0, 256, size=(20, *made.input_shape), dtype=np.uint8)
        with Cause(home, learner=made, key={"env": "CAUSE_BENCH_KEY"}) as device:
            device.learn({"ann": (pictures_, np.arange(20) % CLASSES)})
        tokens = tokens_of(home)
        secret = tokens.create(["operator"])[1]
        tokens.close()
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        process = subprocess.Popen([sys.executable, "-c", MEMORY, str(home), str(port)])
        try:
            _wait_for(port, process)
            started = _resident_mb(process.pid)
            with Client(f"http://127.0.0.1:{port}", secret) as client:
                labels = client.predict(pictures_[:1]).labels
            time.sleep(2)
            return {
                "backbone_mb": backbone.stat().st_size / 2**20, "size": size, "state_mb": made.sub_model_bytes / 2**20,
                "started_mb": started, "idle_mb": _resident_mb(process.pid), "predicted": len(labels),
            }  # fmt: skip
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the service did not start")


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def use_one_thread() -> None:
    """Start this program again with one thread for numpy, which reads its number of threads when it is imported."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.additive", *sys.argv[1:]])


def main() -> None:
    """Print the tables."""
    use_one_thread()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.additive", description=__doc__)
    parser.add_argument("sections", nargs="*", help="speed, solving, growth, rounds; memory, too, if it is named")
    parser.add_argument("--backbone", type=Path, help="of memory: an .onnx file of `cause backbone export`")
    parser.add_argument("--samples", type=int, default=50_000, help="held while 400 are forgotten")
    parser.add_argument("--held", type=int, default=1_000_000, help="the most samples of the growth")
    parser.add_argument("--forgets", type=int, default=10_000, help="in a row, at the most samples")
    parser.add_argument("--rounds", type=int, default=10_000, help="the most rounds of ten samples")
    parser.add_argument("--folder", type=Path, help="where growing homes are made; a folder for temporary files")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file, with command and commit")
    options = parser.parse_args()
    sections = options.sections or ["speed", "solving", "growth", "rounds"]
    results: dict[str, Any] = {}
    if options.samples < USERS * FORGOTTEN:
        parser.error(f"--samples is at least {USERS * FORGOTTEN:,}: each of {USERS} users has {FORGOTTEN} or more")
    if "speed" in sections:
        row = results["speed"] = speed(options.samples)
        print_table(
            f"{row['samples']:,} samples held, d = {FEATURES + 1:,}, state {row['state_mb']:.1f} MB, one core, CPU s",
            ["what", "s", "beside", "s", "ratio", "asked for"],
            [
                ["forget 400, durable, new head", f"{row['forget_cpu_s']:.3f} (wall {row['forget_wall_s']:.3f})",
                 "Ridge refit", f"{row['refit_s']:.2f}", f"{row['refit_share']:.3f}", "≤ 0.067"],
                ["the same", f"{row['forget_cpu_s']:.3f}", f"frugal's replay, RSN {row['frugal_rsn']:,}",
                 f"{row['frugal_s']:.2f}", f"{row['frugal_share']:.3f}", ""],
                ["add 1,000 in memory", f"{row['add_1000_s']:.3f}", "one float64 syrk", f"{row['syrk_s']:.3f}",
                 f"{row['add_share']:.2f}", "≥ 0.75"],
                ["learn 1,000, durable", f"{row['learn_1000_cpu_s']:.3f} (wall {row['learn_1000_wall_s']:.3f})", "", "",
                 "", ""],
            ],
        )  # fmt: skip
    if "solving" in sections:
        rows = results["solving"] = solving()
        print_table(
            "Solving the head, CPU s",
            ["d", "lapack", "λ by gcv", "portable", "×"],
            [
                [f"{r['size']:,}", f"{r['lapack_s']:.4f}", f"{r['gcv_s']:.3f}", f"{r['portable_s']:.3f}",
                 f"{r['portable_s'] / r['lapack_s']:.0f}"]
                for r in rows
            ],
        )  # fmt: skip
    if "growth" in sections:
        rows = results["growth"] = by_samples(options.held, options.forgets, options.folder)
        title = "Single forgets in a row, d = 44: CPU ms and kB written of each, in the first and in the last tenth"
        print_table(title, COLUMNS, table(rows))
        _write(options.out, results)  # the other table takes a while
    if "rounds" in sections:
        rows = results["rounds"] = by_rounds(options.rounds, options.forgets, options.folder)
        print_table("The same with ten samples in each of many rounds", COLUMNS, table(rows))
    if "memory" in sections:
        if options.backbone is None:
            parser.error("memory needs --backbone FILE.onnx: cause backbone export efficientnet-lite0 lite0.onnx")
        row = results["memory"] = memory(options.backbone, options.backbone.stat().st_size)
        print_table(
            "Memory of the service without torch, with an .onnx backbone loaded",
            ["what", "MB", "asked for"],
            [
                ["started", f"{row['started_mb']:.0f}", ""],
                ["idle after a prediction", f"{row['idle_mb']:.0f}", "≤ 170"],
                ["of which the file of the backbone", f"{row['backbone_mb']:.0f}", ""],
                ["of which the state", f"{row['state_mb']:.0f}", ""],
            ],
        )
    if options.json:
        print_json(results)
    _write(options.out, results)


def _write(path: Path | None, results: dict[str, Any]) -> None:
    if path is not None:
        write_result(path, results, PROGRAM)


if __name__ == "__main__":
    main()
