"""Images a second of TorchLearner on a GPU: eager, recorded, several processes at once, beside a plain loop.

python -m benchmarks.gpu [--workers 1 2 4 8] [--out results/gpu.json]
python -m benchmarks.gpu --segments 1 6 [--device cpu --model cnn]: what a short segment costs, alone and beside others
python -m benchmarks.gpu --tails [--model mobilenetv2]: what a last batch of a new size costs, filled up and not
"""

import argparse
import json
import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cause.common.gpu_sharing import mps_daemon_runs
from cause.engine.arrays import TraceData
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.lab.provenance import write_result
from cause.lab.recipes import ours, paper
from cause.learners.torch import State, TorchLearner
from cause.learners.torch.models import depthwise, factory

SAMPLES = 12_800
FEW, MORE = 1, 8


def lesson(count: int = SAMPLES) -> Lesson:
    """Random bytes: speed does not depend on what the pictures show."""
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), draw.integers(0, 10, count)
    upload = TraceData(TraceUpload("u", 1, (Part(count),)), x, y)
    return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), count)


def learner(parent: State | None, *, graphs: bool = True, **changes: Any) -> TorchLearner:
    """One that goes on from this sub-model."""
    pruning = "none" if parent is None else "iterative"
    return TorchLearner(ours(pruning=pruning, **changes), device="cuda", graphs=graphs)


def rate(parent: State | None, *, graphs: bool = True, **changes: Any) -> float:
    """Images a second, without what a segment costs once: the difference between a few epochs and more."""
    seconds = {}
    for epochs in (FEW, FEW, MORE):  # the first one starts the GPU
        trainer = learner(parent, graphs=graphs, epochs=epochs, **changes)
        started = time.perf_counter()
        trainer.train(parent, lesson(), b"s" * 32)
        seconds[epochs] = time.perf_counter() - started
    return SAMPLES * (MORE - FEW) / (seconds[MORE] - seconds[FEW])


def pruned() -> State:
    """A network that lost 70 % of its parameters."""
    recipe = ours(epochs=2, pruning="iterative", steps=1)
    return TorchLearner(recipe, device="cuda").train(None, lesson(1024), b"s" * 32)


def plain_loop(seconds: float = 3.0) -> float:
    """A loop as SISA's code has it: a DataLoader, pictures augmented one by one on the CPU, the loss read each time."""
    given = lesson().pieces[0].upload
    x, y = given.arrays(given.positions)  # type: ignore[attr-defined]
    images, labels = torch.from_numpy(x).permute(0, 3, 1, 2).float().sub(120).div(64), torch.from_numpy(y)

    class Augmented(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
        def __len__(self) -> int:
            return len(labels)

        def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
            down, across = torch.randint(0, 9, (2,)).tolist()
            image = torch.nn.functional.pad(images[i], (4, 4, 4, 4))[:, down : down + 32, across : across + 32]
            return (image.flip(2) if torch.rand(()) < 0.5 else image), labels[i]

    network = factory("resnet34")(10, (3, 32, 32)).to("cuda")
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(Augmented(), 256, shuffle=True, num_workers=4, persistent_workers=True)
    done, started = -5, 0.0
    while True:
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(inputs.to("cuda")), wanted.to("cuda"))
            loss.backward()
            optimizer.step()
            loss.item()
            done += 1
            if done == 0:
                started = time.perf_counter()
            elif done > 0 and time.perf_counter() - started > seconds:
                return done * 256 / (time.perf_counter() - started)


def _worker(number: int, counts: list[int], parents: list[State | None], batch: int, gate: Barrier, out: Any) -> None:
    given, epochs = lesson(), 8
    for which, parent in enumerate(parents):
        first, timed = (learner(parent, epochs=e, batch_size=batch) for e in (1, epochs))
        first.train(parent, given, b"s" * 32)
        for count in counts:
            gate.wait(300)
            started = time.time()
            if number < count:
                timed.train(parent, given, b"s" * 32)
                out.put((which, count, started, time.time(), SAMPLES * epochs))
            gate.wait(300)


def together(counts: list[int], parents: list[State | None], batch: int) -> dict[str, list[float]]:
    """Images a second of several processes at once, start and end of a segment included."""
    spawn = multiprocessing.get_context("spawn")
    gate, out = spawn.Barrier(max(counts)), spawn.Queue()
    asked = [(number, counts, parents, batch, gate, out) for number in range(max(counts))]
    workers = [spawn.Process(target=_worker, args=each, daemon=True) for each in asked]
    for worker in workers:
        worker.start()
    found = [out.get(timeout=300) for _ in range(sum(counts) * len(parents))]
    for worker in workers:
        worker.join()
    rates: dict[str, list[float]] = {}
    for which, kind in enumerate(["dense" if parent is None else "pruned" for parent in parents]):
        for count in counts:
            own = [each for each in found if each[:2] == (which, count)]
            seconds = max(each[3] for each in own) - min(each[2] for each in own)
            rates.setdefault(kind, []).append(round(sum(each[4] for each in own) / seconds))
    return rates


