"""Your own torch network on a device: a frozen part that everybody has, a part that learns and is pruned.

python examples/custom_torch_model.py [--home FOLDER]

The network is in `custom_network.py` beside it: its home names it as custom_network:network, and any program that can
import that opens the home. A function of the script that is running would be found by nobody else, and is refused.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from custom_network import Digits, network

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.errors import CauseError, InputError
from cause.lab.clean_room import clean_room, compare
from cause.lab.digits import BRIGHTEST, SHAPE, load_digits
from cause.learners.torch import TorchLearner

USERS = ("ann", "bob", "carol")
ROUNDS, SAMPLES = 2, 900


def run(home: Path) -> bool:
    """Learn, forget, and compare with a device trained without the data; return whether all bits are the same."""
    if home.exists():
        raise InputError(f"{str(home)!r} is there already: name a new folder")
    images, y = load_digits()
    x = images.reshape(-1, *SHAPE)
    x_test, y_test = x[SAMPLES:], y[SAMPLES:]

    # scaled by a constant; "frugal" prunes 70 % of what learns in a shard's first training, and stores half precision
    learner = TorchLearner(network, classes=10, shape=SHAPE, std=BRIGHTEST, epochs=6, batch_size=32, round_to=4)
    rounds = [
        {user: (x[own], y[own]) for user, own in zip(USERS, np.split(rows, len(USERS)), strict=True)}
        for rows in np.split(np.arange(SAMPLES), ROUNDS)
    ]
    with Cause(home, learner=learner, system="frugal", shards=2, slots=6) as device:
        for t, uploads in enumerate(rounds, start=1):
            learned = device.learn(uploads)
            print(f"Round {t}: {learned.samples} digits of {len(USERS)} users, {len(learned.trained)} shards trained.")
        tell_sizes(device)
        print(f"{(device.predict(x_test) == y_test).mean():.0%} of new digits are right.")

        (forgotten,) = device.forget("carol", rounds=[1])
        print(
            f"carol's round 1 is forgotten: {len(forgotten.dropped)} sub-models destroyed, "
            f"{forgotten.rsn} digits trained again."
        )
        print(f"{(device.predict(x_test) == y_test).mean():.0%} of new digits are right.")

        verification = device.verify(forgotten.ids[0], processes=0)
        identical, all_ = len(verification.identical), verification.sub_models
        print(f"Trained again from what is retained: {identical} of {all_} are the same bits.")
        clean = clean_room(device, learner, uploads_of(rounds), seed=0)
        same = compare(device, clean)
        print(
            "A device trained without them, with the same users in the same shards: "
            f"{len(same.identical)} of {same.sub_models} sub-models are the same bits."
        )
        return verification.holds and same.holds and bool(verification.identical) and bool(same.identical)


def tell_sizes(device: Cause) -> None:
    """What pruning left, and what a sub-model takes."""
    key = device.memory.stored()[0]
    pruned, dense = device.learner.network(device.learner.decode(device.memory.shelf.get(key))), Digits(10)
    counts = [sum(p.numel() for p in each.parameters() if p.requires_grad) for each in (dense, pruned)]
    frozen = torch.equal(pruned.waves.weight, dense.waves.weight)
    print(
        f"Of {counts[0]:,} parameters that learn {counts[1]:,} are left; a stored sub-model takes "
        f"{device.memory[key].size_bytes:,} bytes. Frozen part: {'as it was' if frozen else 'CHANGED'}."
    )


def uploads_of(rounds: list[dict[str, tuple[np.ndarray, np.ndarray]]]) -> list[list[ArrayUpload]]:
    """The rounds as the clean room takes them."""
    return [
        [ArrayUpload(user, t, *data) for user, data in uploads.items()] for t, uploads in enumerate(rounds, start=1)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 1 if a sub-model is not what it should be."""
    parser = argparse.ArgumentParser(prog="custom_torch_model", description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, help="a new folder for the device, which stays (default: a temporary one)")
    options = parser.parse_args(arguments)
    try:
        if options.home is not None:
            return 0 if run(options.home) else 1
        with tempfile.TemporaryDirectory() as folder:
            return 0 if run(Path(folder) / "device") else 1
    except CauseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
