"""npz: the fitted arrays of an estimator, without pickle."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cause.device.exports.head import Head

if TYPE_CHECKING:
    from cause.device.device import Cause


def write(device: "Cause", target: Path, heads: Sequence[Head]) -> tuple[str, ...]:
    """Write the arrays of each head to a file of its own."""
    files = []
    for head in heads:
        files.append(f"{head.name}.npz")
        arrays: dict[str, Any] = {
            name: np.asarray(value) for name, value in device.learner.exported(head.state).items()
        }
        np.savez(target / files[-1], **arrays)
    return tuple(files)
