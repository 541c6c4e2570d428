from pathlib import Path

import pytest
from hypothesis import settings

from tests.home.homes import MASTER
from tests.torture.kills import scratch_folder


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


@pytest.fixture
def deep():
    """Is there time for all of it? As in `make torture`."""
    return settings().max_examples > 100


@pytest.fixture
def scratch():
    """A folder in memory, where there is one."""
    with scratch_folder() as folder:
        yield Path(folder)
