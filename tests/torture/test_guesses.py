"""A home confirms no guess of what was forgotten: true and wrong guesses fit equally often."""

import pytest

from tests.quick import quick_only
from tests.torture.guesses import problems, told_apart


@pytest.mark.parametrize(("rows", "uploads"), quick_only([(128, 12), (1_000, 8), (5_000, 6)], [(1_000, 8)]))
def test_wrong_guesses_fit_as_often_as_the_true_one(rows, uploads, scratch):
    assert problems(scratch, rows, uploads) == []


def test_a_true_guess_that_always_fits_is_detected_and_one_that_fits_as_others_do_is_not():
    assert told_apart([[True, *[False] * 20]] * 6) is not None
    assert told_apart([[False, *[True] * 20]] * 6) is not None
    assert told_apart([[True] * 21] * 6) is None
    assert told_apart([[number == 3, *[True, False] * 10] for number in range(6)]) is None
