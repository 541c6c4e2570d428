"""Learners as plain data, for the configuration of a home."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any

from cause.common.registry import Registry
from cause.engine.arguments import refuse_unknown
from cause.engine.learner import Learner
from cause.errors import CauseError, InputError
from cause.learners.estimator_settings import from_plain


class NotNamedError(InputError):
    """A learner with a part that cannot be imported by name: it has to be passed whenever its home is opened."""


def describe(learner: Learner) -> dict[str, Any]:
    """Return the learner as plain data, from which `build` makes the same learner.

    Raises
    ------
    NotNamedError
        If a part cannot be imported by name: then the learner must be passed at each opening.
    InputError
        If `build` would make another learner of the data, or could do it only in this program.
    """
    description = learner.described()
    if description is None:
        raise NotNamedError(f"a {learner.type_name} cannot be written down: give it whenever the home is opened")
    if build(description).recipe_digest != learner.recipe_digest:
        raise InputError(f"the settings of this {learner.type_name} cannot be written down so that they come back")
    return description


def build(description: Mapping[str, Any]) -> Learner:
    """Return the learner of plain data, as `describe` returns it.

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


def build_additive(description: Mapping[str, Any] | None) -> Learner | None:
    """Return the additive learner of plain data, without its backbone if that is missing or another one.

    Without it, recorded samples are forgotten and verified all the same, and new inputs are refused.

    Parameters
    ----------
    description
        The table `[learner]` of a home.

    Returns
    -------
    Learner
        None if the data are of another kind of learner, or the learner cannot be made at all.
    """
    if description is None or description.get("kind") != "additive":
        return None
    from cause.learners.additive import AdditiveLearner

    try:
        return build(description)
    except InputError as error:
        with suppress(CauseError):
            return AdditiveLearner.without_backbone(description, str(error))
    return None


def _torch(**parts: Any) -> Learner:
    """A network that is trained and pruned by torch."""
    from cause.learners.recipe import Recipe
    from cause.learners.torch import TorchLearner

    model = parts.pop("model", None)
    if not isinstance(model, str):
        raise InputError(f"a torch learner needs a model's name, not {model!r}")
    machine = {name: parts.pop(name) for name in ("device", "threads") if name in parts}
    refuse_unknown("a torch learner", parts, {field.name for field in fields(Recipe)} - {"model"})
    if "options" in parts:
        parts["options"] = tuple(sorted(parts["options"].items()))
    return TorchLearner(model, **machine, **parts)


def _sklearn(**parts: Any) -> Learner:
    """An estimator of scikit-learn, linear or Bayesian."""
    from sklearn import linear_model, naive_bayes

    from cause.learners.sklearn import FAMILIES, SklearnLearner

    name = parts.pop("estimator", None)
    if name not in FAMILIES:
        raise InputError(f"an estimator is one of {', '.join(FAMILIES)}, not {name!r}")
    settings = from_plain(parts.pop("settings", {}))
    refuse_unknown("a scikit-learn learner", parts, {"classes", "features", "epochs"})
    family = getattr(linear_model, name, None) or getattr(naive_bayes, name)
    refuse_unknown(f"the estimator {name}", settings, list(family().get_params()))
    try:
        return SklearnLearner(family(**settings), **parts)
    except TypeError as error:
        raise InputError(f"not settings of {name}: {error}") from None


def _additive(**parts: Any) -> Learner:
    """Sums of integers over frozen features: forgetting subtracts."""
    from cause.learners.additive import AdditiveLearner

    try:
        return AdditiveLearner(**parts)
    except TypeError as error:
        raise InputError(f"not settings of an additive learner: {error}") from None


OURS: Mapping[str, Callable[..., Learner]] = {"torch": _torch, "sklearn": _sklearn, "additive": _additive}
LEARNERS: Registry[Callable[..., Learner]] = Registry("learner", OURS, group="cause.learners")
"""What makes a learner of the rest of its description, by kind."""
