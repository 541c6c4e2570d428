"""How well a device answers: by vote, for each class, and each head alone."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.samples import SegmentKey

if TYPE_CHECKING:
    from cause.device.device import Cause


@dataclass(frozen=True)
class Head:
    """One voter."""

    shard: int
    sub_model: SegmentKey
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """Shares of right answers."""

    samples: int
    accuracy: float
    classes: dict[int, tuple[int, float]]
    """Of each class that is there: how many samples, and the share answered right."""
    heads: tuple[Head, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        classes = {str(label): {"samples": n, "accuracy": share} for label, (n, share) in self.classes.items()}
        return asdict(self) | {"classes": classes}


def evaluate(device: "Cause", x: NDArray[Any], y: NDArray[np.int64]) -> Evaluation:
    """Ask a device about labelled samples."""
    right = device.predict(x) == y
    heads = []
    for shard, head in device.heads().items():
        state = device.learner.decode(device.memory.shelf.get(head.key))
        own = device.learner.predict(state, x).argmax(axis=1) == y
        heads.append(Head(shard, head.key, float(own.mean())))
    classes = {int(label): (int((y == label).sum()), float(right[y == label].mean())) for label in np.unique(y)}
    return Evaluation(len(y), float(right.mean()), classes, tuple(heads))
