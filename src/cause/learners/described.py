"""Learners as plain data, so that a home can say in its configuration what learns in it."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from cause.common.registry import Registry
from cause.engine.arguments import refuse_unknown
from cause.engine.learner import Learner
from cause.errors import InputError
from cause.learners.estimator_settings import from_plain


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
    told = getattr(learner, "described", None)
    if told is None:
        raise NotNamedError(f"a {type(learner).__name__} cannot be written down: give it whenever the home is opened")
    description: dict[str, Any] = told()
    if build(description).recipe_digest != learner.recipe_digest:
        raise InputError(f"the settings of this {type(learner).__name__} cannot be written down so that they come back")
    return description


def build(description: Mapping[str, Any]) -> Learner:
    """The learner of a description.

    Parameters
    ----------
    description
        The table `[learner]` of a home: its `kind`, and what a learner of that kind is made of.

    Raises
    ------
    InputError
        If there is no such kind here, or it cannot be made of that.

    Examples
    --------
    >>> build({"kind": "sklearn", "estimator": "GaussianNB", "classes": 10, "features": 64}).classes
    10
    """
    parts = dict(description)
    kind = parts.pop("kind", None)
    if not isinstance(kind, str) or kind not in LEARNERS:
        raise InputError(
            f"a learner's kind is one of {', '.join(LEARNERS)}, not {kind!r}; a package that brings it as "
            f"{LEARNERS.group!r} is not installed"
        )
    try:
        return LEARNERS[kind](**parts)
    except TypeError as error:
        if kind in OURS:
            raise
        raise InputError(f"not settings of a learner of kind {kind!r}: {error}") from None


def _torch(**parts: Any) -> Learner:
    """A network that is trained and pruned by torch."""
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


def _sklearn(**parts: Any) -> Learner:
    """An estimator of scikit-learn, linear or Bayesian."""
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


OURS: Mapping[str, Callable[..., Learner]] = {"torch": _torch, "sklearn": _sklearn}
LEARNERS: Registry[Callable[..., Learner]] = Registry("learner", OURS, group="cause.learners")
"""What makes a learner of the rest of its description, by kind."""
