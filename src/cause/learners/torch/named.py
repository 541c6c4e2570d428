"""Recipes from arguments, and as plain data for a configuration."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from cause.common.importing import check_importable_elsewhere, imported, name_of
from cause.engine.arguments import refuse_unknown
from cause.errors import InputError
from cause.learners.recipe import Recipe

IMAGE = (3, 32, 32)
"""The shape of an input when none is given: the paper's images, for the paper's networks."""
SHAPES = {
    "mlp": "an mlp is for tables: say how many numbers an input has, as shape=(64,)",
    "cnn": "a cnn takes pictures of any size: say the shape of one, channels first, as shape=(1, 8, 8)",
}
"""Models that have no usual shape of an input, and what a user has to say."""


def recipe_of(model: str | Callable[..., Any], parts: dict[str, Any]) -> Recipe:
    """Return the recipe of a model's name or factory and of other arguments.

    Raises
    ------
    InputError
        If a part is unknown or makes no sense, or the shape of an input is left out that the model does not imply.
    """
    name = model if isinstance(model, str) else name_of(model)
    parts = {**parts, **{key: tuple(parts[key]) for key in ("shape",) if key in parts}}
    for key in ("mean", "std", "class_weights"):
        if key in parts and not isinstance(parts[key], int | float):
            parts[key] = tuple(float(number) for number in parts[key])
    if callable(parts.get("loss")):
        parts["loss"] = _name_of_loss(parts["loss"])
    refuse_unknown("TorchLearner", parts, {*(field.name for field in fields(Recipe)), "device", "threads", "graphs"})
    try:
        recipe = Recipe(name, **{"shape": IMAGE, **parts})
    except TypeError as error:
        raise InputError(f"not a recipe: {str(error).removeprefix('Recipe.__init__() ')}") from None
    if name in SHAPES and "shape" not in parts:
        raise InputError(SHAPES[name])
    return recipe


def _name_of_loss(loss: Callable[..., Any]) -> str:
    name = name_of(loss)
    try:
        same = imported(name, "loss") is loss
    except InputError:
        same = False
    if not same:
        raise InputError(f"the loss {name!r} cannot be imported by name: put it into a module, outside other functions")
    return name


def described(recipe: Recipe) -> dict[str, Any]:
    """Return the parts of a recipe that are set, as values for TOML."""
    for what in ("model", "loss"):
        check_importable_elsewhere(getattr(recipe, what) or "", what)
    parts = {field.name: getattr(recipe, field.name) for field in fields(Recipe)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in parts.items()}
    plain["options"] = dict(recipe.options)
    return {name: value for name, value in plain.items() if value not in (None, {}, [])}
