"""Finds the backbone that a recipe names."""

from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cause.common.registry import Registry
from cause.errors import InputError
from cause.learners.additive.backbones.base import Backbone
from cause.learners.additive.backbones.none import NoBackbone

Make = Callable[[tuple[int, ...] | None, int | None, int], Backbone]
"""Makes a backbone of shape, size and seed."""


def _none(shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """The inputs are the features."""
    if shape is None:
        raise InputError("a learner without a backbone needs its number of features: features=43, or shape=(1, 28, 28)")
    if size is not None:
        raise InputError(f"size={size} is for a backbone that scales pictures: give features or shape")
    return NoBackbone(shape)


def _random_filters(shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """Fixed random filters, in integers."""
    from cause.learners.additive.backbones.filters import FILTERS
    from cause.learners.additive.backbones.random_filters import RandomFilters

    if shape is None:
        raise InputError("random filters need the shape of a picture: shape=(1, 28, 28)")
    return RandomFilters(shape, FILTERS if size is None else size, seed)


def _contrast_filters(shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """Fixed random filters on patches of normalised contrast."""
    from cause.learners.additive.backbones.contrast_filters import ContrastFilters
    from cause.learners.additive.backbones.filters import FILTERS

    if shape is None:
        raise InputError("contrast filters need the shape of a picture: shape=(1, 28, 28)")
    return ContrastFilters(shape, FILTERS if size is None else size, seed)


def _efficientnet_lite0(shape: tuple[int, ...] | None, size: int | None, seed: int) -> Backbone:
    """EfficientNet-Lite0, trained on ImageNet."""
    from cause.learners.additive.backbones.efficientnet_lite0 import efficientnet_lite0

    if shape is not None and (len(shape) != 3 or shape[0] != 3):
        raise InputError(f"EfficientNet-Lite0 takes pictures of three channels, as (3, 32, 32), not {shape}")
    return efficientnet_lite0(size)


BACKBONES: Registry[Make] = Registry(
    "backbone",
    {
        "none": _none,
        "random-filters": _random_filters,
        "contrast-filters": _contrast_filters,
        "efficientnet-lite0": _efficientnet_lite0,
    },
    group="cause.backbones",
)
"""What makes a backbone of shape, size and seed, by name."""


def backbone_of(
    setting: Any, shape: tuple[int, ...] | None, size: int | None, seed: int, digest: str | None = None
) -> Backbone:
    """Return the backbone of a recipe.

    Parameters
    ----------
    setting
        The name of a backbone, the path of an .onnx file, a `Backbone`, a torch module, or None: the inputs are the
        features.
    shape, size, seed
        As the recipe has them.
    digest
        The SHA-256 that a file must have; None for any.

    Raises
    ------
    InputError
        If there is no such backbone, or it cannot be made of these.
    """
    if isinstance(setting, Backbone):
        return setting
    if isinstance(setting, Path) or (isinstance(setting, str) and setting.endswith(".onnx")):
        from cause.learners.additive.backbones.onnx import OnnxBackbone

        backbone = OnnxBackbone(setting, digest)
        new = digest is None  # a home keeps the shape that it was made with
        if new and shape is not None and not backbone.takes(shape):
            raise InputError(f"the backbone {str(setting)!r} takes inputs of shape {backbone.input_shape}, not {shape}")
        return _checked(backbone)
    if setting is None or isinstance(setting, str):
        return BACKBONES["none" if setting is None else setting](shape, size, seed)
    if find_spec("torch") is not None:
        from torch import nn

        if isinstance(setting, nn.Module):
            from cause.learners.additive.backbones.module import ModuleBackbone

            if shape is None:
                raise InputError("a module as a backbone needs the shape of an input: shape=(3, 32, 32)")
            copy = deepcopy(setting)  # the user may go on training the module
            return _checked(ModuleBackbone(copy.requires_grad_(requires_grad=False), shape))
    raise InputError(f"a backbone is a name, an .onnx file or a torch module, not {type(setting).__name__}")


def _checked(backbone: Backbone) -> Backbone:
    """Return the backbone of a user, after a check that another input in between changes no features.

    Raises
    ------
    InputError
        If it draws random numbers, or keeps something of the inputs.
    """
    zeros, ones = (np.full((1, *backbone.input_shape), value, dtype=np.float32) for value in (0, 1))
    first, _, again = (backbone.compute(inputs).tobytes() for inputs in (zeros, ones, zeros))
    if first != again:
        raise InputError(
            "the backbone returns other features for the same input: it must draw no random numbers and keep nothing"
        )
    return backbone
