"""Test accuracy of additive learners on CIFAR-10, CIFAR-100 and SVHN, with the integer states of the product.

python -m benchmarks.additive_accuracy --data DIR --device cuda --out results/additive-accuracy.json

A card computes the features, in batches of one shape, and adds up the sums. Both are compared bit for bit with what the
product's own code makes of the same pictures on the CPU: the sums of all samples of CIFAR-10's plain ridge head, those
of some samples elsewhere. The head is solved, and the test pictures are predicted, by the product.

No constant is chosen on test pictures. λ is chosen by leave-one-out on training pictures, of the same set (`own`) or of
the other sets alone (`others`); the accuracy with the backbone's constant is beside it, and with a random layer that
of the product's rule (`gcv`), which looks at the state alone. Other ends of the scale and
other centres of the random layer are rows of their own, to be chosen by the leave-one-out of CIFAR-100 and SVHN. Each
row is written to the file as soon as it is there; an interrupted run has written what it measured.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cause.data.loading import load
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Piece
from cause.lab.provenance import write_result
from cause.learners.additive import AdditiveLearner, rows
from cause.learners.additive.backbones.efficientnet_lite0 import TYPICAL, efficientnet_lite0, loaded, weights_file
from cause.learners.additive.backbones.filters import LARGEST
from cause.learners.additive.backbones.module import ModuleBackbone
from cause.learners.additive.backbones.random_filters import SIDE, RandomFilters
from cause.learners.additive.expand import LARGEST as LEVELS
from cause.learners.additive.gcv import share_by_gcv
from cause.learners.additive.sums import Sums
from cause.learners.additive.triangle import Triangle

SETS = ("cifar100", "svhn", "cifar10")
"""CIFAR-10 last: its λ is chosen on the other two."""
BATCH = 256
"""Pictures that the card computes together; the last batch is filled up."""
BLOCK = 8_192
COMPARED = 1_024
"""Samples whose sums are also made by the product, where not all are."""
SHARES = (0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""The λ that leave-one-out chooses from."""
PROGRAM = ("python", "-m", "benchmarks.additive_accuracy")


@dataclass(frozen=True, eq=False)
class Pictures:
    """A data set, channels first."""

    name: str
    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    classes: int


def pictures_of(name: str, root: Path, most: int | None) -> Pictures:
    """Read a set; at most so many pictures of each split, the first ones of a fixed permutation."""
    parts: list[Any] = []
    for split in ("train", "test"):
        data = load(name, split, root=root)
        chosen = np.random.default_rng(0).permutation(len(data.y))[:most]
        parts += [np.ascontiguousarray(data.x[chosen].transpose(0, 3, 1, 2)), data.y[chosen]]
    x, y, x_test, y_test = parts
    return Pictures(name, x, y, x_test, y_test, data.classes)


# Features on the card


class Network:
    """EfficientNet-Lite0 on a device, in float32 and in batches of one shape."""

    def __init__(self, device: str, size: int) -> None:
        self._network, self._device, self._size = loaded(weights_file()).to(device), device, size

    @torch.no_grad()
    def __call__(self, x: NDArray[np.uint8]) -> torch.Tensor:
        found, side = [], (self._size, self._size)
        for start in range(0, len(x), BATCH):
            part = torch.from_numpy(x[start : start + BATCH])
            count = len(part)
            full = torch.cat([part, part[:1].expand(BATCH - count, -1, -1, -1)]) if count < BATCH else part
            scaled = functional.interpolate(full.to(self._device).float(), side, mode="bilinear", align_corners=False)
            inputs = ((scaled - 127) / 128).contiguous(memory_format=torch.channels_last)
            found.append(self._network(inputs)[:count].double())
        return torch.cat(found)


class Filters:
    """The product's random filters on a device: whole numbers below 2^24 in float32, so the bits are the same."""

    def __init__(self, device: str, backbone: RandomFilters) -> None:
        self._weights = torch.from_numpy(backbone._weights).to(device)
        self._divisor, self._device = backbone._divisor, device

    @torch.no_grad()
    def __call__(self, x: NDArray[np.uint8]) -> torch.Tensor:
        found = []
        for start in range(0, len(x), BATCH):
            part = torch.from_numpy(x[start : start + BATCH]).to(self._device).float()
            side = part.shape[-1] - SIDE + 1
            patches = functional.unfold(part, SIDE).transpose(1, 2)  # one row a place, channel by channel
            sums = (patches @ self._weights).reshape(len(part), side, side, -1)
            middle, quarters = (side + 1) // 2, []
            for lines in (slice(None, middle), slice(middle, None)):
                for columns in (slice(None, middle), slice(middle, None)):
                    for sign in (1, -1):
                        quarter = (sign * sums[:, lines, columns]).clamp(min=0)
                        quarters.append(quarter.sum(dim=(1, 2), dtype=torch.float64))
            pooled = torch.cat(quarters, dim=1).div(self._divisor).floor()  # whole numbers far below 2^53
            found.append(pooled.clamp(max=LARGEST))
        return torch.cat(found)


