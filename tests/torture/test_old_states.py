"""An older state of a part of a home is refused and named, and costs no key."""

import pytest

from tests.torture.old_states import CHANGES, copies, judge


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_older_state_is_refused_and_destroys_nothing(change, scratch, deep):
    kept = copies(scratch)
    judgements = [judge(scratch, kept, change, seed) for seed in range(60 if deep else 4)]
    judged = [each for each in judgements if each is not None]
    assert [problem for each in judged for problem in each.problems] == []
    assert judged
