"""The accuracy of a device: by vote, for each class, and of each head alone."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.samples import SegmentKey

if TYPE_CHECKING:
    from cause.device.device import Cause


@dataclass(frozen=True)
class Head:
    """One head and its accuracy alone."""

    shard: int
    sub_model: SegmentKey
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """Accuracies on labelled samples."""

    samples: int
    accuracy: float
    classes: dict[int, tuple[int, float]]
    """For each class in the samples: their number and the accuracy on them."""
    heads: tuple[Head, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for JSON."""
        classes = {str(label): {"samples": n, "accuracy": share} for label, (n, share) in self.classes.items()}
        return asdict(self) | {"classes": classes}


def evaluate(device: "Cause", x: NDArray[Any], y: NDArray[np.int64]) -> Evaluation:
    """Measure the accuracy of a device on labelled samples."""
    right = device.predict(x) == y
    heads = []
    for shard, head in device.heads().items():
        state = device.learner.decode(device.memory.shelf.get(head.key))
        right_of_head = device.learner.predict(state, x).argmax(axis=1) == y
        heads.append(Head(shard, head.key, float(right_of_head.mean())))
    classes = {int(label): (int((y == label).sum()), float(right[y == label].mean())) for label in np.unique(y)}
    return Evaluation(len(y), float(right.mean()), classes, tuple(heads))
