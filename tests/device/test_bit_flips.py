"""One flipped bit anywhere in a home is reported, or changes nothing that can be seen; never a traceback."""

import pytest

from tests.device.bit_flips import flips
from tests.device.homes import LEARNERS


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_flipped_bit_is_reported_or_changes_nothing(thorough, kind):
    count = 60 if thorough else 12
    tally = flips(count, seed=1, kind=kind)
    assert tally.failures == []
    assert tally.reported > count / 6
    assert tally.reported + tally.unseen == count
