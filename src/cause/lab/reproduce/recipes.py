"""How a network is trained in a run: as the paper says, as we do, or as in the scripts that its authors published."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cause.common.hashing import derive, root_key
from cause.common.registry import Registry
from cause.engine.presets import System, parse_system
from cause.lab import recipes
from cause.lab.reproduce.data import Split
from cause.lab.reproduce.paper import BATCH_SIZES
from cause.lab.workload import MOST_ALPHA
from cause.learners.recipe import Recipe

if TYPE_CHECKING:
    from cause.learners.torch.models import Factory

Composed = tuple[Recipe, System]
Compose = Callable[[Split, str, str, int], Composed]
"""Takes a data set, a backbone, the name of a system and the number of epochs."""


@dataclass(frozen=True)
class Training:
    """A named way to train: the recipe and the system, and what else of a run it decides."""

    compose: Compose
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a run that belong to this training."""
    start: "Callable[[Split, Recipe, str, int, str], Factory | None] | None" = None
    """Returns the factory that networks start from; takes data, recipe, system, seed and device."""
    warning: str = ""
    """A remark that is shown with every result, if the training is not exact."""


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


def authors(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Return the recipe of the authors' published scripts, for our networks, and the system.

    Pixels are divided by 255 (not at all in ARCANE's script), the optimizer is Adam for every system, and a softmax
    stands before a cross entropy that expects logits.
    """
    plain, composed = paper(data, backbone, system, epochs)
    brightest = 1.0 if system.partition(":")[0] == "arcane" else data.brightest
    loss = "cause.lab.authors:softmax_twice"
    return replace(plain, optimizer="adam", mean=0.0, std=brightest, loss=loss), composed


def authors_network(data: Split, backbone: str, system: str, epochs: int) -> Composed:
    """Return the recipe of the authors' scripts with their network instead of the backbone, and the system."""
    plain, composed = authors(data, backbone, system, epochs)
    return replace(plain, model="cause.lab.authors:network"), composed


def one_epoch_on_all(data: Split, recipe: Recipe, system: str, seed: int, device: str) -> "Factory | None":
    """Train a network for one epoch on all samples and return the factory of networks with its weights.

    In the authors' scripts only CAUSE has this start; for other systems None is returned. It is **not exact**: every
    shard begins with weights that have seen the samples of all users.
    """
    if not system.startswith("cause"):
        return None
    from cause.lab.authors import HeadStart
    from cause.lab.reproduce.kinds.prune import lesson_of
    from cause.learners.torch import TorchLearner

    learner = TorchLearner(replace(recipe, epochs=1), device=device)
    return HeadStart(recipe.model, learner.train(None, lesson_of(data, len(data.y)), derive(root_key(seed), "start")))


_AS_PUBLISHED: dict[str, Any] = {
    "settings": {"rounds": 1, "alpha": float(MOST_ALPHA)},  # the scripts know no rounds, and users are i.i.d.
    "start": one_epoch_on_all,
    "warning": "not exact: CAUSE starts from one epoch on all users' samples",
}

RECIPES: Registry[Training] = Registry(
    "recipe",
    {
        "paper": Training(paper),
        "ours": Training(ours),
        "authors": Training(authors, **_AS_PUBLISHED),
        "authors-network": Training(authors_network, **_AS_PUBLISHED),
    },
)