# Whole numbers, units and sums on the card: the product's formulas, operation by operation


def codes_of(learner: AdditiveLearner, features: torch.Tensor) -> torch.Tensor:
    """The features as whole numbers: `Scale.codes` of a linear scale."""
    low, high, largest = float(learner.scale.low), float(learner.scale.high), learner.scale.largest  # type: ignore[arg-type]
    codes = torch.empty(features.shape, dtype=torch.uint8, device=features.device)
    for start in range(0, len(features), BLOCK):
        unit = (features[start : start + BLOCK] - low) / (high - low)
        codes[start : start + BLOCK] = (unit * largest + 0.5).floor().clamp(0, largest).to(torch.uint8)
    return codes


class Entries:
    """What a head adds up, a block at a time: features or units, and the constant 1."""

    def __init__(self, learner: AdditiveLearner, codes: torch.Tensor, y: NDArray[np.int64]) -> None:
        self.codes, self.y, self._layer = codes, torch.from_numpy(y).to(codes.device), learner.expansion
        if self._layer is not None:
            self._weights, self._biases = (
                torch.from_numpy(part).to(codes.device) for part in (self._layer._weights, self._layer._biases)
            )

    def blocks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for start in range(0, len(self.codes), BLOCK):
            z = self.codes[start : start + BLOCK].double()
            if self._layer is not None:
                z = (z - self._layer.centre) @ self._weights + self._biases
                z = (z.clamp_(min=0) / self._layer.divisor).floor_().clamp_(max=LEVELS)
            one = torch.ones((len(z), 1), dtype=z.dtype, device=z.device)
            yield torch.cat([z, one], dim=1), self.y[start : start + BLOCK]


def sums_of(learner: AdditiveLearner, entries: Entries) -> Sums:
    """The state, added up on the card: whole numbers below 2^53 in float64."""
    size, classes = learner.head.setting.features + 1, learner.classes
    device = entries.codes.device
    gram = torch.zeros((size, size), dtype=torch.int64, device=device)
    cross = torch.zeros((size, classes), dtype=torch.int64, device=device)
    for z, y in entries.blocks():
        gram += (z.T @ z).long()
        cross += (z.T @ functional.one_hot(y, classes).double()).long()
    state, upper = learner.empty(), gram.cpu().numpy()[np.triu_indices(size)]
    state.parts["gram"] = Triangle.decoded(memoryview(upper.astype("<i8").tobytes()), size)
    state.parts["cross"] = cross.cpu().numpy()
    state.samples = len(entries.y)
    return state


def leave_one_out(learner: AdditiveLearner, state: Sums, entries: Entries) -> list[float]:
    """The share of training pictures that the head of all others names, for each λ (as `Ridge.leave_one_out`)."""
    device, found = entries.codes.device, []
    matrix = torch.from_numpy(state.parts["gram"].matrix()).to(device)
    cross = torch.from_numpy(state.parts["cross"]).double().to(device)
    trace = float(matrix.diagonal()[:-1].sum()) / max(state.samples, 1)
    for share in SHARES:
        penalised = matrix.clone()
        penalised.diagonal()[:-1] += share * max(trace, 1.0)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(penalised))
        weights, right = inverse @ cross, 0
        for z, y in entries.blocks():
            scores, leverage = z @ weights, ((z @ inverse) * z).sum(dim=1)
            at = torch.arange(len(y), device=device)
            scores[at, y] -= leverage
            # dividing by 1 - leverage, which is positive, does not change which score is the largest
            right += int((scores.argmax(dim=1) == y).sum())
        found.append(right / len(entries.y))
    return found


# What the product says


def piece_of(codes: NDArray[np.uint8], y: NDArray[np.int64]) -> Piece:
    """Samples as a device records them."""
    upload = ArrayUpload("user", 1, rows.packed(codes, np.zeros(len(codes), np.uint32)), y)
    return Piece(upload, upload.positions)


def tested(learner: AdditiveLearner, state: Sums, share: float, test: Piece) -> float:
    """The accuracy on test pictures of the product's solution with this λ."""
    head = type(learner.head)(replace(learner.head.setting, regularization=share))
    solution, right, count = head.solve(state), 0, 0
    for z, y, _ in learner.blocks(test):
        right += int((np.argmax(solution.probabilities(z), axis=1) == y).sum())
        count += len(y)
    return right / count


