"""Learners as plain data, so that a home can say in its configuration what learns in it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cause.engine.arguments import refuse_unknown
from cause.engine.learner import Learner
from cause.errors import InputError
from cause.learners.estimator_settings import from_plain

KINDS = ("torch", "sklearn")


class NotNamedError(InputError):
    """A learner with a part that has no name to import it by: it has to be given whenever its home is opened."""


def describe(learner: Learner) -> dict[str, Any]:
    """What `build` needs to make it again.

    Raises
    ------
    NotNamedError
        If a part cannot be imported by name: then the learner must be given at each opening.
    InputError
        If something of it could be written down, but would not come back the same, or only in this program.
    """
    description = learner.described()
    if description is None:
        raise NotNamedError(f"a {learner.type_name} cannot be written down: give it whenever the home is opened")
    if build(description).recipe_digest != learner.recipe_digest:
        raise InputError(f"the settings of this {learner.type_name} cannot be written down so that they come back")
    return description


def build(description: Mapping[str, Any]) -> Learner:
    """The learner of a description.

    >>> build({"kind": "sklearn", "estimator": "GaussianNB", "classes": 10, "features": 64}).classes
    10
    """
    parts = dict(description)
    kind = parts.pop("kind", None)
    if kind == "torch":
        return _torch(parts)
    if kind == "sklearn":
        return _sklearn(parts)
    raise InputError(f"a learner's kind is one of {', '.join(KINDS)}, not {kind!r}")


def _torch(parts: dict[str, Any]) -> Learner:
    from cause.learners.recipe import Recipe
    from cause.learners.torch import TorchLearner

    model = parts.pop("model", None)
    if not isinstance(model, str):
        raise InputError(f"a torch learner needs a model's name, not {model!r}")
    own = {name: parts.pop(name) for name in ("device", "threads") if name in parts}
    _check(parts, {field.name for field in fields(Recipe)} - {"model"}, "a torch learner")
    if "options" in parts:
        parts["options"] = tuple(sorted(parts["options"].items()))
    return TorchLearner(model, **own, **parts)


def _sklearn(parts: dict[str, Any]) -> Learner:
    from sklearn import linear_model, naive_bayes

    from cause.learners.sklearn import FAMILIES, SklearnLearner

    name = parts.pop("estimator", None)
    if name not in FAMILIES:
        raise InputError(f"an estimator is one of {', '.join(FAMILIES)}, not {name!r}")
    settings = from_plain(parts.pop("settings", {}))
    _check(parts, {"classes", "features", "epochs"}, "a scikit-learn learner")
    made = getattr(linear_model, name, None) or getattr(naive_bayes, name)
    try:
        return SklearnLearner(made(**settings), **parts)
    except TypeError as error:
        raise InputError(f"not settings of {name}: {error}") from None


def _check(parts: Mapping[str, Any], known: set[str], what: str) -> None:
    refuse_unknown(what, parts, known)
