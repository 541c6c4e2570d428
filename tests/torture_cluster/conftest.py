"""Skips these tests where there is no Ray, no network namespace, or no way to read the memory of processes."""

import pytest

from tests.torture_cluster.__main__ import why_not


@pytest.fixture(scope="session", autouse=True)
def _needs_all():
    reason = why_not()
    if reason is not None:
        pytest.skip(f"{reason} (make torture-cluster)")
