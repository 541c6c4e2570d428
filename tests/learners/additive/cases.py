"""Random lives of a device with an additive learner, each compared with a device that never had what was forgotten.

`python -m tests.learners.additive.cases --cases 100000` runs many of them; the tests run a few.
"""

import argparse
import copy
import pickle
import time
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from cause import AdditiveLearner, Cause
from cause.engine.requests import Request
from cause.engine.samples import arrays_of
from cause.learners.additive import learner as learner_module
from cause.learners.additive import triangle as triangle_module
from cause.learners.additive.rows import clipped_of, codes_of
from cause.learners.additive.sums import Sums

HEADS = ("ridge", "ridge", "class-means", "gaussian-nb", "multinomial-nb")
USERS = ("ann", "bob", "cem", "dan")


@dataclass
class Life:
    """What a random device did, and what an observer wrote down beside it."""

    device: Cause
    rounds: list[dict[str, tuple[np.ndarray, np.ndarray]]]
    """What arrived, round by round."""
    gone: dict[tuple[str, int], set[int]]
    """By user and round: the rows that were forgotten."""

    def left(self, round_: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """What of a round was never forgotten."""
        kept = {}
        for user, (x, y) in self.rounds[round_ - 1].items():
            rows = [row for row in range(len(y)) if row not in self.gone.get((user, round_), set())]
            if rows:
                kept[user] = x[rows], y[rows]
        return kept


def recipe(draw: np.random.Generator) -> dict:
    """The arguments of a random learner."""
    features = int(draw.integers(1, 7))
    low = np.round(draw.normal(size=features), 2)
    wide = draw.integers(2) == 1
    return {
        "features": features,
        "classes": int(draw.integers(1, 5)),
        "scale": (low.tolist(), (low + 2).tolist()) if wide else (-1.0, 2.0),
        "squash": bool(draw.integers(2)),
        "bits": int(draw.choice([8, 12, 16])),
        "expand": int(draw.choice([0, 0, 3, 9])),
        "head": str(draw.choice(HEADS)),
        "keep": str(draw.choice(["features", "samples"])),
        "seed": int(draw.integers(3)),
    }


def upload(draw: np.random.Generator, arguments: dict) -> tuple[np.ndarray, np.ndarray]:
    """Random samples: some are twins, some are of one class only, some are far outside of the scale."""
    n = int(draw.integers(1, 6))
    x = np.round(draw.normal(scale=draw.choice([0.3, 1.0, 50.0]), size=(n, arguments["features"])), 1)
    y = draw.integers(arguments["classes"], size=n)
    if n > 1 and draw.integers(3) == 0:
        x[1:], y[1:] = x[0], y[0]
    if draw.integers(4) == 0:
        y[:] = 0
    return x, y


def live(seed: int) -> tuple[Life, dict]:
    """Let a random device learn and forget; after each request, what it holds is compared by the caller."""
    draw = np.random.default_rng(seed)
    arguments = recipe(draw)
    life = Life(Cause(learner=AdditiveLearner(**arguments)), [], {})
    for _ in range(int(draw.integers(1, 6))):
        step = draw.integers(8)
        if step < 5 or not life.rounds:
            users = [user for user in USERS if draw.integers(2)] or ["ann"]
            arrived = {user: upload(draw, arguments) for user in users}
            life.rounds.append(arrived)
            life.device.learn(arrived)
        elif step == 5:
            life.device = restarted(life.device, draw)
        for _ in range(int(draw.integers(3))):
            forget(life, draw)
    return life, arguments


def restarted(device: Cause, draw: np.random.Generator) -> Cause:
    """The device after a copy, or after its state was lost and must be added up again."""
    if draw.integers(2):
        return copy.deepcopy(pickle.loads(pickle.dumps(device)))  # noqa: S301 a device in memory
    device.engine.training.reset()
    return device


def forget(life: Life, draw: np.random.Generator) -> None:
    """Forget everything of a user, a round, the lowest samples of a round, or single samples; or two at once."""
    requests = []
    for user in {str(draw.choice(USERS)) for _ in range(int(draw.integers(1, 3)))}:
        held = [t for t in range(1, len(life.rounds) + 1) if user in life.left(t)]
        if not held:
            continue
        round_ = int(draw.choice(held))
        kind = draw.integers(4)
        if kind == 0:
            requests.append(Request(user))
            for t in held:
                life.gone[user, t] = set(range(len(life.rounds[t - 1][user][1])))
        elif kind == 1:
            requests.append(Request(user, (round_,)))
            life.gone[user, round_] = set(range(len(life.rounds[round_ - 1][user][1])))
        else:
            positions = positions_of(life, user, round_)
            if kind == 2:
                count = int(draw.integers(1, len(positions) + 1))
                requests.append(Request(user, (round_,), count))
                chosen = sorted(positions)[:count]
            else:
                chosen = [p for p in positions if draw.integers(2)] or positions[:1]
                requests.append(Request(user, samples=tuple((round_, p) for p in chosen)))
            remove(life, user, round_, chosen)
    if requests:
        life.device.serve(requests, together=bool(draw.integers(2)))


def positions_of(life: Life, user: str, round_: int) -> list[int]:
    """The positions of a user's retained samples of a round, by the ledger."""
    return [int(p) for _, held in life.device.ledger.pieces_of(user, round_) for p in held]


def remove(life: Life, user: str, round_: int, positions: list[int]) -> None:
    """Write down which rows go: those whose recorded bytes and label equal the ones at these positions."""
    ((_, piece),) = life.device.ledger.held_pieces(user, round_)
    going_x, going_y = arrays_of(piece.upload, np.asarray(sorted(positions)))
    x, y = life.rounds[round_ - 1][user]
    rows = life.device.learner.recorded(x)
    gone = life.gone.setdefault((user, round_), set())
    for one, label in zip(going_x, going_y, strict=True):
        gone.add(next(r for r in range(len(y)) if r not in gone and y[r] == label and (rows[r] == one).all()))


def state_of(device: Cause) -> bytes:
    """The bytes of the serving state; those of no samples if there is none."""
    head, learner = device.memory.head(0), device.learner
    assert isinstance(learner, AdditiveLearner)
    return learner.encode(learner.empty()) if head is None else device.memory.shelf.get(head.key)


def clean_room(life: Life, arguments: dict, draw: np.random.Generator) -> Cause:
    """A device that received the same rounds without what was forgotten; its users come in another order."""
    device = Cause(learner=AdditiveLearner(**arguments))
    for t in range(1, len(life.rounds) + 1):
        left = life.left(t)
        users = list(left)
        draw.shuffle(users)
        orders = {user: draw.permutation(len(left[user][1])) for user in users}
        device.learn({user: (left[user][0][orders[user]], left[user][1][orders[user]]) for user in users})
    return device


def added_up(life: Life, arguments: dict) -> Sums:
    """The sums by Python's own integers, without any of the code that adds and subtracts."""
    learner = AdditiveLearner(**arguments)
    sums = learner.empty()
    triangle = np.zeros((learner.head.setting.features + 1,) * 2, dtype=object)
    for t in range(1, len(life.rounds) + 1):
        for x, y in life.left(t).values():
            rows = learner.recorded(x)
            codes = codes_of(rows, learner.backbone.features, learner.scale.dtype)
            units = codes if learner.expansion is None else learner.expansion.units_of(codes.astype(float))
            sums.samples += len(y)
            sums.clipped += int(clipped_of(rows, learner.backbone.features, learner.scale.dtype).sum())
            for unit, label in zip(units, y, strict=True):
                z = np.array([*(int(value) for value in unit), 1], dtype=object)
                for name, part in sums.parts.items():
                    if name == "gram":
                        triangle += np.outer(z, z)
                    elif name == "squares":
                        part[:, label] += (z[:-1] ** 2).astype(np.int64)
                    else:
                        part[:, label] += z.astype(np.int64)
    if "gram" in sums.parts:
        for panel, start in zip(
            sums.parts["gram"]._panels, range(0, len(triangle), triangle_module.PANEL), strict=True
        ):
            panel += triangle[start : start + len(panel), start:].astype(np.int64)
    return sums


def merged(life: Life, arguments: dict, draw: np.random.Generator) -> bytes:
    """The state of several devices, each with some of the users, added up."""
    learner = AdditiveLearner(**arguments)
    total = learner.empty()
    for user in draw.permutation(USERS).tolist():
        part = Cause(learner=AdditiveLearner(**arguments))
        for t in range(1, len(life.rounds) + 1):
            part.learn({name: arrays for name, arrays in life.left(t).items() if name == user})
        total.merge(learner.decode(state_of(part)), learner.most_samples)
    return learner.encode(total)


def case(seed: int, *, merge: bool = False) -> None:
    """One random life; AssertionError if a bit differs."""
    draw = np.random.default_rng([seed, 1])
    block, panel = int(draw.choice([1, 2, 3, 1024])), int(draw.choice([1, 2, 5, 128]))
    with patch.object(learner_module, "BLOCK", block), patch.object(triangle_module, "PANEL", panel):
        life, arguments = live(seed)
        life.device.repair()  # a restart may have been the last step
        mine = state_of(life.device)
    clean = clean_room(life, arguments, draw)
    assert mine == state_of(clean), "the state is not that of a device that never had the samples"
    assert mine == added_up(life, arguments).encoded(), "the state is not the sum of what is left"
    assert life.device.heads() == clean.heads(), "other identities"
    assert life.device.verify().holds
    if merge:
        assert mine == merged(life, arguments, draw), "merged states are not that of one device"


def main() -> None:
    """Run many cases, and say how many."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    for number, seed in enumerate(range(options.first, options.first + options.cases), start=1):
        try:
            case(seed, merge=seed % 4 == 0)
        except BaseException:
            print(f"case {seed} failed", flush=True)
            raise
        if number % 5_000 == 0:
            print(f"{number:,} cases, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.cases:,} random lives: every state is that of a device that never had what was forgotten")


if __name__ == "__main__":
    main()
