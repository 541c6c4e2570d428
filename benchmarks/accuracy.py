"""Accuracy by vote of a recipe on a data set: 10 rounds, 100 users, as in the paper's evaluation.

python -m benchmarks.accuracy ours --shards 4 --device cuda --workers 3 --data FOLDER --out results/accuracy-ours-4.json
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cause import Cause
from cause.data import load
from cause.engine.presets import parse_system
from cause.engine.voting import VOTES
from cause.lab.provenance import write_result
from cause.lab.recipes import SYSTEM, ours, paper
from cause.lab.users import share_out
from cause.learners.torch import TorchLearner

RECIPES = {"paper": paper, "ours": ours}
SYSTEMS = {"paper": "cause", "ours": SYSTEM}


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--system", help="another than the recipe's own")
    parser.add_argument("--set", nargs="*", default=[], metavar="PART=VALUE", help="other parts of the recipe, as JSON")
    parser.add_argument("--name", default="cifar10")
    parser.add_argument("--model", default="resnet34")
    parser.add_argument("--samples", type=int, help="share out fewer")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", type=int, nargs="*", default=[10], help="after which rounds to vote")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def votes(device: Cause, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy by each way of voting, and of the single heads."""
    heads = device.heads()
    learner, shelf = device.learner, device.memory.shelf
    probabilities = np.stack([learner.predict(learner.decode(shelf.get(head.key)), x) for head in heads.values()])
    held = [device.ledger.lineage(shard).samples_upto(head.key) for shard, head in heads.items()]
    weights = np.array(held, dtype=float)
    found = {name: float((VOTES[name](probabilities, weights) == y).mean()) for name in VOTES}
    single = (probabilities.argmax(axis=2) == y).mean(axis=1)
    return {**found, "single_mean": float(single.mean()), "single_best": float(single.max())}


def main() -> None:
    """Learn round after round, and say how good the vote is."""
    asked = arguments()
    train, test = (load(asked.name, split, root=asked.data) for split in ("train", "test"))
    changes = {key: json.loads(value) for key, _, value in (each.partition("=") for each in asked.set)}
    recipe = RECIPES[asked.recipe](asked.model, train.classes, **changes)
    name, system = parse_system(asked.system or SYSTEMS[asked.recipe])
    shared = share_out(train.x, train.y, classes=train.classes, samples=asked.samples, rho=0, seed=asked.seed)
    learner = TorchLearner(recipe, device=asked.device)
    device = Cause(learner=learner, system=system, shards=asked.shards, workers=asked.workers, seed=asked.seed)
    started, rounds = time.perf_counter(), []
    for round_ in shared.trace.rounds:
        learned = device.learn(shared.uploads(round_))
        seconds = time.perf_counter() - started
        found = votes(device, test.x, test.y) if learned.round in asked.at else {}
        rounds.append({"round": learned.round, "seconds": round(seconds, 1), **found})
        print(asked.recipe, name, f"S={asked.shards}", json.dumps(rounds[-1]), flush=True)
        if asked.out:  # after each round: a run that is stopped has said what it saw
            record = {"system": name, "recipe": asdict(device.learner.recipe), "environment": learner.environment}
            write_result(asked.out, {**record, "rounds": rounds}, ("python", "-m", "benchmarks.accuracy"))
    device.engine.executor.close()


if __name__ == "__main__":
    main()
