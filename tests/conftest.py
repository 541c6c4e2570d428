"""Settings of the whole suite."""

import gc

from hypothesis import HealthCheck, settings

# Machines are noisy: no example may fail for being slow. Every run tries the same examples, so red means red.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=24, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """Leave imported objects out of garbage collections: a home makes one after each erasure, slowly beside torch."""
    gc.collect()
    gc.freeze()
