from pathlib import Path

import pytest

from tests.home.homes import MASTER
from tests.torture.kills import scratch_folder


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


@pytest.fixture
def scratch():
    """A folder in memory, where there is one."""
    with scratch_folder() as folder:
        yield Path(folder)
