"""Shares of the vote by label, for `predict_proba`. There is one rule for each vote."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cause.common.registry import Registry
from cause.engine.voting import VOTES, Probabilities

Table = NDArray[np.float64]
Rule = Callable[[Probabilities, NDArray[np.floating]], Table]


def vote_proba(vote: str, probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the share of each label: one row a sample, one column a class, each row summing to 1.

    The label that the vote chooses has the largest share. After a tie, it is larger by the last bit.

    Parameters
    ----------
    vote
        The name of the vote.
    probabilities
        Of the heads: head × sample × class.
    weights
        Of the heads.

    Examples
    --------
    >>> vote_proba("majority", np.array([[[.9, .1]], [[.4, .6]], [[.4, .6]]]), np.ones(3)).round(2)
    array([[0.33, 0.67]])
    >>> tied = vote_proba("majority", np.array([[[.6, .4]], [[.1, .9]]]), np.ones(2))
    >>> tied.round(2), tied.argmax(axis=1)
    (array([[0.5, 0.5]]), array([1]))
    """
    probabilities = probabilities.astype(np.float64)
    chosen = VOTES[vote](probabilities, weights)
    table = _rule_of(vote)(probabilities, weights)
    tied = np.flatnonzero(table.argmax(axis=1) != chosen)
    table[tied, chosen[tied]] = np.nextafter(table[tied].max(axis=1), 2.0)
    return table


def _rule_of(vote: str) -> Rule:
    """Return the rule of a vote. A vote of another package may have one as its attribute `shares`."""
    if vote in VOTE_PROBA:
        return VOTE_PROBA[vote]
    rule: Rule | None = getattr(VOTES[vote], "shares", None)
    return rule or (lambda probabilities, weights: _all_or_nothing(VOTES[vote](probabilities, weights), probabilities))


def _all_or_nothing(chosen: NDArray[np.int64], probabilities: Probabilities) -> Table:
    """Give the whole vote to the chosen label, for votes of other packages without a rule of their own."""
    return np.eye(probabilities.shape[2])[chosen]


def majority(probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the share of the heads that choose each label."""
    return weighted(probabilities, np.ones(len(probabilities)))


def weighted(probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the share of the weight of the heads that choose each label."""
    chosen = probabilities.argmax(axis=2)[..., None] == np.arange(probabilities.shape[2])
    return np.asarray((chosen * weights[:, None, None]).sum(axis=0) / weights.sum())


def soft(probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the mean probability of each label."""
    return _scaled(probabilities.sum(axis=0))


def weighted_soft(probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the weighted mean probability of each label."""
    return _scaled((probabilities * weights[:, None, None]).sum(axis=0))


def max_confidence(probabilities: Probabilities, weights: NDArray[np.floating]) -> Table:
    """Return the highest probability of each label among the heads, as a share of their sum."""
    return _scaled(probabilities.max(axis=0))


def _scaled(table: Table) -> Table:
    return np.asarray(table / table.sum(axis=1, keepdims=True))


VOTE_PROBA: Registry[Rule] = Registry(
    "vote",
    {
        "majority": majority,
        "weighted": weighted,
        "soft": soft,
        "weighted-soft": weighted_soft,
        "max-confidence": max_confidence,
    },
)
