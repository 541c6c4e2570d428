"""What overwriting freed memory costs in training on a CPU. `python -m benchmarks.freed_memory [--json FILE]`.

Each learner trains the same segment in turns with and without it, in one process; CPU time is compared, so that other
programs on the machine matter little.
"""

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.learning import digits, pictures
from cause.cli.output import print_table
from cause.common.zeroize import FILL, M_PERTURB
from cause.device.device import Cause
from cause.engine.learner import Learner
from cause.lab.provenance import write_result
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner

TURNS = 7
NAMES = ("mlp, digits", "cnn, digits", "cnn, 3x32x32, batches of 256", "GaussianNB, digits")


def training(name: str) -> Callable[[], object]:
    """A call that trains one segment from scratch, in a device without a home."""
    learner: Learner
    if name.startswith("GaussianNB"):
        from sklearn.naive_bayes import GaussianNB

        x, y = digits(5_000)
        learner, x = SklearnLearner(GaussianNB(), classes=10, features=64), x.reshape(len(x), -1)
    elif "32x32" in name:
        x, y = pictures(512, 32)
        learner = TorchLearner("cnn", classes=10, shape=(3, 32, 32), epochs=1, batch_size=256)
    else:
        x, y = digits(1_000)
        learner = TorchLearner(name.split(",")[0], classes=10, shape=(1, 8, 8), epochs=3)
    return lambda: Cause(learner=learner, system="sisa", shards=1, memory="1GB").learn({"u": (x, y)})


def measure(name: str, turns: int = TURNS) -> dict[str, float | str]:
    """CPU seconds of one training, with freed memory as it is and overwritten (medians)."""
    train, library = training(name), ctypes.CDLL(None)
    taken: dict[int, list[float]] = {0: [], FILL: []}
    try:
        for turn in range(2 * turns + 2):
            fill = FILL if turn % 2 else 0
            library.mallopt(M_PERTURB, fill)
            start = time.process_time()
            train()
            if turn >= 2:  # the first of each warms up
                taken[fill].append(time.process_time() - start)
    finally:
        library.mallopt(M_PERTURB, 0)
    plain, overwritten = statistics.median(taken[0]), statistics.median(taken[FILL])
    return {"learner": name, "plain_s": plain, "overwritten_s": overwritten, "ratio": overwritten / plain}


def main() -> None:
    """Measure, show; write a file where one is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.freed_memory", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results into this file, with commit, machine and date")
    options = parser.parse_args()
    rows = [measure(name) for name in NAMES]
    print_table(
        "CPU time of one training, by whether freed memory is overwritten",
        ["learner", "as it is, s", "overwritten, s", "ratio"],
        [
            [str(row["learner"]), *(f"{row[name]:.3f}" for name in ("plain_s", "overwritten_s", "ratio"))]
            for row in rows
        ],
    )
    if options.json is not None:
        write_result(options.json, rows, ("python", "-m", "benchmarks.freed_memory"))


if __name__ == "__main__":
    main()
