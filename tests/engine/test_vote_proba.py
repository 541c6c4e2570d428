"""The shares of a vote agree with the vote."""

import numpy as np
import pytest

from cause.engine.vote_proba import VOTE_PROBA, vote_proba
from cause.engine.voting import VOTES


def drawn(voters: int, seed: int):
    """Coarse probabilities, so that many ties occur."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(1, 4, size=(voters, 500, 3)).astype(float)
    return raw / raw.sum(axis=2, keepdims=True), rng.integers(1, 4, size=voters).astype(float)


def test_every_vote_has_its_shares():
    assert set(VOTE_PROBA) == set(VOTES)


@pytest.mark.parametrize("vote", list(VOTES))
@pytest.mark.parametrize("voters", [1, 2, 4])
def test_the_label_that_the_vote_chooses_has_the_most(vote: str, voters: int):
    probabilities, weights = drawn(voters, seed=voters)
    table = vote_proba(vote, probabilities, weights)
    assert np.array_equal(table.argmax(axis=1), VOTES[vote](probabilities, weights))
    assert table.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert table.min() >= 0


def test_a_tie_is_broken_by_the_last_bit_only():
    probabilities, weights = drawn(4, seed=0)
    counts = vote_proba("majority", probabilities, weights) * 4
    assert counts == pytest.approx(counts.round(), abs=1e-12)
    tied = np.sort(counts.round(), axis=1)[:, -1] == np.sort(counts.round(), axis=1)[:, -2]
    assert tied.sum() > 20  # there was something to break


def test_weights_are_the_samples_behind_a_head():
    probabilities = np.array([[[0.9, 0.1]], [[0.4, 0.6]]])
    assert vote_proba("weighted", probabilities, np.array([1.0, 3.0])).tolist() == [[0.25, 0.75]]
    assert vote_proba("majority", probabilities, np.array([1.0, 3.0])).round(6).tolist() == [[0.5, 0.5]]
    assert vote_proba("soft", probabilities, np.array([1.0, 3.0])).tolist() == [
        [pytest.approx(0.65), pytest.approx(0.35)]
    ]
    assert vote_proba("max-confidence", probabilities, np.ones(2)).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.4)]
    ]
