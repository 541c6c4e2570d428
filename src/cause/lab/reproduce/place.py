"""Where cells run: the data, the device and the workers of this machine. None of it changes what comes out."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec

from cause.engine.executor import Executor
from cause.errors import InputError
from cause.executors import Here, Processes
from cause.lab.reproduce.data import Split, load_split


@dataclass(frozen=True)
class Place:
    """This machine, as cells see it."""

    root: str | None = None
    device: str = "cpu"
    workers: int = 1
    together: int = 1
    """Trainings at once, but for those that measure energy or time."""

    def data(self, name: str) -> Split:
        """A data set; the last one stays in memory."""
        return _kept(name, self.root)

    @cached_property
    def executor(self) -> Executor:
        """One for all cells: its worker processes stay warm."""
        return Processes(self.workers) if self.workers > 1 else Here()

    def close(self) -> None:
        """End the workers."""
        if isinstance(self.executor, Processes):
            self.executor.close()


@lru_cache(maxsize=1)
def _kept(name: str, root: str | None) -> Split:
    return load_split(name, root)


def check_trainable(device: str, digits: bool) -> None:
    """Refuse to begin where nothing could be trained."""
    for module in ("torch", "torch_pruning", "safetensors", "zstandard", *(("sklearn",) if digits else ())):
        if find_spec(module) is None:
            raise InputError(f"training needs {module}: pip install 'cause[demo]'")
    from cause.lab.calibration import check_device

    check_device(device)
