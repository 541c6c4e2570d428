"""Makes runs on the nodes of a Ray cluster, each as one task.

A run is settings in and numbers out: it draws its users, or reads a public data set from the node's own disk. So it may
go through Ray, whose daemons keep copies of arguments and results. Trainings on samples of real users may not: these
use `cause.executors.cluster`.
"""

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cause.common.version import __version__
from cause.errors import InputError, LearnerError
from cause.executors.cluster.connection import join, require_protection
from cause.executors.cluster.other_environments import difference
from cause.executors.cluster.resources import actor_options, cluster_capacity, lacking
from cause.lab.reproduce import kinds
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import run_cell

LOOK_S = 1.0
"""How often the runner looks for new nodes and for the end of its time."""
TRIES = 3
"""How often Ray repeats a run whose node or process ended."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that makes runs.

    Parameters
    ----------
    address
        The address of the cluster: HOST:PORT, or auto for the one of this machine.
    per_worker
        What each run needs: `cpus`, `gpus`, `memory` in bytes.

    Raises
    ------
    InputError
        If Ray is not installed, the cluster cannot be joined or is not protected, or a run can need no such thing.
    """

    address: str
    per_worker: Mapping[str, float] = field(default_factory=lambda: {"cpus": 1.0})

    def __post_init__(self) -> None:
        actor_options(self.per_worker)
        nodes = self._nodes()
        require_protection(self.address, [node["NodeManagerAddress"] for node in nodes])

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in join(self.address).nodes() if node["Alive"]]

    @property
    def nodes(self) -> int:
        """The number of nodes that are alive."""
        return len(self._nodes())

    def run(self, cells: Sequence[Cell], resources: Resources, until: float | None) -> Iterator[Done]:
        """Make runs on all nodes, and yield each when it ends. If one fails, the others go on.

        A run is submitted only when there is room for it, also on nodes that joined meanwhile.

        Parameters
        ----------
        cells
            The runs, longest first.
        resources
            The folder with the data sets, which must be the same on every node, and the kind of device.
        until
            The time of `time.monotonic()` after which no run is started.

        Raises
        ------
        CauseError
            The first error of a run, after all others were made.
        """
        ray, options = join(self.address), actor_options(self.per_worker)
        remote = ray.remote(run_there).options(max_retries=TRIES, scheduling_strategy="SPREAD", **options)
        plain = Resources(resources.root, resources.device)
        expected = {trains: fingerprint(trains) for trains in {kinds.TRAINS[cell.kind] for cell in cells}}
        left, under_way = list(cells), dict[Any, Cell]()
        if left and not cluster_capacity(self._nodes(), options):
            raise InputError(lacking(self._nodes(), options).replace("a worker", "a run"))
        failed: Exception | None = None
        try:
            while True:
                while (
                    left and len(under_way) < max(1, cluster_capacity(self._nodes(), options)) and not _is_over(until)
                ):
                    cell = left.pop(0)
                    under_way[remote.remote(cell, plain, expected[kinds.TRAINS[cell.kind]])] = cell
                if not under_way:
                    break
                for task in ray.wait(list(under_way), timeout=LOOK_S)[0]:
                    cell = under_way.pop(task)
                    try:
                        yield ray.get(task)
                    except ray.exceptions.RayError as error:
                        failed = failed or _plain(cell, error)
        finally:
            for task in under_way:  # stopped: nobody waits for these
                ray.cancel(task, force=True)
        if failed:
            raise failed


def run_there(cell: Cell, resources: Resources, expected: str) -> Done:
    """Make a run on a node.

    Raises
    ------
    InputError
        If the node has other versions than the machine that asks: its numbers could differ.
    """
    found = fingerprint(kinds.TRAINS[cell.kind])
    if found != expected:
        raise InputError(f"node {platform.node()} has another environment: {difference(expected, found)}")
    return run_cell(cell, resources)


def fingerprint(trains: bool) -> str:
    """Return versions on which the result of a run depends; for a training also processor and torch."""
    parts = [f"cause {__version__}", f"python {platform.python_version()}", f"numpy {np.__version__}"]
    if trains:
        import torch

        parts += [f"torch {torch.__version__}", platform.machine(), torch.backends.cpu.get_cpu_capability()]
    return ", ".join(parts)


def _plain(cell: Cell, error: Exception) -> Exception:
    """Return the error of a run itself, or one that names the run and what became of it in one line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return LearnerError(f"{cell}: a node ended {TRIES + 1} times during this run: {lines[0] if lines else error!r}")


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() > until
