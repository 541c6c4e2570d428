"""The parts of a device, from the arguments of `Cause` or from the settings of its home."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cause.engine.arguments import DEVICE_ARGUMENTS, refuse_unknown
from cause.engine.arrivals import InputSpec, spec_from_settings
from cause.engine.engine import MEMORY, Engine
from cause.engine.executor import Executor
from cause.engine.journal import Journal
from cause.engine.law import default_shards, default_system
from cause.engine.learner import Learner
from cause.engine.ledger import Ledger
from cause.engine.memory import Shelf
from cause.engine.presets import System, parse_system
from cause.errors import InputError
from cause.executors import InProcess, Processes

if TYPE_CHECKING:
    from os import PathLike

    from cause.device.home.home import Home


@dataclass(frozen=True)
class DeviceParts:
    """The parts of a device."""

    home: "Home | None"
    learner: Learner
    system: System
    inputs: InputSpec
    """Shape and type of the inputs, as far as they are set."""
    workers: int
    repair: str
    """Whether a call trains what waits before it returns, unless it says otherwise: "now" or "later"."""
    sizes: Mapping[str, Any]
    """Arguments of the engine: `shards`, `memory`, `slots`, `classes` and `seed`."""

    def engine(
        self, executor: Executor | None, ledger: Ledger | None, shelf: Shelf | None, journal: Journal | None
    ) -> Engine:
        """Return the engine of these parts.

        Parameters
        ----------
        executor
            Trains segments; None for worker processes, or for this process if there are none.
        ledger, shelf, journal
            Those of a device in memory; a home has its own.
        """
        if self.home is not None:
            ledger, shelf, journal = self.home.ledger, self.home.shelf, self.home
        return Engine(
            self.learner,
            self.system,
            executor or (Processes(self.workers) if self.workers else InProcess()),
            ledger=ledger,
            shelf=shelf,
            storage=self.home,
            journal=journal,
            **self.sizes,
        )


def assemble(
    folder: "str | PathLike[str] | None",
    learner: Learner | None,
    arguments: Mapping[str, Any],
    bounds: Mapping[str, Any],
    key: Mapping[str, Any] | None = None,
    *,
    read_only: bool = False,
) -> DeviceParts:
    """Open or make the home, if there is one, and settle what the device is made of.

    Parameters
    ----------
    folder
        The folder of the home; None for a device in memory.
    learner
        The learner; None for the one that the home describes.
    arguments
        `system`, `shards`, `memory`, `slots`, `classes`, `seed`, `workers`, `input_shape` and `input_dtype`; None for
        those that were not given.
    bounds
        Further settings of a home.
    key, read_only
        As in `cause.device.attach.attach`.

    Raises
    ------
    InputError
        If a setting of a home is given without a home, or there is no learner.
    HomeError
        If the home cannot be opened or made.
    """
    home, repair = None, "now"
    if folder is not None:
        from cause.device.attach import attach
        from cause.device.config import usable_workers

        home, settings, learner = attach(folder, learner, {**arguments, **bounds}, key, read_only=read_only)
        arguments, repair = {**vars(settings), "system": home.system}, settings.repair
        arguments["workers"] = usable_workers(settings.workers)
    elif bounds or key is not None or read_only:
        refuse_unknown("Cause", bounds, DEVICE_ARGUMENTS)
        raise InputError(f"{next(iter(bounds), 'key')!r} is for a device with a home: Cause('device/', …)")
    if learner is None:
        raise InputError(
            "Cause(…) has no learner: give learner=SklearnLearner(…), TorchLearner(…) or AdditiveLearner(…), or the "
            "folder of an existing home"
        )
    system = arguments["system"]
    if not isinstance(system, System):
        system = parse_system(system or default_system(learner))[1]
    defaults = {"shards": default_shards(learner), "memory": MEMORY, "slots": None, "classes": None, "seed": 0}
    return DeviceParts(
        home,
        learner,
        system,
        spec_from_settings(arguments["input_shape"], arguments["input_dtype"]),
        arguments["workers"] or 0,
        repair,
        {name: default if arguments[name] is None else arguments[name] for name, default in defaults.items()},
    )
