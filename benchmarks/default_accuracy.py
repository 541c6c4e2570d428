"""Accuracy of the recommended system beside joint training, part by part, with what forgetting a user costs.

python -m benchmarks.default_accuracy --out results/default-accuracy.json
"""

import argparse
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sklearn.linear_model import SGDClassifier

from benchmarks.users import People, phones, stored, unscaled, writers
from cause import Cause
from cause.cli.output import print_table
from cause.engine.requests import Request
from cause.lab.provenance import write_result
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner

SHARDS, ROUNDS = 4, 6
EPOCHS = 10
"""Of a segment. A joint training has JOINT, since it trains once and not round after round."""
JOINT = 60
SYSTEMS = {
    "frugal (recommended before)": "frugal",
    "frugal, not pruned": "frugal:pruning=none",
    "frugal, rehearsing": "frugal:rehearsal=1",
    "frugal, at least 1,000 steps": "frugal:min_steps=1000",
    "frugal, weighted soft vote": "frugal:vote=weighted-soft",
    "frugal, shard controller": "frugal:gamma=0.5",
    "recommended": "recommended",
    "recommended, pruned": "recommended:pruning=iterative-70",
    "recommended, no rehearsal": "recommended:rehearsal=0",
    "recommended, three times the rehearsal": "recommended:rehearsal=3",
    "recommended, rehearsal of all": "recommended:rehearsal=100",
    "recommended, no least steps": "recommended:min_steps=0",
    "recommended, majority vote": "recommended:vote=majority",
    "recommended, fixed shards": "recommended:gamma=1",
    "recommended, hash": "recommended:partition=hash",
    "recommended, uniform shards": "recommended:partition=uniform",
    "sisa": "sisa",
}
LINEAR = {"frugal (recommended before)": "frugal", "recommended": "recommended"}
SETS = {"images": writers, "table": phones}


def learner_of(people: People, device: str, *, linear: bool, epochs: int) -> TorchLearner | SklearnLearner:
    """What `cause init --model …` or `--estimator SGDClassifier` makes; only a joint training says its epochs."""
    shape = people.x.shape[1:]
    if linear:
        return SklearnLearner(SGDClassifier(), classes=people.classes, features=shape[0], epochs=epochs)
    return TorchLearner(
        "cnn" if len(shape) == 3 else "mlp", classes=people.classes, shape=shape, epochs=epochs, device=device
    )


def measure(people: People, system: str | None, seed: int, device: str, *, linear: bool = False) -> dict[str, float]:
    """Accuracy by vote after all rounds, seconds of training, and the mean RSN of erasing one user."""
    joint = system is None
    epochs = JOINT if joint else (1 if linear else EPOCHS)
    learner = learner_of(people, device, linear=linear, epochs=epochs)
    trained = Cause(learner=learner, system=system or "sisa", shards=1 if joint else SHARDS, seed=seed)
    rounds = people.rounds(1 if joint else ROUNDS, seed)
    start = time.perf_counter()
    for uploads in rounds:
        trained.learn(uploads)
    seconds = time.perf_counter() - start
    users = sorted({user for uploads in rounds for user in uploads})
    costs = [sum(shard.rsn for shard in trained.plan(Request(user))) for user in users]
    right = trained.predict(people.x[people.test]) == people.y[people.test]
    return {"accuracy": float(right.mean()), "seconds": seconds, "rsn_per_user": statistics.fmean(costs)}


def job(work: tuple[str, str, str | None, int, str, bool]) -> dict[str, Any]:
    """One training, in a process of its own or not."""
    name, label, system, seed, device, linear = work
    people = SETS[name](seed) if name in SETS else stored(Path(name))
    if linear and name in SETS:
        people = unscaled(people)
    found = measure(people, system, seed, device, linear=linear)
    row = {"data": people.name, "learner": "SGDClassifier" if linear else "network", "case": label, "system": system}
    return {**row, "seed": seed, **found}


def jobs(asked: argparse.Namespace) -> list[tuple[str, str, str | None, int, str, bool]]:
    """Every training: the long ones first."""
    sets = [*asked.sets, *map(str, asked.npz)]
    cases = {"joint training": None, **SYSTEMS, **{each: each for each in asked.systems}}
    linear = {"joint training": None, **LINEAR}
    found = [
        (name, label, system, seed, asked.device, False)
        for name in sets
        for label, system in cases.items()
        if not (asked.cases or asked.systems) or label in (*asked.cases, *asked.systems)
        for seed in range(asked.seeds)
    ]
    tables = [name for name in sets if name != "images"]
    rows = [
        (n, label, s, seed, "cpu", True) for n in tables for label, s in linear.items() for seed in range(asked.seeds)
    ]
    return found + (rows if asked.linear else [])


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over the seeds for each case, and its distance from joint training in points."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["learner"], row["case"]), []).append(row)
    found = []
    for (data, learner, case), own in groups.items():
        mean = {key: statistics.fmean(row[key] for row in own) for key in ("accuracy", "seconds", "rsn_per_user")}
        spread = statistics.stdev(row["accuracy"] for row in own) if len(own) > 1 else 0.0
        joint = groups.get((data, learner, "joint training"))
        gap = None if joint is None else statistics.fmean(row["accuracy"] for row in joint) - mean["accuracy"]
        found.append({"data": data, "learner": learner, "case": case, **mean, "sd": spread, "behind_joint": gap})
    return found


def main() -> None:
    """Train everything, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", choices=[*SETS, []], default=list(SETS))
    parser.add_argument("--npz", nargs="*", type=Path, default=[], help="real users: x, y, users, test")
    parser.add_argument("--cases", nargs="*", default=[], help="some of them; all by default")
    parser.add_argument("--systems", nargs="*", default=[], help="others, as recommended:rehearsal=1,gamma=1")
    parser.add_argument("--linear", action="store_true", help="SGDClassifier, too, on tables")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    work = jobs(asked)
    if asked.jobs == 1:
        rows = [job(each) for each in work]
    else:
        with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
            rows = list(pool.map(job, work))
    found = table(rows)
    print_table(
        f"S = {SHARDS}, {ROUNDS} rounds, {asked.seeds} seeds",
        ["data", "learner", "case", "accuracy", "sd", "behind joint", "RSN a user", "training s"],
        [
            [each["data"], each["learner"], each["case"], f"{each['accuracy']:.1%}", f"{each['sd']:.1%}",
             "" if each["behind_joint"] is None else f"{100 * each['behind_joint']:+.1f}",
             f"{each['rsn_per_user']:,.0f}", f"{each['seconds']:.1f}"]
            for each in found
        ],
        names=3,
    )  # fmt: skip
    if asked.out:
        write_result(asked.out, {"table": found, "rows": rows}, ("python", "-m", "benchmarks.default_accuracy"))


if __name__ == "__main__":
    main()
