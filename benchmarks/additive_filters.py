"""Which fixed random filters make good features: variants beside each other, chosen without test pictures.

python -m benchmarks.additive_filters --data DIR --device cuda --out results/additive-filters.json

Each variant is a constant function of a picture. It is judged by the leave-one-out accuracy of a ridge head on training
pictures of CIFAR-100 and SVHN, at the best λ of a grid; the variant with the best mean is then tried on CIFAR-10, where
its accuracy on test pictures stands beside that of the product's filters. Features are made on the card as a prototype
would make them (float64 where the product would compute in whole numbers), then rounded to 8 bits.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.additive_accuracy import SHARES, Pictures, pictures_of
from cause.lab.provenance import write_result

BATCH, BLOCK = 128, 8_192
CHOSEN_ON = ("cifar100", "svhn")
PROGRAM = ("python", "-m", "benchmarks.additive_filters")


@dataclass(frozen=True)
class Variant:
    """How features are made of a picture."""

    side: int = 6
    highpass: float = 0.0
    """What share of the mean of its 3×3 neighbours is taken from each weight: 0 leaves the draw as it is."""
    contrast: float = 0.0
    """Each patch is divided by the root of its variance plus this; 0 does not divide."""
    threshold: float = 0.0
    """What a response must exceed, in deviations of a response of noise."""
    grid: int = 2
    """Places along each side over which responses are summed."""
    root: bool = False
    """Whether the root of a sum is taken."""


def weights_of(variant: Variant, filters: int, channels: int, device: str) -> torch.Tensor:
    """Random filters, one a column, with mean 0 and length 1."""
    draw = np.random.default_rng(0).normal(size=(filters, channels, variant.side, variant.side))
    weights = torch.from_numpy(draw).to(device)
    blur = functional.avg_pool2d(weights, 3, stride=1, padding=1, count_include_pad=False)
    weights = (weights - variant.highpass * blur).reshape(filters, -1)
    weights = weights - weights.mean(dim=1, keepdim=True)
    return (weights / weights.norm(dim=1, keepdim=True)).T.float()


@torch.no_grad()
def features_of(x: NDArray[np.uint8], variant: Variant, filters: int, device: str) -> torch.Tensor:
    """Sums of what is above the threshold, for both signs, over a grid of places; as 8-bit numbers."""
    weights, found = weights_of(variant, filters, x.shape[1], device), []
    unit = 1.0 if variant.contrast else 30.0  # a typical response, in grey levels
    for start in range(0, len(x), BATCH):
        part = torch.from_numpy(x[start : start + BATCH]).to(device).float()
        side = part.shape[-1] - variant.side + 1
        patches = functional.unfold(part, variant.side).transpose(1, 2)
        patches = patches - patches.mean(dim=2, keepdim=True)
        if variant.contrast:
            patches = patches / (patches.square().mean(dim=2, keepdim=True) + variant.contrast).sqrt()
        responses = (patches @ weights).transpose(1, 2).reshape(len(part), filters, side, side)
        pooled = [
            functional.adaptive_avg_pool2d((sign * responses - variant.threshold * unit).clamp(min=0), variant.grid)
            for sign in (1, -1)
        ]
        values = torch.cat(pooled, dim=1).flatten(1) / unit
        values = values.sqrt() if variant.root else values
        found.append((values * 128).round().clamp(0, 255).to(torch.uint8))
    return torch.cat(found)


class Sums:
    """The sums of a ridge head on a device, and what follows from them."""

    def __init__(self, codes: torch.Tensor, y: NDArray[np.int64], classes: int) -> None:
        self._codes, self._y, self._classes = codes, torch.from_numpy(y).to(codes.device), classes
        size = codes.shape[1] + 1
        self._gram = torch.zeros((size, size), dtype=torch.float64, device=codes.device)
        self._cross = torch.zeros((size, classes), dtype=torch.float64, device=codes.device)
        for z, labels in _blocks(codes, self._y):
            self._gram += z.T @ z
            self._cross += z.T @ functional.one_hot(labels, classes).double()

    def _inverse(self, share: float) -> torch.Tensor:
        matrix, size = self._gram.clone(), len(self._y)
        matrix.diagonal()[:-1] += share * float(self._gram.diagonal()[:-1].sum()) / size + 1e-6
        return torch.cholesky_inverse(torch.linalg.cholesky(matrix))

    def leave_one_out(self) -> list[float]:
        """The share of correct answers without each, for every λ."""
        found = []
        for share in SHARES:
            inverse, right = self._inverse(share), 0
            weights = inverse @ self._cross
            for z, y in _blocks(self._codes, self._y):
                scores = z @ weights
                scores[torch.arange(len(y), device=y.device), y] -= ((z @ inverse) * z).sum(dim=1)
                right += int((scores.argmax(dim=1) == y).sum())
            found.append(right / len(self._y))
        return found

    def tested(self, share: float, codes: torch.Tensor, y: NDArray[np.int64]) -> float:
        """The share of correct answers on test pictures."""
        weights, right = self._inverse(share) @ self._cross, 0
        for z, labels in _blocks(codes, torch.from_numpy(y).to(codes.device)):
            right += int(((z @ weights).argmax(dim=1) == labels).sum())
        return right / len(y)


def _blocks(codes: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for start in range(0, len(codes), BLOCK):
        z = codes[start : start + BLOCK].double()
        yield torch.cat([z, torch.ones((len(z), 1), dtype=z.dtype, device=z.device)], dim=1), y[start : start + BLOCK]


def variants() -> list[Variant]:
    """What is compared: the plain draw first."""
    grid = itertools.product((0.0, 0.8, 0.95), (0.0, 10.0, 100.0), (0.0, 0.5, 1.0))
    found = [Variant(highpass=h, contrast=c, threshold=t) for h, c, t in grid]
    return [*found, *(Variant(side=5, highpass=0.8, contrast=c, root=r) for c in (10.0, 100.0) for r in (False, True))]


def judged(data: Pictures, variant: Variant, filters: int, device: str, most: int) -> dict[str, Any]:
    """Leave-one-out accuracy of one variant on one set."""
    start = time.perf_counter()
    codes = features_of(data.x[:most], variant, filters, device)
    scores = Sums(codes, data.y[:most], data.classes).leave_one_out()
    best = int(np.argmax(scores))
    row = {"data": data.name, **asdict(variant), "filters": filters, "samples": len(codes), "leave_one_out": scores}
    full = {
        "saturated": round(float((codes == 255).double().mean()), 4),
        "mean": round(float(codes.double().mean()), 1),
    }
    return {**row, **full, "best": scores[best], "lambda": SHARES[best], "s": round(time.perf_counter() - start, 1)}


def main() -> None:
    """Judge, choose, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.additive_filters", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--filters", type=int, default=256, help="of a variant that is compared")
    parser.add_argument("--most", type=int, default=20_000, help="training pictures of a variant that is compared")
    parser.add_argument("--finally", type=int, dest="final", default=1_024, help="filters of the chosen variant")
    parser.add_argument("--variants", type=int, help="only so many")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    sets = {name: pictures_of(name, asked.data, None) for name in (*CHOSEN_ON, "cifar10")}
    result: dict[str, Any] = {"shares": list(SHARES), "rows": [], "cifar10": []}

    def keep(where: str, row: dict[str, Any]) -> None:
        result[where].append(row)
        print({k: v for k, v in row.items() if k != "leave_one_out"}, flush=True)
        if asked.out:
            write_result(asked.out, result, PROGRAM)

    means: dict[Variant, float] = {}
    for variant in variants()[: asked.variants]:
        for name in CHOSEN_ON:
            keep("rows", judged(sets[name], variant, asked.filters, asked.device, asked.most))
        means[variant] = float(np.mean([row["best"] for row in result["rows"][-len(CHOSEN_ON) :]]))
    chosen = max(means, key=lambda variant: means[variant])
    result["chosen"] = asdict(chosen)
    ten = sets["cifar10"]
    for variant in dict.fromkeys((chosen, Variant())):
        codes = features_of(ten.x, variant, asked.final, asked.device)
        test = features_of(ten.x_test, variant, asked.final, asked.device)
        sums = Sums(codes, ten.y, ten.classes)
        scores = sums.leave_one_out()
        share = SHARES[int(np.argmax(scores))]
        row = {**asdict(variant), "filters": asked.final, "leave_one_out": scores, "lambda": share}
        keep("cifar10", {**row, "test": sums.tested(share, test, ten.y_test)})


if __name__ == "__main__":
    main()
