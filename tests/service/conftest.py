"""A service in this process, and tokens of every kind."""

import pytest

from tests.device.homes import MASTER
from tests.service.services import Running

collect_ignore = ["generated_use.py"]  # runs beside a generated client, in an environment of its own


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        with Running(tmp_path_factory.mktemp("serve") / "home") as running:
            yield running


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