def compared(learner: AdditiveLearner, codes: torch.Tensor, y: NDArray[np.int64], state: Sums, *, whole: bool) -> int:
    """Add up samples by the product's own code and compare the bytes; the number of samples that were compared."""
    count = len(y) if whole else min(COMPARED, len(y))
    ours = learner.empty()
    learner.add(ours, piece_of(codes[:count].cpu().numpy(), y[:count]))
    theirs = state if count == len(y) else sums_of(learner, Entries(learner, codes[:count], y[:count]))
    if ours.encoded() != theirs.encoded():
        raise SystemExit("the sums of the card are not those of the product: nothing measured with them is valid")
    return count


class Measured:
    """Rows, and the file that they are written to."""

    def __init__(self, out: Path | None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {"shares": list(SHARES), "batch": BATCH}
        self._out, self._start = out, time.perf_counter()

    def add(self, row: dict[str, Any]) -> None:
        """Print a row, and write all."""
        row["at_s"] = round(time.perf_counter() - self._start, 1)
        self.rows.append(row)
        shown = {k: v for k, v in row.items() if k not in ("state_sha256", "leave_one_out", "at_s")}
        print(f"{row['at_s']:7.1f} s", shown, flush=True)
        self.write()

    def write(self) -> None:
        if self._out is not None:
            write_result(self._out, {**self.notes, "rows": self.rows}, PROGRAM)

    def others_choice(self, row: dict[str, Any]) -> float | None:
        """The λ with the best mean of leave-one-out over the other sets, for the same features."""
        same = ("backbone", "size", "expand", "scale_high", "typical")
        others = [r for r in self.rows if r["data"] != row["data"] and all(r.get(k) == row.get(k) for k in same)]
        if not others:
            return None
        means = np.mean([other["leave_one_out"] for other in others], axis=0)
        return SHARES[int(means.argmax())]


def measure(
    data: Pictures, learner: AdditiveLearner, features: torch.Tensor, test: torch.Tensor, found: Measured,
    named: dict[str, Any], choose: bool = True,
) -> None:  # fmt: skip
    """One row: sums, λ by leave-one-out (unless only the constant is asked for), and the accuracy on test pictures."""
    start = time.perf_counter()
    codes = codes_of(learner, features)
    some = learner.scale.codes(features[:COMPARED].cpu().numpy())[0]
    if not np.array_equal(some, codes[:COMPARED].cpu().numpy()):
        raise SystemExit("the whole numbers of the card are not those of the product")
    entries = Entries(learner, codes, data.y)
    state = sums_of(learner, entries)
    whole = data.name == "cifar10" and not named["expand"] and learner.backbone.features < 4_096
    row: dict[str, Any] = {"data": data.name, **named, "d": learner.head.setting.features + 1}
    row |= {"scale_high": learner.scale.high, "samples": len(data.y), "state_bytes": learner.sub_model_bytes}
    row |= {"state_sha256": sha256(learner.encode(state)).hexdigest()}
    row["compared_with_product"] = compared(learner, codes, data.y, state, whole=whole)
    own = others = None
    if choose:
        row["leave_one_out"] = leave_one_out(learner, state, entries)
        own, others = SHARES[int(np.argmax(row["leave_one_out"]))], found.others_choice(row)
    piece = piece_of(codes_of(learner, test).cpu().numpy(), data.y_test)
    setting = learner.head.setting.regularization
    constant = learner.backbone.regularization if isinstance(setting, str) else setting
    choices = {"constant": constant, "own": own, "others": others}
    if isinstance(setting, str):
        cross = state.parts["cross"].astype(np.float64)
        choices["gcv"] = share_by_gcv(state.parts["gram"].matrix(), cross, state.samples)
    scores = {s: tested(learner, state, s, piece) for s in sorted({s for s in choices.values() if s is not None})}
    for name, share in choices.items():
        if share is not None:
            row |= {f"lambda_{name}": share, f"test_{name}": round(scores[share], 4)}
    row["seconds"] = round(time.perf_counter() - start, 2)
    found.add(row)


def network_rows(data: Pictures, asked: argparse.Namespace, size: int, found: Measured) -> None:
    """EfficientNet-Lite0 at one size: plain, with other scales, with random layers."""
    start = time.perf_counter()
    network = Network(asked.device, size)
    features, test = network(data.x), network(data.x_test)
    if asked.device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    named = {"backbone": "efficientnet-lite0", "size": size, "features_s": round(seconds, 1)}

    backbone, ours = efficientnet_lite0(size), TYPICAL

    def learner(expand: int, high: float | None = None, typical: tuple[float, float] = ours) -> AdditiveLearner:
        backbone.facts = replace(backbone.facts, typical=typical)
        scale = None if high is None else (0.0, high)
        return AdditiveLearner(backbone, classes=data.classes, expand=expand, scale=scale)

    plain = learner(0)
    named["features_differ_from_cpu"] = _differing(plain, data.x[: asked.checked], features)
    named["feature_mean"] = round(float(features.mean()), 4)
    named["feature_deviation"] = round(float(features.std(dim=0).mean()), 4)
    for high in (None, *asked.highs):
        measure(data, learner(0, high), features, test, found, {**named, "expand": 0})
    for expand in asked.expand if size in asked.expand_sizes else ():
        for typical in (ours, *asked.typical) if expand == asked.typical_at else (ours,):
            made = learner(expand, typical=typical)
            measure(data, made, features, test, found, {**named, "expand": expand, "typical": list(typical)})


def _differing(learner: AdditiveLearner, x: NDArray[np.uint8], features: torch.Tensor) -> float:
    """The share of whole numbers that the product computes otherwise on this CPU, one picture at a time."""
    if not len(x) or not isinstance(learner.backbone, ModuleBackbone):
        return 0.0
    cpu = learner.scale.codes(learner.backbone.compute(x))[0]
    return float((cpu != codes_of(learner, features[: len(x)]).cpu().numpy()).mean())


def filter_rows(data: Pictures, asked: argparse.Namespace, filters: int, found: Measured) -> None:
    """Random filters: no public data."""
    shape = data.x.shape[1:]
    learner = AdditiveLearner("random-filters", shape=shape, size=filters, classes=data.classes)
    assert isinstance(learner.backbone, RandomFilters)
    start, computed = time.perf_counter(), Filters(asked.device, learner.backbone)
    features, test = computed(data.x), computed(data.x_test)
    some = learner.backbone.compute(data.x[: asked.checked])
    if not np.array_equal(some, features[: len(some)].cpu().numpy()):
        raise SystemExit("the random filters of the card are not those of the product")
    named = {"backbone": "random-filters", "size": filters, "features_s": round(time.perf_counter() - start, 1)}
    measure(data, learner, features, test, found, {**named, "features_differ_from_cpu": 0.0, "expand": 0})


def contrast_rows(data: Pictures, asked: argparse.Namespace, filters: int, found: Measured) -> None:
    """Contrast filters, computed by the product itself."""
    learner = AdditiveLearner("contrast-filters", shape=data.x.shape[1:], size=filters, classes=data.classes)
    start = time.perf_counter()
    features, test = (_computed(learner, x, asked.device) for x in (data.x, data.x_test))
    named = {"backbone": "contrast-filters", "size": filters, "features_s": round(time.perf_counter() - start, 1)}
    named |= {"features_differ_from_cpu": 0.0, "expand": 0}
    measure(data, learner, features, test, found, named, choose=not asked.constant)


def _computed(learner: AdditiveLearner, x: NDArray[np.uint8], device: str) -> torch.Tensor:
    """The features of a backbone whose features are whole numbers from 0 to 255."""
    blocks = [learner.backbone.compute(x[i : i + BLOCK]).astype(np.uint8) for i in range(0, len(x), BLOCK)]
    return torch.from_numpy(np.concatenate(blocks)).to(device)


def _pair(text: str) -> tuple[float, float]:
    mean, _, deviation = text.partition(":")
    return float(mean), float(deviation)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.additive_accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the sets, as for cause reproduce")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--sizes", type=int, nargs="*", default=[160, 224, 128, 96])
    parser.add_argument("--expand", type=int, nargs="*", default=[2_048, 4_096, 5_120])
    parser.add_argument("--expand-sizes", type=int, nargs="*", default=[160, 224])
    parser.add_argument("--filters", type=int, nargs="*", default=[512, 1_024])
    parser.add_argument("--contrast", type=int, nargs="*", default=[512, 1_024], help="numbers of contrast filters")
    parser.add_argument("--constant", action="store_true", help="contrast filters with the product's λ only")
    parser.add_argument("--highs", type=float, nargs="*", default=[4.0, 3.0, 2.0], help="other ends of the scale")
    parser.add_argument("--typical", type=_pair, nargs="*", default=[(0.3, 0.5), (0.2, 0.3)], help="other centres")
    parser.add_argument("--typical-at", type=int, default=4_096, help="the number of units with which they are tried")
    parser.add_argument("--most", type=int, help="pictures of each split; all by default")
    parser.add_argument("--checked", type=int, default=32, help="pictures whose features the CPU computes, too")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    found = Measured(asked.out)
    sets = {name: pictures_of(name, asked.data, asked.most) for name in SETS if name in asked.sets}
    print({name: (len(data.y), len(data.y_test)) for name, data in sets.items()}, flush=True)
    for size in asked.sizes:
        for data in sets.values():
            network_rows(data, asked, size, found)
    for filters in asked.filters:
        for data in sets.values():
            filter_rows(data, asked, filters, found)
    for filters in asked.contrast:
        for data in sets.values():
            contrast_rows(data, asked, filters, found)
    found.notes["finished"] = True
    found.write()


if __name__ == "__main__":
    main()
