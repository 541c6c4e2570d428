"""The recipe of a run: the paper's or ours."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cause.common.registry import Registry
from cause.engine.presets import System, parse_system
from cause.lab import recipes
from cause.lab.reproduce.data import Split
from cause.lab.reproduce.paper import BATCH_SIZES
from cause.learners.recipe import Recipe

Composed = tuple[Recipe, System]


def paper(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Return the paper's recipe and the system: Adam (SGD for ARCANE) at a rate of 0.001, without augmentation."""
    sgd = system.partition(":")[0] == "arcane"
    small = {} if backbone in BATCH_SIZES else {"batch_size": 32, "lr": 3e-3}
    optimizer = "sgd" if sgd else "adam"
    recipe = recipes.paper(
        backbone, data.classes, data.shape, epochs=epochs, optimizer=optimizer, **scaling(data), **small
    )
    return recipe, parse_system(system)[1]


def scaling(data: Split) -> dict[str, Any]:
    """Return the constants that scale the inputs; they are not fitted to the data."""
    return recipes.BYTES if data.brightest == 255 else {"mean": data.brightest / 2, "std": data.brightest / 4}


def ours(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Return our recipe and the system with rehearsal and a soft vote; it visits no more samples than the paper's."""
    plain, composed = paper(data, backbone, system, epochs)
    flat = data.name.startswith("digits")
    recipe = recipes.ours(
        backbone,
        data.classes,
        data.shape,
        epochs=epochs,
        batch_size=min(128, plain.batch_size),
        augmentation="none" if flat else "crop-flip",
        **scaling(data),
    )
    return recipe, replace(composed, rehearsal=recipes.REHEARSAL, vote="soft")


RECIPES: Registry[Callable[[Split, str, str, int], Composed]] = Registry("recipe", {"paper": paper, "ours": ours})
