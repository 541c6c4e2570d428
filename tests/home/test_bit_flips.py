"""One flipped bit anywhere in a home is reported, or changes nothing that can be seen; never a traceback."""

from tests.home.bit_flips import flips


def test_a_flipped_bit_is_reported_or_changes_nothing():
    tally = flips(60, seed=1)
    assert tally.failures == []
    assert tally.reported > 10
    assert tally.reported + tally.unseen == 60
