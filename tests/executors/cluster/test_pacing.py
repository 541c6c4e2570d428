"""The parts of a message are as large as the link allows."""

import pytest

from cause.executors.cluster.pacing import LEAST_PART, MOST_PART, PARTS_AHEAD, QUEUE_S, Finished, Pace

MUCH = 1 << 40


class Link:
    """A link of so many bytes a second and a distance in seconds, with a clock of its own."""

    def __init__(self, rate: float, distance: float = 0.0) -> None:
        self.now, self.rate, self.distance = 0.0, rate, distance
        self.pace = Pace(lambda: self.now)
        self.longest = 0.0  # from a part's departure until its confirmation

    def send(self, seconds: float) -> int:
        """Send for so long, with as many parts ahead as are allowed; return the size of the last part."""
        sending, free_at, end = list[tuple[float, float]](), self.now, self.now + seconds
        while self.now < end:
            while len(sending) < PARTS_AHEAD:
                size = self.pace.next(MUCH)
                free_at = max(free_at, self.now) + size / self.rate
                sending.append((self.now, free_at + self.distance))
            left_at, self.now = sending.pop(0)
            self.longest = max(self.longest, self.now - left_at)
            self.pace.confirm()
        for _, self.now in sending:
            self.pace.confirm()
        return size


def test_parts_become_large_on_a_fast_link():
    assert Link(1e9).send(1.0) == MOST_PART


@pytest.mark.parametrize("rate", [2e5, 1e6, 5e6])
def test_nothing_waits_long_behind_the_parts_on_a_slow_link(rate):
    link = Link(rate)
    link.send(60.0)
    assert link.longest < 2 * QUEUE_S


def test_parts_become_smaller_on_a_link_that_becomes_slow():
    link = Link(1e9)
    assert link.send(1.0) == MOST_PART
    link.rate = 1e6
    link.send(30.0)
    link.longest = 0.0
    link.send(30.0)
    assert link.longest < 2 * QUEUE_S


def test_a_distance_does_not_make_parts_small():
    assert Link(1e9, distance=0.6).send(60.0) == MOST_PART


def test_a_small_rest_says_nothing_about_large_parts():
    pace = Pace(lambda: 0.0)
    for _ in range(100):
        assert pace.next(1) == 1
        pace.confirm()
    assert pace.next(MUCH) == LEAST_PART


def test_nothing_leaves_after_the_end():
    pace = Pace()
    pace.stop()
    with pytest.raises(Finished):
        pace.next(1)


def test_a_confirmation_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no part"):
        Pace().confirm()
