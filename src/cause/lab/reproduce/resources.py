"""Where cells run: the data, the device and the workers of this machine. They do not change the results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Protocol

from cause.engine.executor import MOST_WORKERS, Executor
from cause.errors import InputError
from cause.executors import InProcess, Processes
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.data import Split, load_split


def check_processes(processes: int) -> None:
    """Raise an `InputError` if so many processes cannot run at once."""
    if not 1 <= processes <= MOST_WORKERS:
        raise InputError(f"the number of processes must be from 1 to {MOST_WORKERS}, not {processes}")


class Cluster(Protocol):
    """Several machines that make runs; see `cause.lab.reproduce.on_cluster`."""

    @property
    def nodes(self) -> int:
        """The number of machines, or of nodes on them."""

    def run(self, cells: "Sequence[Cell]", resources: "Resources", until: float | None) -> "Iterator[Done]":
        """Make runs, and yield each when it ends."""


@dataclass(frozen=True)
class Resources:
    """The data, device and workers that runs use on this machine."""

    root: str | None = None
    device: str = "cpu"
    workers: int = 1
    together: int = 1
    """Trainings at once, except those that measure energy or time."""
    cluster: "Cluster | None" = None
    """A Ray cluster that makes all runs but those that measure energy or time."""

    def data(self, name: str) -> Split:
        """Return a data set; the last one stays in memory."""
        return _cached_split(name, self.root)

    @cached_property
    def executor(self) -> Executor:
        """The executor of all cells, so that its worker processes are reused."""
        return Processes(self.workers) if self.workers > 1 else InProcess()

    def close(self) -> None:
        """End the worker processes."""
        if isinstance(self.executor, Processes):
            self.executor.close()


@lru_cache(maxsize=1)
def _cached_split(name: str, root: str | None) -> Split:
    return load_split(name, root)


def check_trainable(device: str, digits: bool) -> None:
    """Raise an `InputError` if a package or the device for training is missing."""
    for module in ("torch", "torch_pruning", "safetensors", "zstandard", *(("sklearn",) if digits else ())):
        if find_spec(module) is None:
            raise InputError(f"training needs {module}: pip install 'cause[demo]'")
    from cause.lab.calibration import check_device

    check_device(device)
