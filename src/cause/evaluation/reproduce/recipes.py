"""What is trained, and how: by the paper's recipe or by ours. The one place where a run's recipe is decided."""

from collections.abc import Callable
from dataclasses import replace

from cause import recipes
from cause.evaluation.reproduce.data import Split
from cause.presets import System, parse_system
from cause.recipe import Recipe
from cause.registry import Registry

# The paper's table of data sets and backbones; it has no row for DenseNet-121, so that of its pruning table.
BATCH_SIZES = {"resnet34": 256, "vgg16": 512, "mobilenetv2": 128, "densenet121": 128}

Composed = tuple[Recipe, System]


def paper(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Adam (SGD for ARCANE) at a constant rate of 0.001, no augmentation."""
    sgd = system.partition(":")[0] == "arcane"
    recipe = Recipe(
        backbone,
        data.classes,
        data.shape,
        epochs=epochs,
        batch_size=BATCH_SIZES.get(backbone, 32),
        optimizer="sgd" if sgd else "adam",
        lr=1e-3 if backbone in BATCH_SIZES else 3e-3,
        std=data.brightest,
    )
    return recipe, parse_system(system)[1]


def ours(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Crops and flips, a warm cosine, rehearsal and a soft vote, at no more visits than the epochs allow without."""
    plain, composed = paper(data, backbone, system, epochs)
    flat = data.name.startswith("digits")
    recipe = recipes.ours(
        backbone,
        data.classes,
        data.shape,
        epochs=epochs,
        batch_size=min(128, plain.batch_size),
        augmentation="none" if flat else "crop-flip",
        mean=data.brightest / 2,
        std=data.brightest / 4,
    )
    return recipe, replace(composed, rehearsal=recipes.REHEARSAL, vote="soft")


RECIPES: Registry[Callable[[Split, str, str, int], Composed]] = Registry("recipe", {"paper": paper, "ours": ours})
