"""The data sets themselves, where they are: `make test-data CAUSE_DATA=folder`."""

import os

import numpy as np
import pytest

from cause.data import KNOWN, find, load
from cause.errors import InputError
from cause.lab.users import share_out

pytestmark = pytest.mark.skipif(not os.environ.get("CAUSE_DATA"), reason="CAUSE_DATA names no folder with data sets")


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_named_set_is_whole(name, split):
    try:
        find(name)
    except InputError as error:
        pytest.skip(str(error))
    data = load(name, split)
    assert len(data) == KNOWN[name].counts[split]
    assert set(np.unique(data.y)) == set(range(data.classes))
    assert 50 < data.x.mean() < 200  # pictures, not noise or zeros
    assert data.x[:100].std() > 20


def test_cifar10_is_shared_out_to_a_hundred_users():
    try:
        data = load("cifar10")
    except InputError as error:
        pytest.skip(str(error))
    shared = share_out(data.x, data.y, classes=data.classes)
    assert shared.trace.samples == 50_000
    assert len({user for user, _ in shared.rows}) == 100
