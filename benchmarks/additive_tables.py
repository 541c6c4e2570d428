"""Additive learners on tables, beside a jointly trained network: which scale, which random layer, which λ.

python -m benchmarks.additive_tables --out results/additive-tables.json

The sets come with scikit-learn or are made of its digits (`benchmarks.users`), one is drawn (561 values of 21 users,
tested on 9 others), and some are recordings inside other packages (`benchmarks.recordings`), where those are installed:
`pip install --no-deps seglearn river aeon`. Test samples decide nothing: λ is a constant or follows from the state.
`range` is one scale a feature, as a data sheet or public recordings would give it (the 1 % and 99 % quantiles of rows
that are then neither learned nor tested); the others are one scale for all features. The network is scikit-learn's
MLPClassifier on standardised features, mean of two seeds; it is trained on all training samples at once and cannot
forget.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.recordings import recordings
from benchmarks.users import People, phones, unscaled, writers
from cause import AdditiveLearner
from cause.cli.output import print_table
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Piece
from cause.lab.provenance import write_result
from cause.learners.additive.gcv import GCV, share_by_gcv
from cause.learners.additive.scale import public_scale

PROGRAM = ("python", "-m", "benchmarks.additive_tables")
PUBLIC = 0.1
"""The share of the training samples that stands for public recordings."""
UNITS = (0, 1_024, 2_048, 4_096)
ALL_UNITS = 2_048
"""The largest layer of which all units are looked at for λ: an eigendecomposition of more takes minutes."""
CONSTANTS = (0.02, 0.1, 0.5)


@dataclass(frozen=True)
class Table:
    """Training and test rows of a set, and a scale for all features that is known without looking at them."""

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    scale: tuple[float, float]
    squash: bool = False

    @property
    def classes(self) -> int:
        return int(max(self.y.max(), self.y_test.max())) + 1


def activities(seed: int, users: int = 30, tested: int = 9, features: int = 561, samples: int = 6_000) -> Table:
    """Six activities of users who differ, as 561 values from -1 to 1; the last users are tested."""
    draw, classes, hidden = np.random.default_rng([seed, 5]), 6, 12
    owner, y = draw.integers(users, size=samples), draw.integers(classes, size=samples)
    habits = draw.normal(0, 0.6, (users, 1, hidden)) + draw.normal(0, 0.5, (users, classes, hidden))
    z = draw.normal(0, 1, (classes, hidden))[y] + habits[owner, y] + draw.normal(0, 0.6, (samples, hidden))
    first, second = draw.normal(0, 1, (hidden, 64)) / hidden**0.5, draw.normal(0, 1, (64, features)) / 8
    x = np.tanh(1.5 * np.sin(2 * z @ first) @ second + draw.normal(0, 0.6, features))
    x = (x + draw.normal(0, 0.05, x.shape)).clip(-1, 1)
    new = owner >= users - tested
    return Table("activities, new users", x[~new], y[~new], x[new], y[new], (-1, 1))


def tables(seed: int) -> Iterator[Table]:
    """All sets."""
    for name, load, scale in (
        ("digits", load_digits, (0.0, 16.0)),
        ("breast cancer", load_breast_cancer, (-10.0, 10.0)),
        ("wine", load_wine, (-10.0, 10.0)),
    ):
        x, y = load(return_X_y=True)
        order = np.random.default_rng([seed, 6]).permutation(len(y))
        test, train = np.split(order, [int(0.3 * len(y))])
        yield Table(name, x[train], y[train], x[test], y[test], scale, squash=name != "digits")
    yield _of("43 readings of phones", phones(seed), (-1, 3))
    yield _of("the same in mixed units", unscaled(phones(seed)), (-10, 10), squash=True)
    pictures = writers(seed)
    yield _of("digits of writers", replace(pictures, x=pictures.x.reshape(len(pictures.x), -1)), (-0.2, 1.2))
    yield activities(seed)
    draw = np.random.default_rng([seed, 9])
    for found in recordings(seed):
        rows = draw.permutation(np.flatnonzero(~found.test))  # those that stand for public ones are the first
        x, y, tested = found.x, found.y, found.test
        yield Table(f"{found.name} ({found.source})", x[rows], y[rows], x[tested], y[tested], (-10, 10), squash=True)


def _of(name: str, people: People, scale: tuple[float, float], *, squash: bool = False) -> Table:
    x, y, test = people.x, people.y, people.test
    return Table(name, x[~test], y[~test], x[test], y[test], scale, squash)


def piece_of(learner: AdditiveLearner, x: NDArray[Any], y: NDArray[np.int64]) -> Piece:
    """Samples as a device records them."""
    upload = ArrayUpload("user", 1, learner.recorded(x), y.astype(np.int64))
    return Piece(upload, upload.positions)


def measured(table: Table, kind: str, scale: Any, units: int, *, squash: bool) -> dict[str, Any]:
    """One learner with every λ: its accuracy on the test samples."""
    features = table.x.shape[1]
    learner = AdditiveLearner(features=features, scale=scale, classes=table.classes, expand=units, squash=squash)
    state = learner.empty()
    learner.add(state, piece_of(learner, table.x, table.y))
    gram, cross = state.parts["gram"].matrix(), state.parts["cross"].astype(float)
    start = time.process_time()
    shares = {"gcv": share_by_gcv(gram, cross, state.samples)}
    seconds = time.process_time() - start
    if 0 < units <= ALL_UNITS:
        shares["gcv of all units"] = share_by_gcv(gram, cross, state.samples, most=units)
    shares |= {f"{constant:g}": constant for constant in CONSTANTS}
    test = piece_of(learner, table.x_test, table.y_test)
    accuracy = {share: _accuracy(learner, state, share, test) for share in set(shares.values())}
    default = learner.head.setting.regularization
    return {
        "scale": kind, "units": units, "default": GCV if default == GCV else f"{default:g}", "gcv_cpu_s": seconds,
        "lambda": shares, "accuracy": {name: accuracy[share] for name, share in shares.items()},
    }  # fmt: skip


def _accuracy(learner: AdditiveLearner, state: Any, share: float, test: Piece) -> float:
    solution = type(learner.head)(replace(learner.head.setting, regularization=share)).solve(state)
    right = [np.argmax(solution.probabilities(z), axis=1) == y for z, y, _ in learner.blocks(test)]
    return float(np.concatenate(right).mean())


def network(table: Table) -> float:
    """The accuracy of a network that is trained on everything at once."""
    scaler = StandardScaler().fit(table.x)
    x, x_test, found = scaler.transform(table.x), scaler.transform(table.x_test), []
    for seed in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = MLPClassifier((128,), max_iter=200, random_state=seed).fit(x, table.y)
        found.append(fitted.score(x_test, table.y_test))
    return float(np.mean(found))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog=" ".join(PROGRAM), description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--units", type=int, nargs="*", default=list(UNITS))
    parser.add_argument("--only", default="", help="sets whose name has this part")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    for table in tables(asked.seed):
        if asked.only not in table.name:
            continue
        public, learned = np.split(np.arange(len(table.y)), [int(PUBLIC * len(table.y))])
        ranges = public_scale(table.x[public])
        table = replace(table, x=table.x[learned], y=table.y[learned])
        row: dict[str, Any] = {
            "data": table.name, "features": table.x.shape[1], "classes": table.classes, "samples": len(table.y),
            "tested": len(table.y_test), "network": network(table), "learners": [],
        }  # fmt: skip
        for units in asked.units:
            row["learners"].append(measured(table, "range", ranges, units, squash=False))
            row["learners"].append(measured(table, "one for all", table.scale, units, squash=table.squash))
        found.append(row)
        print_table(
            f"{table.name}: {len(table.y):,} samples of {table.x.shape[1]} features; network {row['network']:.1%}",
            ["scale", "units", "default λ", *row["learners"][-1]["lambda"]],
            [
                [each["scale"], f"{each['units']:,}", each["default"]]
                + [f"{100 * each['accuracy'][name]:.1f}" if name in each["accuracy"] else ""
                   for name in row["learners"][-1]["lambda"]]
                for each in row["learners"]
            ],
        )  # fmt: skip
        if asked.out is not None:
            write_result(asked.out, {"constants": CONSTANTS, "rows": found}, PROGRAM)


if __name__ == "__main__":
    main()
