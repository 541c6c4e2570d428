"""Settings of the whole suite."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One thread for torch and BLAS, here and in the processes that tests start: as many workers as cores run at once.
# Before numpy is imported, which reads it once. Tests about threads set their own number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOM_BYTES = 4 * 2**30
"""Temporary folders are in memory where so much of it is free: a home waits for the disk some ten times a call."""
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Machines are noisy: no example may fail for being slow. Every run tries the same examples, so red means red.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=24, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=8)
settings.register_profile("deep", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))


def pytest_configure(config: pytest.Config) -> None:
    """Try as many examples of each property as there is time for, unless `--hypothesis-profile` says how many."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("suite" if config.getoption("--long") else "quick")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave imported objects out of garbage collections: a home makes one after each erasure, slowly beside torch."""
    if session.config.getoption("--workers", 1) > 1 and not session.config.option.collectonly:
        import torch._inductor.config  # noqa: F401 once here: the first training imports it, for a second a process

        from tests.device import new_homes

        new_homes.make()
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked `long`, and all states of others")


LONGEST_FIRST = (
    "tests/browser/",
    "tests/lab/reproduce/test_figures.py",
    "tests/lab/reproduce/test_runner.py",
    "tests/service/test_service.py",
    "tests/service/test_limits.py",
    "tests/exactness/test_pairwise.py",
    "tests/device/test_process_memory.py",
    "tests/torture/",
    "tests/executors/",
    "tests/device/test_e",
    "tests/device/test_backup.py",
    "tests/device/vault/test_power_loss.py",
    "tests/learners/test_torch.py",
    "tests/service/",
    "tests/test_",
    "tests/lab/",
    "tests/learners/",
)
"""Files that take longest.

Each is run by one worker, so they are begun first: no worker then waits for the last.
"""


def starts_late(item: pytest.Item) -> int:
    """Where the file of a test stands in the order."""
    places = (place for place, prefix in enumerate(LONGEST_FIRST) if item.nodeid.startswith(prefix))
    return next(places, len(LONGEST_FIRST))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the slowest tests first, and skip the tests marked `long` unless `--long` is given (`make test-long`)."""
    items.sort(key=starts_late)
    if config.getoption("--long"):
        return
    long = [item for item in items if "long" in item.keywords]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if "long" not in item.keywords]
    config.stash[LEFT_OUT] = {name_of(item) for item in long} - {name_of(item) for item in items}


LEFT_OUT = pytest.StashKey[set[str]]()


def name_of(item: pytest.Item) -> str:
    """The test, whatever its parameters."""
    return item.nodeid.partition("[")[0]


@pytest.fixture
def left_out(request: pytest.FixtureRequest) -> set[str]:
    """The tests of which this run tries no case, since all are marked `long`."""
    return request.config.stash.get(LEFT_OUT, set())


@pytest.fixture(autouse=True)
def keep_freed_memory() -> Iterator[None]:
    """Let the C library leave freed memory as it is again, after a test in which a home or a worker switched it on.

    Each test then takes as long whichever came before it in the same process.
    """
    yield
    from cause.common import zeroize

    if zeroize.overwrite_freed_memory.cache_info().currsize:
        zeroize.overwrite_freed_memory.cache_clear()
        library = zeroize._glibc()
        if library is not None:
            library.mallopt(zeroize.M_PERTURB, 0)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Start one server of warm processes for all workers: see `tests/forked_workers.py`."""
    if session.config.getoption("--workers", 1) > 1 and not session.config.option.collectonly:
        from tests.warm_processes import share_server

        share_server()
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def warm_processes() -> Iterator[None]:
    """Fork workers from a process that has imported the libraries: see `tests/warm_processes.py`."""
    from tests.warm_processes import WarmProcess, started_as

    with started_as(WarmProcess):
        yield


@pytest.fixture(autouse=True)
def fresh_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start fresh workers where a test is about their start: `@pytest.mark.fresh_processes`."""
    if "fresh_processes" not in request.keywords:
        yield
        return
    from tests.warm_processes import started_as

    with started_as(None):
        yield


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether there is time to try all states, and not only some: `--long`."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def one_process_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try learners out in this process alone: two fresh ones import torch, for seconds, where no test looks at them.

    `tests/executors/test_fresh_trial.py` is about the fresh ones.
    """
    from cause.device import attach
    from cause.executors import fresh_trial
    from cause.learners.trial import try_out

    for module in (attach, fresh_trial):
        monkeypatch.setattr(module, "try_out_afresh", try_out)
