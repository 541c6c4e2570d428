"""Finds the backbone that a recipe names."""

from collections.abc import Callable
from typing import Any

from cause.common.registry import Registry
from cause.errors import InputError
from cause.learners.additive.backbones.base import Backbone
from cause.learners.additive.backbones.none import NoBackbone


def _none(shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """The inputs are the features."""
    if shape is None:
        raise InputError("a learner without a backbone needs its number of features: features=43, or shape=(1, 28, 28)")
    if size is not None:
        raise InputError(f"size={size} is for a backbone that scales pictures: give features or shape")
    return NoBackbone(shape)


BACKBONES: Registry[Callable[[tuple[int, ...] | None, int | None, int], Backbone]] = Registry(
    "backbone", {"none": _none}, group="cause.backbones"
)
"""What makes a backbone of shape, size and seed, by name."""


def backbone_of(setting: Any, shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """Return the backbone of a recipe.

    Parameters
    ----------
    setting
        The name of a backbone, a `Backbone`, or None: the inputs are the features.
    shape, size, seed
        As the recipe has them.

    Raises
    ------
    InputError
        If there is no such backbone, or it cannot be made of these.
    """
    if isinstance(setting, Backbone):
        return setting
    if setting is None:
        return BACKBONES["none"](shape, size, seed)
    if isinstance(setting, str):
        return BACKBONES[setting](shape, size, seed)
    raise InputError(f"a backbone is a name, a file or a module, not {type(setting).__name__}")
