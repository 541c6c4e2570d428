"""What `cause calibrate` trains: the demo's network on scikit-learn's digits."""

import numpy as np

from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Lesson, Piece, SegmentKey
from cause.errors import InputError
from cause.lab.digits import BRIGHTEST, CLASSES, SHAPE, load_digits
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner

SIZES = (250, 500, 1000, 1750)


def check_device(device: str) -> None:
    """Raise an `InputError` for a device that torch does not have on this machine."""
    import torch

    if device == "cpu":
        return
    name, _, number = device.partition(":")
    if name != "cuda" or (number and not number.isdecimal()):
        raise InputError(f"unknown device {device!r}: cpu, cuda, or cuda:1 for the second card")
    cards = torch.cuda.device_count()
    if int(number or 0) >= cards:
        seen = f"{cards} CUDA card{'s' if cards > 1 else ''}" if cards else "no CUDA card"
        raise InputError(f"torch sees {seen} here: {device!r} cannot be used")


def learner_for(epochs: int, device: str) -> TorchLearner:
    """Return a learner of the demo's network, unpruned."""
    return TorchLearner(
        Recipe("cnn", CLASSES, SHAPE, epochs=epochs, batch_size=32, lr=3e-3, std=BRIGHTEST), device=device
    )


def lesson_of(samples: int) -> Lesson:
    """Return a lesson of so many digits."""
    x, y = load_digits()
    upload = ArrayUpload("anybody", 1, np.resize(x, (samples, *x.shape[1:])), np.resize(y, samples))
    return Lesson(SegmentKey(0, 1), (Piece(upload, upload.positions),), samples)
