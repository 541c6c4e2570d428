"""Random layers over cached features of an .onnx backbone, with the λ that the product chooses from the state.

cause backbone export efficientnet-lite0 out/lite0-224.onnx --size 224
python -m benchmarks.additive_heads features --backbone out/lite0-224.onnx --data DIR --cache out/cifar10-224
python -m benchmarks.additive_heads heads --backbone out/lite0-224.onnx --data DIR --cache out/cifar10-224 \
    --expand 0 4096 8192 --out results/additive-heads.json

`features` computes some more pictures at each call, one at a time on one thread as a device does, and says how many are
missing. `heads` adds up all training pictures with the product's own code, solves, and tests; nothing is chosen on test
pictures. The product's rule (generalised cross-validation from the state) is beside the former constant.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.cli.output import print_table
from cause.data.loading import load
from cause.lab.provenance import write_result
from cause.learners.additive import AdditiveLearner
from cause.learners.additive.gcv import SHARES, share_by_gcv

PROGRAM = ("python", "-m", "benchmarks.additive_heads")
CLASSES = 10
ROWS = 2_048
"""Samples that are added together."""


def learner_of(asked: argparse.Namespace, expand: int = 0) -> AdditiveLearner:
    """The product's learner with this backbone."""
    return AdditiveLearner(asked.backbone, classes=CLASSES, expand=expand)


def cache_of(asked: argparse.Namespace, split: str, count: int, width: int) -> tuple[np.memmap[Any, Any], Path]:
    """The recorded rows of a split, zeros where they are missing, and the file that says how many there are."""
    path, done = asked.cache / f"{split}.npy", asked.cache / f"{split}.done"
    asked.cache.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        np.lib.format.open_memmap(path, "w+", np.uint8, (count, width)).flush()
    return np.lib.format.open_memmap(path, "r+"), done


def features(asked: argparse.Namespace) -> None:
    """Compute the features of the next pictures: those of the test first."""
    learner, left = learner_of(asked), asked.images
    for split in ("test", "train"):
        data = load("cifar10", split, root=asked.data)
        rows, done = cache_of(asked, split, len(data.y), learner.recorded(np.moveaxis(data.x[:1], -1, 1)).shape[1])
        begin = int(done.read_text()) if done.exists() else 0
        end = min(len(data.y), begin + left)
        start = time.process_time()
        if end > begin:
            rows[begin:end] = learner.recorded(np.ascontiguousarray(np.moveaxis(data.x[begin:end], -1, 1)))
            rows.flush()
            done.write_text(str(end))
            each_ms = (time.process_time() - start) * 1e3 / (end - begin)
            print(f"{split}: {end:,} of {len(data.y):,}, {each_ms:.1f} ms each")
        left -= end - begin
        if left <= 0:
            return
    print("all features are there")


def heads(asked: argparse.Namespace) -> None:
    """Add everything up, solve with several λ, and test."""
    found: list[dict[str, Any]] = []
    labels = {split: load("cifar10", split, root=asked.data).y for split in ("train", "test")}
    rows = {split: np.load(asked.cache / f"{split}.npy", mmap_mode="r") for split in labels}
    counts = {split: int((asked.cache / f"{split}.done").read_text()) for split in labels}
    for expand in asked.expand:
        learner, start = learner_of(asked, expand), time.perf_counter()
        state = learner.empty()
        for z, y, _ in _blocks(learner, rows["train"], labels["train"], counts["train"]):
            learner.head.add(state, z, y)
            state.samples += len(y)
        gram, cross = state.parts["gram"].matrix(), state.parts["cross"].astype(np.float64)
        shares = {"rule": share_by_gcv(gram, cross, state.samples), "constant": learner.backbone.regularization}
        shares |= {"best of the grid, chosen on the test": None} if asked.grid else {}
        del gram
        accuracy: dict[str, float] = {}
        for name, share in shares.items():
            for each in SHARES if share is None else (share,):
                head = type(learner.head)(replace(learner.head.setting, regularization=each))
                solution, right = head.solve(state), 0
                for z, y, _ in _blocks(learner, rows["test"], labels["test"], counts["test"]):
                    right += int((np.argmax(solution.probabilities(z), axis=1) == y).sum())
                accuracy[name] = max(accuracy.get(name, 0.0), right / counts["test"])
        row: dict[str, Any] = {
            "units": expand, "state_bytes": learner.sub_model_bytes, "lambda": shares, "accuracy": accuracy,
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
        found.append(row)
        result = {"backbone": learner.backbone.identity, "learned": counts["train"], "tested": counts["test"]}
        if asked.out is not None:
            write_result(asked.out, {**result, "rows": found}, PROGRAM)
        print(row, flush=True)
    columns = ["units", "state, MB", *found[0]["accuracy"]]
    print_table(
        f"{counts['train']:,} learned, {counts['test']:,} tested", columns,
        [[f"{row['units']:,}", f"{row['state_bytes'] / 1e6:.1f}", *(f"{100 * x:.1f}" for x in row["accuracy"].values())]
         for row in found],
    )  # fmt: skip


def _blocks(learner: AdditiveLearner, rows: NDArray[Any], y: NDArray[np.int64], count: int) -> Any:
    for start in range(0, count, ROWS):
        end = min(start + ROWS, count)
        yield from learner.blocks_of(np.asarray(rows[start:end]), y[start:end].astype(np.int64))


def main() -> None:
    """Compute features, or measure heads."""
    parser = argparse.ArgumentParser(prog=" ".join(PROGRAM), description=__doc__)
    parser.add_argument("what", choices=("features", "heads"))
    parser.add_argument("--backbone", required=True, help="an .onnx file, as `cause backbone export` writes it")
    parser.add_argument("--data", type=Path, required=True, help="the folder with CIFAR-10, as for cause reproduce")
    parser.add_argument("--cache", type=Path, required=True, help="where features are kept")
    parser.add_argument("--images", type=int, default=2_500, help="how many pictures one call computes")
    parser.add_argument("--expand", type=int, nargs="*", default=[0, 4_096, 8_192])
    parser.add_argument("--grid", action="store_true", help="also the best λ on the test: a bound, no result")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    {"features": features, "heads": heads}[asked.what](asked)


if __name__ == "__main__":
    main()
