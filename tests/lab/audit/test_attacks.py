"""What the attacks look at, and what they refuse."""

import numpy as np
import pytest

from cause.errors import InputError
from cause.lab.audit import attack, calibrated_scores, loss_scores


def table(*chances):
    """Answers of two classes, from the chance of class 0."""
    return np.array([[chance, 1 - chance] for chance in chances])


def test_the_loss_is_the_cross_entropy():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 7)), rng.integers(0, 7, 50)
    loss = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(labels), reduction="none").numpy()
    assert loss_scores(torch.softmax(torch.tensor(logits), 1).numpy(), labels) == pytest.approx(-loss)


def test_a_probability_that_was_rounded_to_nothing_has_a_score():
    answers = np.array([[1.0, 1e-30], [1.0, 1e-44], [1.0, 0.0]], dtype=np.float32)
    scores = loss_scores(answers, [1, 1, 1])
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1] == scores[2]


def test_what_every_model_finds_easy_is_no_sign_of_membership():
    suspect, reference = table(0.99, 0.6), table(0.99, 0.1)
    assert loss_scores(suspect, [0, 0]).argmax() == 0
    assert calibrated_scores(suspect, [reference], [0, 0]).argmax() == 1


def test_a_sample_is_looked_for_in_its_own_shard_and_compared_with_all_others():
    heads = {0: table(0.9, 0.5, 0.5), 2: table(0.5, 0.9, 0.5), 5: table(0.5, 0.5, 0.5)}
    scores = attack(heads, [0, 0, 0], [0, 2, 5])
    assert scores["calibrated"] == pytest.approx([0.4, 0.4, 0])
    assert attack(heads, [0, 0, 0], [2, 0, 5])["calibrated"] == pytest.approx([-0.2, -0.2, 0])
    assert scores["loss"] == pytest.approx(np.log([1.9 / 3, 1.9 / 3, 0.5]))


def test_a_shard_without_a_voter_says_nothing_about_its_samples():
    heads = {0: table(0.7, 0.7, 0.7), 2: table(0.5, 0.2, 0.2)}
    scores = attack(heads, [0, 0, 0], [1, 0, 3])["calibrated"]
    assert scores == pytest.approx([0, 0.5, 0])


def test_only_the_label_matters_to_the_score():
    answers = np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])
    assert np.ptp(loss_scores(answers, [0, 0])) == np.ptp(calibrated_scores(answers, [answers[::-1]], [0, 0])) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loss_scores([[2.0, -1.0]], [0]), "sample 0 has a least of -1"),
        (lambda: loss_scores([[0.5, 0.5], [3.0, 4.0]], [0, 0]), "sample 1 has a least of 3 and a sum of 7"),
        (lambda: loss_scores([[np.nan, 0.5]], [0]), "sample 0 has a least of nan"),
        (lambda: loss_scores([[0.5, 0.5]], [2]), "labels are from 0 to 1, not 2"),
        (lambda: loss_scores([[0.5, 0.5]], [-1]), "labels are from 0 to 1, not -1"),
        (lambda: loss_scores([[0.5, 0.5]], [0.5]), "whole numbers, not float64"),
        (lambda: loss_scores([[0.5, 0.5]], [0, 1]), r"shape \(1, 2\) and labels of shape \(2,\)"),
        (lambda: loss_scores([0.5, 0.5], [0]), r"probabilities of shape \(2,\)"),
        (lambda: calibrated_scores([[0.5, 0.5]], [], [0]), "needs a reference"),
        (lambda: attack({0: [[0.5, 0.5]]}, [0], [0]), "at least 2 shards that vote, not 1"),
        (lambda: attack({0: table(0.5), 1: table(0.5)}, [0], [0, 1]), "1 labels and 2 shards"),
        (lambda: attack({0: table(0.5), 1: table(0.5, 0.5)}, [0], [0]), "one row and one label a sample"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
