"""Votes: from the heads' probabilities (head × sample × class) and weights to one label for each sample."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cause.common.registry import Registry

Probabilities = NDArray[np.floating]
Labels = NDArray[np.int64]
Vote = Callable[[Probabilities, NDArray[np.floating]], Labels]


def majority(probabilities: Probabilities, weights: NDArray[np.floating]) -> Labels:
    """Return the label that most heads choose (the paper's vote); ties by summed probability, then the lowest label.

    >>> majority(np.array([[[.9, .1]], [[.4, .6]], [[.4, .6]]]), np.ones(3))
    array([1])
    """
    return weighted(probabilities, np.ones(len(probabilities)))


def weighted(probabilities: Probabilities, weights: NDArray[np.floating]) -> Labels:
    """Return the label of a majority in which each head counts with its weight.

    >>> weighted(np.array([[[.9, .1]], [[.4, .6]], [[.4, .6]]]), np.array([500., 200, 200]))
    array([0])
    """
    chosen = probabilities.argmax(axis=2)[..., None] == np.arange(probabilities.shape[2])
    votes = (chosen * weights[:, None, None]).sum(axis=0)
    tied = votes == votes.max(axis=1, keepdims=True)
    return np.asarray(np.where(tied, probabilities.sum(axis=0), -np.inf).argmax(axis=1))


def soft(probabilities: Probabilities, weights: NDArray[np.floating]) -> Labels:
    """Return the label of the highest summed probability.

    >>> soft(np.array([[[.9, .1]], [[.4, .6]], [[.4, .6]]]), np.ones(3))
    array([0])
    """
    return np.asarray(probabilities.sum(axis=0).argmax(axis=1))


def weighted_soft(probabilities: Probabilities, weights: NDArray[np.floating]) -> Labels:
    """Return the label of the highest weighted sum of probabilities.

    >>> weighted_soft(np.array([[[.6, .4]], [[.3, .7]]]), np.array([300., 100]))
    array([0])
    """
    return np.asarray((probabilities * weights[:, None, None]).sum(axis=0).argmax(axis=1))


def max_confidence(probabilities: Probabilities, weights: NDArray[np.floating]) -> Labels:
    """Return the label of the single most confident head (ARCANE's decision aggregation).

    >>> max_confidence(np.array([[[.7, .3]], [[.2, .8]], [[.6, .4]]]), np.ones(3))
    array([1])
    """
    return np.asarray(probabilities.max(axis=0).argmax(axis=1))


VOTES: Registry[Vote] = Registry(
    "vote",
    {
        "majority": majority,
        "weighted": weighted,
        "soft": soft,
        "weighted-soft": weighted_soft,
        "max-confidence": max_confidence,
    },
    group="cause.votes",
)
