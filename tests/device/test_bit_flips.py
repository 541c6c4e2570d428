"""One flipped bit anywhere in a home is reported, or changes nothing that can be seen; never a traceback."""

from tests.device.bit_flips import flips


def test_a_flipped_bit_is_reported_or_changes_nothing(thorough):
    count = 60 if thorough else 12
    tally = flips(count, seed=1)
    assert tally.failures == []
    assert tally.reported > count / 6
    assert tally.reported + tally.unseen == count
