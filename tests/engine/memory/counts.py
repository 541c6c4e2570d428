"""Numbers of samples for a memory without a ledger."""

from cause.engine.samples import SegmentKey


class Counted:
    """Sample counts of segments, as a ledger has them."""

    def __init__(self, samples):
        self.samples = samples  # by (shard, round)
        self.round = 0

    def samples_between(self, shard, after, upto):
        first = after.round + 1 if after else 1
        return sum(self.samples.get((shard, round_), 0) for round_ in range(first, upto.round + 1))

    def segments_of(self, shard):
        return [(SegmentKey(*key), count) for key, count in sorted(self.samples.items()) if key[0] == shard and count]


class Ones(Counted):
    """One sample in each segment."""

    def __init__(self):
        super().__init__({(shard, round_): 1 for shard in range(4) for round_ in range(1, 80)})
        self.round = 80


class Between(Counted):
    """Numbers between segments from a function."""

    def __init__(self, between=lambda *_: 1):
        super().__init__({})
        self.samples_between = between
