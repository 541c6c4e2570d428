"""What part of `learn` in a home is not training: ledger, vault, blocks, shelf, partition, identities."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cause.cli.output import print_table
from cause.device.device import Cause

USERS, UPLOAD, ROUNDS, SHARDS = 1_024, 100, 16, 4
EPOCHS = 10
KEY = "CAUSE_BENCH_KEY"
LEARNERS = {
    "digits CNN, 3×32×32": ("cnn", (3, 32, 32)),
    "ResNet-20, 3×32×32": ("benchmarks.learning:resnet20", (3, 32, 32)),
    "digits CNN, 1×8×8": ("cnn", (1, 8, 8)),  # a sample of 64 bytes: the least training that anybody would call so
}
SYSTEM = "cause-no-sc:policy=cost,requests=coalesced,pruning=none"


class Clock:
    """Seconds inside some methods, the outermost of nested ones only."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, timed."""

        def timed(*args: Any, **named: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*args, **named)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - start

        return timed


def share(which: str, folder: Path) -> dict[str, Any]:
    """A home of full size, filled without training; then rounds that train really, one upload for each shard.

    Whatever of `learn` is not the learner's own work counts as ledger work, and so does the time in which the learner
    waits for samples from their blocks.
    """
    from cause.device.store.stored_upload import StoredUpload
    from cause.learners.torch import TorchLearner

    os.environ[KEY] = "ab" * 32
    model, shape = LEARNERS[which]
    given = TorchLearner(model, classes=10, shape=shape, std=255.0, epochs=EPOCHS)
    device = Cause(folder, learner=given, key={"env": KEY}, system=SYSTEM, shards=SHARDS, slots=ROUNDS * SHARDS)
    learner = device.learner  # as it is composed with the system
    draw = np.random.default_rng(0)
    train = learner.train
    state = learner.decode(learner.encode(train(None, _small(draw, shape), bytes(32))))
    learner.train = lambda *args: state
    _tell(f"{which}: filling a home with {USERS * UPLOAD:,} samples")
    for t in range(ROUNDS - 1):
        device.learn({f"user {number}": _upload(draw, shape) for number in range(t, USERS, ROUNDS - 1)})
    training, codec, reading = Clock(), Clock(), Clock()
    learner.encode, learner.decode = codec.around(learner.encode), codec.around(learner.decode)
    reads = {name: getattr(StoredUpload, name) for name in ("arrays", "hashes", "labels", "names")}
    _tell(f"{which}: a round of {SHARDS} uploads, {EPOCHS} epochs")
    wrapped = {name: reading.around(method) for name, method in reads.items()}
    learner.train = training.around(_with(StoredUpload, wrapped, reads, train))
    start = time.perf_counter()
    done = device.learn({f"newcomer {number}": _upload(draw, shape) for number in range(SHARDS)})
    learn_s = time.perf_counter() - start
    keys = len(device.home.vault) if device.home else 0
    stored = len(device.memory)
    device.close()
    train_s = training.seconds - reading.seconds
    ledger_s = learn_s - train_s - codec.seconds
    return {
        "learner": which, "samples": USERS * UPLOAD, "users": USERS, "sample_bytes": int(np.prod(shape)),
        "sub_models": stored, "keys": keys,
        "trained": done.samples, "segments": len(done.trained), "learn_s": learn_s, "train_s": train_s,
        "codec_s": codec.seconds, "reading_s": reading.seconds, "ledger_s": ledger_s, "share": ledger_s / train_s,
    }  # fmt: skip


def _with(kind: type, during: dict[str, Any], after: dict[str, Any], train: Callable[..., Any]) -> Callable[..., Any]:
    """Train with other methods in a class, for as long as it lasts."""

    def work(*args: Any) -> Any:
        for name, method in during.items():
            setattr(kind, name, method)
        try:
            return train(*args)
        finally:
            for name, method in after.items():
                setattr(kind, name, method)

    return work


def _small(draw: np.random.Generator, shape: tuple[int, ...]) -> Any:
    from cause.engine.arrays import ArrayUpload
    from cause.engine.samples import Lesson, Piece, SegmentKey

    upload = ArrayUpload("alice", 1, *_upload(draw, shape))
    return Lesson(SegmentKey(0, 1), (Piece(upload, range(8)),), 8)


def _upload(draw: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    return draw.integers(256, size=(UPLOAD, *shape), dtype=np.uint8), draw.integers(10, size=UPLOAD)


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def shares() -> list[dict[str, Any]]:
    """Both learners, as a table."""
    rows = []
    for which in LEARNERS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(share(which, Path(folder) / "home"))
    print_table(
        f"Ledger work in a round, in a home with {USERS * UPLOAD:,} samples of {USERS:,} users: an upload of {UPLOAD} "
        f"pictures for each of {SHARDS} shards, {EPOCHS} epochs",
        ["learner", "sub-models", "keys", "learn s", "training s", "codec s", "all else s", "of training",
         "asked for (3 kB)"],
        [
            [row["learner"], str(row["sub_models"]), f"{row['keys']:,}", f"{row['learn_s']:.2f}",
             f"{row['train_s']:.2f}", f"{row['codec_s']:.3f}", f"{row['ledger_s']:.3f}", f"{row['share']:.2%}",
             "< 2 %" if row["sample_bytes"] == 3_072 else ""]
            for row in rows
        ],
        note="All else: ledger, vault, blocks (with the reading of samples during training), shelf, partition, ids.",
    )  # fmt: skip
    return rows
