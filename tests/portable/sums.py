"""Make a home with an additive learner, or verify one, and print a digest of its state and portable solution."""

import hashlib
import os
import platform
import sys
from pathlib import Path

import numpy as np

from cause import AdditiveLearner, Cause

MASTER = "22" * 32
FEATURES, CLASSES = 40, 5


def samples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from a counter, since a generator of floats may differ between machines."""
    drawn = hashlib.shake_256(b"%d" % seed).digest(count * (FEATURES + 1))
    table = np.frombuffer(drawn, dtype=np.uint8).reshape(count, FEATURES + 1)
    y = table[:, -1] % CLASSES
    return table[:, :-1].astype(np.float64) / 8 - 16 + y[:, None], y.astype(np.int64)


def learner() -> AdditiveLearner:
    return AdditiveLearner(
        features=FEATURES, scale=(-16, 20), classes=CLASSES, expand=200, squash=True, solve="portable"
    )


def digest(device: Cause) -> str:
    """The digest of the state's bytes and of the solution's."""
    made, head = device.learner, device.memory.head(0)
    assert isinstance(made, AdditiveLearner)
    assert head is not None
    state = device.memory.shelf.get(head.key)
    weights = made.head.solve(made.decode(state)).arrays["weights"]
    return hashlib.sha256(state + weights.astype("<f8").tobytes()).hexdigest()


def make(folder: Path) -> Cause:
    """Let a device learn and forget."""
    device = Cause(folder, learner=learner(), key={"env": "CAUSE_TEST_KEY"})
    for t in range(3):
        device.learn({user: samples(10 * t + n, 300) for n, user in enumerate(("ann", "bob", "cem"))})
    device.forget("ann")
    device.forget("bob", rounds=[2])
    return device


def main() -> None:
    """`make FOLDER` or `verify FOLDER`."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    action, folder = sys.argv[1], Path(sys.argv[2])
    device = make(folder) if action == "make" else Cause(folder)
    verification = device.verify()
    if action == "verify" and not (verification.holds and verification.identical and not verification.unverifiable):
        sys.exit(f"not identical on {platform.machine()}: {verification}")
    print(digest(device), platform.machine())
    device.close()


if __name__ == "__main__":
    main()
