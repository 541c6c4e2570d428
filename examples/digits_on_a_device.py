"""A device in a folder: four users' digits in three rounds, one forgets now, one later, and a replay proves both.

python examples/digits_on_a_device.py [--home FOLDER]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier

from cause.device.device import Cause
from cause.errors import CauseError, InputError
from cause.lab.digits import BRIGHTEST, load_digits
from cause.learners.sklearn import SklearnLearner

USERS = ("ann", "bob", "carol", "dave")
ROUNDS, SAMPLES = 3, 1200


def run(home: Path) -> bool:
    """Make the device, use it, switch it off and on, and check it; whether everything held."""
    if home.exists():
        raise InputError(f"{str(home)!r} is there already: name a new folder")
    images, y = load_digits()
    x = images.reshape(len(y), -1) / BRIGHTEST  # by a constant of the sensor: nothing is fitted to users' data
    x_test, y_test = x[SAMPLES:], y[SAMPLES:]

    learner = SklearnLearner(SGDClassifier(loss="log_loss"), classes=10, features=64, epochs=10)
    device = Cause(home, learner=learner, system="frugal", shards=2, slots=8)
    print(f"A device lives in {home}: 2 shards, room for 8 sub-models. Its key is beside it, not in it.")
    for t, rows in enumerate(np.split(np.arange(SAMPLES), ROUNDS), start=1):
        done = device.learn({user: (x[own], y[own]) for user, own in zip(USERS, np.split(rows, 4), strict=True)})
        summary = f"{len(done.trained)} shards trained; {right(device, x_test, y_test)} of new digits are right"
        print(f"Round {t}: {done.samples} digits of {len(USERS)} users, {summary}.")

    (now,) = device.forget("bob")
    print(
        f"bob wants everything forgotten, now: {len(now.dropped)} sub-models had seen some of it and are destroyed, "
        f"with his digits and their keys; {now.rsn} digits of others were trained again. "
        f"{right(device, x_test, y_test)} are right."
    )
    (later,) = device.forget("carol", rounds=[2], repair="later")
    print(
        f"carol wants her round 2 forgotten, and the training can wait: {len(later.dropped)} sub-models are destroyed. "
        f"Her shard votes with an older one that never saw it; {right(device, x_test, y_test)} are right."
    )
    device.close()

    device = Cause(home)  # the learner, too, is written down in there
    print(f"The device was switched off and on. Shards that wait for their training: {device.waiting()}.")
    again = device.repair()
    print(f"Repaired: {again} digits were trained again. {right(device, x_test, y_test)} are right.")

    held = True
    for user, request in (("bob", now.ids[0]), ("carol", later.ids[0])):
        verification = device.verify(request)  # in a fresh process
        held = held and verification.holds and bool(verification.identical)
        print(
            f"{user}'s receipt is signed and in the log. Training again from what is retained gives "
            f"{len(verification.identical)} of {verification.sub_models} stored sub-models of the shard, bit for bit."
        )
    device.close()
    return held


def right(device: Cause, x: np.ndarray, y: np.ndarray) -> str:
    """How many the vote gets right."""
    return f"{(device.predict(x) == y).mean():.0%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 1 if a receipt does not hold."""
    parser = argparse.ArgumentParser(prog="digits_on_a_device", description=__doc__.splitlines()[0])
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
