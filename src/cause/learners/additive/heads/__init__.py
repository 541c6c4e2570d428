"""Heads: what is summed over the samples, and how a classifier is solved from the sums. One head a file."""

from cause.common.registry import Registry, subclass_of
from cause.errors import InputError
from cause.learners.additive.heads.base import Head, Setting, Solution, by_class
from cause.learners.additive.heads.class_means import ClassMeans
from cause.learners.additive.heads.gaussian_nb import GaussianNB
from cause.learners.additive.heads.multinomial_nb import MultinomialNB
from cause.learners.additive.heads.ridge import Ridge

HEADS: Registry[type[Head]] = Registry(
    "head",
    {"ridge": Ridge, "class-means": ClassMeans, "gaussian-nb": GaussianNB, "multinomial-nb": MultinomialNB},
    group="cause.heads",
    accepts=subclass_of(Head),
)


def head_of(setting: str | type[Head]) -> type[Head]:
    """Return the class of a recipe's head.

    Parameters
    ----------
    setting
        The name of a head, or a class on `Head`.

    Raises
    ------
    InputError
        If there is no such head.
    """
    if isinstance(setting, str):
        return HEADS[setting]
    if subclass_of(Head)(setting):
        return setting
    raise InputError(f"a head is a name ({', '.join(HEADS)}) or a class on Head, not {setting!r}")


__all__ = ["HEADS", "Head", "Setting", "Solution", "by_class", "head_of"]
