"""The shard controller's golden values."""

import pytest

from cause.engine.controller import ShardController
from cause.errors import InputError


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        (1, [1] * 10),
        (4, [3, 3, 2, 2, 2, 2, 2, 2, 2, 2]),
        (16, [13, 11, 10, 9, 9, 8, 8, 8, 8, 8]),
    ],
)
def test_golden_values(shards, expected):
    assert [ShardController(shards).at(t) for t in range(1, 11)] == expected


def test_never_below_one_and_never_rising():
    for shards in range(1, 40):
        values = [ShardController(shards, p=0.3, gamma=0.0).at(t) for t in range(1, 200)]
        assert values == sorted(values, reverse=True)
        assert values[-1] == 1
        assert ShardController(shards, p=0.3, gamma=0.0).most == values[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"shards": 0},
        {"shards": -3},
        {"shards": 10**9},
        {"shards": 4, "gamma": 1.5},
        {"shards": 4, "p": -1},
        {"shards": 4, "p": float("nan")},
        {"shards": 4, "gamma": float("nan")},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InputError):
        ShardController(**wrong)