def _segments(asked: tuple[str, str], gate: Barrier, out: Any) -> None:
    """Segments as S = 16 has them: seconds of each part, with recorded steps and without."""
    model, device = asked
    for count, epochs in ((90, 3), (312, 20)):
        given = lesson(count)
        for graphs in (True, False):
            trainer = TorchLearner(paper(model, epochs=epochs), device=device, graphs=graphs)
            blob = trainer.encode(trainer.train(None, given, b"s" * 32))  # finds out what the network bears
            gate.wait(300)
            marks = [time.perf_counter()]
            for _ in range(3):
                parent = trainer.decode(blob)
                marks.append(time.perf_counter())
                state = trainer.train(parent, given, b"s" * 32)
                marks.append(time.perf_counter())
                blob = trainer.encode(state)
                marks.append(time.perf_counter())
            parts = np.diff(marks).reshape(-1, 3).mean(axis=0)
            name = f"{count} samples, {epochs} epochs, {'recorded' if graphs else 'eager'}"
            out.put((name, dict(zip(("decode", "train", "encode"), parts.round(3).tolist(), strict=True))))


def segments(processes: int, model: str, device: str) -> dict[str, dict[str, float]]:
    """Seconds of the parts of a short segment: the mean over processes that train at once."""
    spawn = multiprocessing.get_context("spawn")
    gate, out = spawn.Barrier(processes), spawn.Queue()
    workers = [
        spawn.Process(target=_segments, args=((model, device), gate, out), daemon=True) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [out.get(timeout=300) for _ in range(4 * processes)]
    for worker in workers:
        worker.join()
    means: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for name, _ in found):
        own = [parts for each, parts in found if each == name]
        means[name] = {part: round(sum(each[part] for each in own) / len(own), 3) for part in own[0]}
    return means


def _tails(model: str, device: str, fills: bool, out: Any) -> None:
    depthwise.DEVICES = (device,) if fills else ()  # type: ignore[assignment]
    trainer = TorchLearner(paper(model, epochs=3), device=device)
    batch = trainer.recipe.batch_size
    state = trainer.train(None, lesson(2 * batch), b"s" * 32)
    seconds: dict[str, list[float]] = {"first": [], "again": []}
    for extra in (17, 42, 77, 101):
        for name in seconds:
            given, started = lesson(2 * batch + extra), time.perf_counter()
            trainer.train(state, given, b"s" * 32)
            seconds[name].append(round(time.perf_counter() - started, 3))
    out.put(seconds)


def tails(model: str, device: str) -> dict[str, dict[str, list[float]]]:
    """Seconds of segments that end with a batch of a new size, and of the same again; filled up to whole and not.

    Each way in a process of its own: what was compiled stays there.
    """
    spawn, found = multiprocessing.get_context("spawn"), {}
    for fills in (True, False):
        out = spawn.Queue()
        worker = spawn.Process(target=_tails, args=(model, device, fills, out), daemon=True)
        worker.start()
        found["filled" if fills else "as they are"] = out.get(timeout=300)
        worker.join()
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--only-workers", action="store_true")
    parser.add_argument("--batch", type=int, default=512, help="of the processes at once")
    parser.add_argument("--segments", type=int, nargs="*", help="only what a short segment costs, in so many processes")
    parser.add_argument("--tails", action="store_true", help="only what a last batch of a new size costs")
    parser.add_argument("--device", default="cuda", help="of the short segments")
    parser.add_argument("--model", default="resnet34", help="of the short segments")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.segments or asked.tails:
        found: dict[str, Any] = {
            f"{count} at once": segments(count, asked.model, asked.device) for count in asked.segments or ()
        }
        if asked.tails:
            found["last batches"] = tails(asked.model, asked.device)
        print(json.dumps(found, indent=1))
        if asked.out:
            if torch.cuda.is_available():
                torch.cuda.init()  # only other processes have used the card, and the result is to name it
            write_result(asked.out, found, ("python", "-m", "benchmarks.gpu"))
        return
    small = pruned()
    result: dict[str, Any] = {"workers": asked.workers, "batch": asked.batch, "mps_daemon": mps_daemon_runs()}

    def told() -> None:  # after each part: a run that is stopped has said what it saw
        print(json.dumps(result), flush=True)
        if asked.out:
            write_result(asked.out, result, ("python", "-m", "benchmarks.gpu"))

    if not asked.only_workers:
        for kind, parent in {"dense": None, "pruned": small}.items():
            for size in (128, 256, 512):
                result[f"{kind}, recorded, batch {size}"] = round(rate(parent, batch_size=size))
            result[f"{kind}, eager, batch 256"] = round(rate(parent, graphs=False, batch_size=256))
            told()
        adam = {k: getattr(paper(), k) for k in ("optimizer", "lr", "batch_size", "schedule", "augmentation")}
        adam |= {"nesterov": False, "weight_decay": 0.0, "label_smoothing": 0.0}
        result["dense, recorded, the paper's"] = round(rate(None, **adam))
        result["dense, recorded, the paper's, tf32"] = round(rate(None, **adam, compute="tf32"))
        told()
        result["dense, plain loop"] = round(plain_loop())
        told()
    result["together"] = together(asked.workers, [None, small], asked.batch) if asked.workers else {}
    told()


if __name__ == "__main__":
    main()
