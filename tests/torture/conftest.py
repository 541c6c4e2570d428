from pathlib import Path

import pytest
from hypothesis import settings

from cause.device.home.home import Home
from tests.device.homes import MASTER, fixed_permutation
from tests.torture.kills import scratch_folder


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    monkeypatch.setenv("CAUSE_OVERWRITE_FREED", "0")  # collecting garbage after each of thousands of forgets takes long


@pytest.fixture(autouse=True)
def positions(monkeypatch):
    """Positions that two devices agree on, so that a request by count means the same samples in both."""
    monkeypatch.setattr(Home, "permutation", staticmethod(fixed_permutation))


@pytest.fixture
def deep():
    """Is there time for all of it? As in `make torture`."""
    return settings().max_examples > 100


@pytest.fixture
def scratch():
    """A folder in memory, where there is one."""
    with scratch_folder() as folder:
        yield Path(folder)
