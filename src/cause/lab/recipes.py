"""Recipes by name: the paper's, for fidelity; ours, for accuracy at no more sample visits; one with public weights.

>>> from cause.engine.presets import parse_system
>>> paper().pace, ours().pace, parse_system(SYSTEM)[1].rehearsal
('epochs', 'visits', 9.0)
"""

from typing import Any

from cause.lab.reproduce.paper import BATCH_SIZES, EPOCHS_PER_ROUND
from cause.learners.recipe import Recipe

REHEARSAL = 9.0
"""With it, in the tenth round of ten equal ones, every earlier sample of the shard is rehearsed."""
SYSTEM = f"cause:rehearsal={REHEARSAL:g},vote=soft"
"""The paper's system with the rehearsal and the vote that our recipe is meant for."""
BYTES = {"mean": 120.0, "std": 64.0}
"""Scales pixels of 0 to 255 to about -2 to 2. The constants are not fitted to any data."""


def paper(model: str = "resnet34", classes: int = 10, shape: tuple[int, ...] = (3, 32, 32), **changes: Any) -> Recipe:
    """Return the paper's recipe: Adam at 0.001, 80 epochs a round, no augmentation (section V-A and appendix B).

    The paper says nothing of scaling, schedules or weight decay: pixels are scaled by constants, and there is neither.

    Parameters
    ----------
    model
        The name of the network.
    classes
        The number of classes.
    shape
        The shape of one input.
    changes
        Other fields of `Recipe`.

    Examples
    --------
    >>> paper("mobilenetv2").batch_size, paper(compute="fp32", epochs=2).compute
    (128, 'fp32')
    """
    parts: dict[str, Any] = {
        "epochs": EPOCHS_PER_ROUND,
        "batch_size": BATCH_SIZES.get(model, 256),
        "lr": 1e-3,
        "compute": "bf16",
    }
    return Recipe(model, classes, shape, **{**parts, **BYTES, **changes})


def ours(model: str = "resnet34", classes: int = 10, shape: tuple[int, ...] = (3, 32, 32), **changes: Any) -> Recipe:
    """Return our recipe: crops and flips, SGD with a rate that rises and falls in each segment, smoothed labels.

    Rehearsed samples count: a segment visits as many samples as the paper's 80 epochs over its new ones. It is meant
    for a system that rehearses (`SYSTEM`); without rehearsal a segment is trained for 80 epochs. The parameters are
    those of `paper`.

    >>> ours().optimizer, ours().augmentation, ours("mlp", 10, (64,), augmentation="none").shape
    ('sgd', 'crop-flip', (64,))
    """
    parts: dict[str, Any] = {
        "epochs": EPOCHS_PER_ROUND,
        "pace": "visits",
        "batch_size": 128,
        "optimizer": "sgd",
        "lr": 0.1,
        "nesterov": True,
        "weight_decay": 5e-4,
        "schedule": "warm-cosine",
        "augmentation": "crop-flip",
        "label_smoothing": 0.1,
        "compute": "bf16",
    }
    return Recipe(model, classes, shape, **{**parts, **BYTES, **changes})


PUBLIC_SYSTEM = f"cause:pruning=none,rehearsal={REHEARSAL:g},vote=soft,requests=coalesced"
"""The paper's system for networks that start from public weights: to prune 70 % of them would be to lose these. The
requests of a round are served together: with rehearsal each one alone would train most of a shard again."""
PUBLIC_SIZE = 128
"""The side to which pictures are scaled."""


def public(
    model: str = "efficientnet-lite0", classes: int = 10, shape: tuple[int, ...] = (3, 32, 32), **changes: Any
) -> Recipe:
    """Return a recipe that starts from public weights: EfficientNet-Lite0, trained on ImageNet, at 128 pixels.

    Few epochs at a low rate, since the weights are good already. It is meant for `PUBLIC_SYSTEM`.

    >>> public().init, public().epochs, dict(public(options=(("size", 96),)).options)
    ('efficientnet-lite0', 6, {'size': 96})
    """
    parts: dict[str, Any] = {
        "init": "efficientnet-lite0",
        "options": (("size", PUBLIC_SIZE),),
        "epochs": 6,
        "pace": "visits",
        "batch_size": 64,
        "optimizer": "sgd",
        "lr": 0.02,
        "nesterov": True,
        "weight_decay": 1e-4,
        "schedule": "warm-cosine",
        "augmentation": "crop-flip",
        "label_smoothing": 0.1,
        "compute": "bf16",
        "mean": 127.0,
        "std": 128.0,
    }
    return Recipe(model, classes, shape, **{**parts, **changes})
