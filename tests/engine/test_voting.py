"""Votes: ties and agreement."""

import numpy as np
import pytest

from cause.engine.voting import VOTES


def vote(name, rows, weights=None):
    probabilities = np.array([[row] for row in rows])
    return int(VOTES[name](probabilities, np.array(weights or [1.0] * len(rows)))[0])


@pytest.mark.parametrize("name", list(VOTES))
def test_unanimous_heads_win(name):
    assert vote(name, [[0.1, 0.8, 0.1], [0.2, 0.5, 0.3]]) == 1


@pytest.mark.parametrize("name", list(VOTES))
def test_a_single_head_decides(name):
    assert vote(name, [[0.1, 0.2, 0.7]], [3.0]) == 2


@pytest.mark.parametrize("name", list(VOTES))
def test_the_order_of_heads_does_not_matter(name):
    rng = np.random.default_rng(0)
    probabilities, weights = rng.dirichlet(np.ones(4), size=(5, 50)), np.arange(1.0, 6)
    flipped = VOTES[name](probabilities[::-1], weights[::-1])
    assert (VOTES[name](probabilities, weights) == flipped).all()


def test_majority_ties_go_to_the_summed_probability():
    assert vote("majority", [[0.9, 0.1, 0], [0.4, 0.6, 0]]) == 0
    assert vote("majority", [[0.6, 0.4, 0], [0.1, 0.9, 0]]) == 1


def test_majority_ties_are_settled_by_the_sum_not_by_the_most_confident():
    assert vote("majority", [[0.9, 0.1], [0.55, 0.45], [0.3, 0.7], [0.2, 0.8]]) == 1


def test_majority_then_to_the_lowest_label():
    assert vote("majority", [[0.0, 0.75, 0.25], [0.0, 0.25, 0.75]]) == 1


def test_majority_a_loser_in_votes_cannot_win_by_probability():
    assert vote("majority", [[0.51, 0.49, 0], [0.51, 0.49, 0], [0.0, 1.0, 0.0]]) == 0


def test_weights_count_only_where_they_should():
    rows, weights = [[0.6, 0.4], [0.4, 0.6], [0.4, 0.6]], [10.0, 1.0, 1.0]
    assert vote("weighted", rows, weights) == 0
    assert vote("majority", rows, weights) == 1


def test_max_confidence_and_soft_differ():
    rows = [[0.95, 0.05], [0.3, 0.7], [0.1, 0.9]]
    assert vote("max-confidence", rows) == 0
    assert vote("soft", rows) == 1
