"""What the paper's systems would have retrained on this device's own history: simulated in a process of its own."""

import multiprocessing
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from cause.device.device import ENDLESS, Cause
from cause.device.energy.model import EnergyModel
from cause.device.status import estimated, home_of
from cause.engine.presets import PRESETS
from cause.errors import CauseError
from cause.lab.home_trace import history
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import Trace
from cause.service.redact import kind_of
from cause.service.schemas import Baseline, Baselines

SYSTEMS = ("cause", "sisa", "arcane", "omp-70", "omp-95", "frugal")


def simulated(trace: Trace, setting: Setting) -> list[dict[str, Any]]:
    """Every system on one trace."""
    return [_simulated(trace, name, setting) for name in SYSTEMS]


def _simulated(trace: Trace, name: str, setting: Setting) -> dict[str, Any]:
    try:
        done = simulate(trace, name, PRESETS[name], setting)
    except CauseError as error:  # a system by class needs labels, and those of what was forgotten are gone
        return {"system": name, "unknown": str(error)}
    return {"system": name, "rsn": done.rsn, "rsn_per_round": done.rsn_per_round, "floor_rsn": done.floor_rsn}


class Comparison:
    """Computed when asked for, and again when the history has grown."""

    def __init__(self, device: Cause, model: EnergyModel | None = None) -> None:
        self._device, self._model = device, model
        self._lock = threading.Lock()
        self._of: tuple[int, int] | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._future: Future[list[dict[str, Any]]] | None = None

    def now(self) -> Baselines:
        """What is known, and whether it is of this moment."""
        home = home_of(self._device)
        with self._lock:
            newest, own = home.queries.last_history(), home.queries.retrained_total()
            round_ = self._device.ledger.round
            if self._of != (newest, round_) and (self._future is None or self._future.done()):
                self._begin((newest, round_))
            assert self._future is not None
            if not self._future.done():
                return Baselines(state="computing", round=round_, systems=[], **self._cost(own))
            self._end_pool()
            error = self._future.exception()
            if error is not None:
                detail = kind_of(error)
                return Baselines(state="failed", round=round_, systems=[], detail=detail, **self._cost(own))
            systems = [Baseline(**each, **self._line(each.get("rsn"))) for each in self._future.result()]
            return Baselines(state="ready", round=round_, systems=systems, **self._cost(own))

    def _line(self, rsn: int | None) -> dict[str, Any]:
        """What so many retrained samples take here, without the fixed cost of each training: RSN does not tell it."""
        if rsn is None:
            return {}
        cost = estimated(0, rsn, rsn, self._model)
        return {"seconds": cost.seconds, "joules": cost.joules}

    def _cost(self, own: int) -> dict[str, Any]:
        return {"rsn": own, **self._line(own), "energy_unknown": estimated(0, own, own, self._model).unknown}

    def _begin(self, of: tuple[int, int]) -> None:
        device, home = self._device, home_of(self._device)
        trace = history(home)
        memory = device.memory
        slots = min(memory.slots, 2**31) if memory.slots < ENDLESS else 2**31
        setting = Setting(
            shards=device.controller.shards,
            slots=slots,
            sub_model_bytes=device.learner.sub_model_bytes,
            classes=device.classes,
        )
        self._of = of
        if not trace.rounds:
            self._future = Future()
            self._future.set_result([])
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._future = self._pool.submit(simulated, trace, setting)

    def _end_pool(self) -> None:
        """The process is not kept: it is seldom needed and takes memory."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                for process in list((self._pool._processes or {}).values()):
                    process.kill()
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
