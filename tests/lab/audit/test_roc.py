"""AUC, its intervals and paired differences, against scikit-learn, scipy and simulation."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score, roc_curve

from cause.errors import InputError
from cause.lab.audit import auc, auc_difference, auc_interval, detectable_auc, tpr_at

FEW_VALUES = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60).filter(
    lambda pairs: len({member for _, member in pairs}) == 2
)
NORMAL = NormalDist()


def columns(pairs):
    scores, member = zip(*pairs, strict=True)
    return np.array(scores, dtype=float), np.array(member)


@given(FEW_VALUES)
def test_the_auc_is_that_of_scikit_learn_ties_included(pairs):
    scores, member = columns(pairs)
    assert auc(scores, member) == pytest.approx(roc_auc_score(member, scores), abs=1e-12)
    estimate = auc_interval(scores, member)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.value == auc(scores, member)


@given(FEW_VALUES, st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]))
def test_the_true_positive_rate_is_the_best_one_on_the_curve(pairs, fpr):
    scores, member = columns(pairs)
    false, true, _ = roc_curve(member, scores, drop_intermediate=False)
    assert tpr_at(scores, member, fpr) == pytest.approx(true[false <= fpr].max())


@given(st.integers(0, 10_000), st.integers(5, 60), st.integers(5, 60))
def test_chance_is_in_the_interval_wherever_mann_and_whitney_see_no_difference(seed, members, others):
    rng = np.random.default_rng(seed)
    high, low = rng.normal(rng.uniform(-1, 1), 1, members), rng.normal(0, 1, others)
    estimate = auc_interval(np.concatenate([high, low]), np.arange(members + others) < members)
    test = mannwhitneyu(high, low, method="asymptotic", use_continuity=False)
    assert test.pvalue < 0.05 or 0.5 in estimate
    # and it is not lenient: what the test is sure of is outside
    assert test.pvalue > 0.001 or 0.5 not in estimate


SHAPES = {
    "chance": (0.5, lambda rng, n: rng.normal(size=n)),
    "all a little higher": (NORMAL.cdf(1 / 2**0.5), lambda rng, n: rng.normal(1, 1, n)),
    "higher and wider": (NORMAL.cdf(3 / 10**0.5), lambda rng, n: rng.normal(3, 3, n)),
    "three of five memorised": (0.8, lambda rng, n: rng.normal(size=n) + 20 * (rng.random(n) < 0.6)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("members", "others"), [(100, 100), (25, 75)])
def test_the_interval_contains_the_truth_about_19_times_in_20(name, members, others):
    truth, draw = SHAPES[name]
    rng, member = np.random.default_rng(7), np.arange(members + others) < members
    hits = [
        truth in auc_interval(np.concatenate([draw(rng, members), rng.normal(size=others)]), member) for _ in range(600)
    ]
    assert 0.92 < np.mean(hits) < 0.99


def test_the_interval_keeps_a_width_where_the_scores_leave_no_doubt():
    member = np.arange(20) < 10
    assert auc_interval(-np.arange(20.0), member).low < 0.85
    assert auc_interval(np.arange(20.0), member).high > 0.15
    assert 0.5 in auc_interval(np.zeros(20), member)


def test_the_paired_difference_contains_the_truth_about_19_times_in_20():
    rng, member = np.random.default_rng(3), np.arange(200) < 100
    truth = NORMAL.cdf(1 / 2**0.5) - NORMAL.cdf(0.5 / 2**0.5)
    hits, widths, unpaired = [], [], []
    for _ in range(400):
        shared = rng.normal(size=200)  # what both models find hard
        first, second = (shared + rng.normal(size=200) for _ in range(2))
        first[member] += 2**0.5
        second[member] += 2**-0.5
        estimate = auc_difference(first, second, member)
        assert estimate.value == pytest.approx(auc(first, member) - auc(second, member))
        hits.append(truth in estimate)
        widths.append(estimate.high - estimate.low)
        unpaired.append(sum(e.high - e.low for e in (auc_interval(s, member) for s in (first, second))))
    assert 0.92 < np.mean(hits) < 0.98
    assert np.mean(widths) < 0.6 * np.mean(unpaired)  # the pairing is used


def test_a_model_does_not_differ_from_itself():
    rng = np.random.default_rng(0)
    scores, member = rng.normal(size=50), rng.random(50) < 0.5
    estimate = auc_difference(scores, scores.copy(), member)
    assert (estimate.value, estimate.low, estimate.high) == (0, 0, 0)


def test_more_samples_see_smaller_differences():
    """An AUC of `detectable_auc` is detected as often as its power says."""
    assert detectable_auc(1000, 1000) < detectable_auc(100, 100) < detectable_auc(10, 10)
    shift = 2**0.5 * NORMAL.inv_cdf(detectable_auc(80, 80))
    rng, member = np.random.default_rng(2), np.arange(160) < 80
    seen = [0.5 not in auc_interval(rng.normal(size=160) + shift * member, member) for _ in range(400)]
    assert 0.73 < np.mean(seen) < 0.87


def test_nothing_draws_from_the_global_generator():
    state = np.random.get_state(legacy=False)["state"]["key"].copy()
    member = np.arange(30) < 15
    auc_interval(np.arange(30.0), member)
    auc_difference(np.arange(30.0), np.arange(30.0) % 7, member)
    assert (np.random.get_state(legacy=False)["state"]["key"] == state).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc([1.0, 2.0], [True, True]), "members and others are needed, not 2 members of 2 samples"),
        (lambda: auc([], np.zeros(0, dtype=bool)), "members and others are needed, not 0 members of 0"),
        (lambda: auc([1.0, np.nan], [True, False]), "the score of sample 1 is not a number"),
        (lambda: auc([1.0, 2.0], [1, 0]), "one True or False a sample"),
        (lambda: auc([1.0, 2.0, 3.0], [True, False]), r"not \(3,\) scores and \(2,\) bool"),
        (lambda: tpr_at([1.0, 2.0], [True, False], fpr=1.0), "from 0 to below 1, not 1.0"),
        (lambda: auc_difference([1, 2, 3], [1, 2, 3], [True, False, False]), "not 1 and 2"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
