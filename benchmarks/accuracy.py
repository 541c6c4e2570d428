"""Accuracy by vote of a recipe on a data set: 10 rounds, 100 users, as in the paper's evaluation.

python -m benchmarks.accuracy ours --shards 4 --device cuda --workers 3 --data FOLDER --out results/accuracy-ours-4.json
python -m benchmarks.accuracy public --shards 4 --rho 0.1 --device cuda --data FOLDER --out results/public-4.json

With `--rho` users also ask to forget, as often as in the paper's workload; the vote is then measured after the requests
of a round were served, too (`after_requests`).
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
from cause.lab.recipes import PUBLIC_SYSTEM, SYSTEM, ours, paper, public
from cause.lab.users import share_out
from cause.learners.torch import TorchLearner

RECIPES = {"paper": paper, "ours": ours, "public": public}
SYSTEMS = {"paper": "cause", "ours": SYSTEM, "public": PUBLIC_SYSTEM}
MODELS = {"public": "efficientnet-lite0"}


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--system", help="another than the recipe's own")
    parser.add_argument("--set", nargs="*", default=[], metavar="PART=VALUE", help="other parts of the recipe, as JSON")
    parser.add_argument("--name", default="cifar10")
    parser.add_argument("--model", help="resnet34; efficientnet-lite0 with public weights")
    parser.add_argument("--init", help="another file of public weights than the recipe's")
    parser.add_argument("--size", type=int, help="the side to which EfficientNet-Lite0 scales pictures")
    parser.add_argument("--rho", type=float, default=0.0, help="the probability that a user asks in a round")
    parser.add_argument("--tests", type=int, help="only so many test samples, always the same")
    parser.add_argument("--verify", action="store_true", help="replay everything at the end and compare bits")
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
    changes |= {} if asked.init is None else {"init": asked.init}
    changes |= {} if asked.size is None else {"options": (("size", asked.size),)}
    recipe = RECIPES[asked.recipe](asked.model or MODELS.get(asked.recipe, "resnet34"), train.classes, **changes)
    chosen = np.random.default_rng(0).permutation(len(test.y))[: asked.tests]
    x, y = test.x[chosen], test.y[chosen]
    name, system = parse_system(asked.system or SYSTEMS[asked.recipe])
    shared = share_out(train.x, train.y, classes=train.classes, samples=asked.samples, rho=asked.rho, seed=asked.seed)
    learner = TorchLearner(recipe, device=asked.device)
    device = Cause(learner=learner, system=system, shards=asked.shards, workers=asked.workers, seed=asked.seed)
    started, rounds = time.perf_counter(), []
    for round_ in shared.trace.rounds:
        learned = device.learn(shared.uploads(round_))
        seconds = time.perf_counter() - started
        found: dict[str, object] = dict(votes(device, x, y)) if learned.round in asked.at else {}
        if round_.forgets:
            forgotten = device.serve(round_.forgets)
            found["requests"], found["rsn"] = len(round_.forgets), sum(each.rsn for each in forgotten)
            found["forgotten"] = sum(each.samples for each in forgotten)
            found["served_s"] = round(time.perf_counter() - started, 1)
            if learned.round in asked.at:
                found["after_requests"] = votes(device, x, y)
        rounds.append({"round": learned.round, "seconds": round(seconds, 1), **found})
        print(asked.recipe, name, f"S={asked.shards}", json.dumps(rounds[-1]), flush=True)
        if asked.out:  # after each round: a run that is stopped has said what it saw
            record = {"system": name, "recipe": asdict(device.learner.recipe), "environment": learner.environment}
            write_result(asked.out, {**record, "rounds": rounds}, ("python", "-m", "benchmarks.accuracy"))
    if asked.verify:
        print("verified:", device.verify().holds, flush=True)
    device.engine.executor.close()


if __name__ == "__main__":
    main()
