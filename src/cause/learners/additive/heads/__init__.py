"""Heads: what is summed over the samples, and how a classifier is solved from the sums. One head a file."""

from cause.common.registry import Registry, subclass_of
from cause.learners.additive.heads.base import Head, Setting, Solution
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

__all__ = ["HEADS", "Head", "Setting", "Solution"]
