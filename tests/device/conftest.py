import pytest

from cause.device.home.home import Home
from tests.device.homes import MASTER, fixed_permutation


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


@pytest.fixture(autouse=True)
def positions(request, monkeypatch):
    """Positions that two devices agree on; `@pytest.mark.random_positions` leaves them random, as they really are."""
    if "random_positions" not in request.keywords:
        monkeypatch.setattr(Home, "permutation", staticmethod(fixed_permutation))
