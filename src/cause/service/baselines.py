"""What the paper's systems would have retrained on this device's history, simulated in another process."""

import multiprocessing
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from cause.device.core import home_of
from cause.device.device import ENDLESS, Cause
from cause.device.energy.model import EnergyModel
from cause.device.status import estimated
from cause.engine.presets import PRESETS
from cause.errors import CauseError
from cause.lab.home_trace import history
from cause.lab.simulate import Setting, simulate
from cause.lab.trace import Trace
from cause.service.redact import redacted_message
from cause.service.schemas import Baseline, Baselines

SYSTEMS = ("cause", "sisa", "arcane", "omp-70", "omp-95", "frugal")


def simulate_systems(trace: Trace, setting: Setting) -> list[dict[str, Any]]:
    """Simulate every system on one trace; return the fields of a `Baseline` for each."""
    return [_simulate_system(trace, name, setting) for name in SYSTEMS]


def _simulate_system(trace: Trace, name: str, setting: Setting) -> dict[str, Any]:
    try:
        result = simulate(trace, name, PRESETS[name], setting)
    except CauseError as error:  # a partition by class needs labels, and those of forgotten samples are deleted
        return {"system": name, "unknown": str(error)}
    return {"system": name, "rsn": result.rsn, "rsn_per_round": result.rsn_per_round, "floor_rsn": result.floor_rsn}


class Comparison:
    """Computes the baselines in the background when they are read and the history has grown."""

    def __init__(self, device: Cause, model: EnergyModel | None = None) -> None:
        self._device, self._model = device, model
        self._lock = threading.Lock()
        self._version: tuple[int, int] | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._future: Future[list[dict[str, Any]]] | None = None

    def current(self) -> Baselines:
        """Return the baselines, or that they are being computed, or why they cannot be."""
        home = home_of(self._device)
        with self._lock:
            newest, retrained = home.queries.last_history(), home.queries.retrained_total()
            round_ = self._device.ledger.round
            if self._version != (newest, round_) and (self._future is None or self._future.done()):
                self._begin((newest, round_))
            assert self._future is not None
            if not self._future.done():
                return Baselines(state="computing", round=round_, systems=[], **self._device_cost(retrained))
            self._end_pool()
            error = self._future.exception()
            if error is not None:
                detail = redacted_message(error)
                return Baselines(
                    state="failed", round=round_, systems=[], detail=detail, **self._device_cost(retrained)
                )
            systems = [Baseline(**fields, **self._cost_of(fields.get("rsn"))) for fields in self._future.result()]
            return Baselines(state="ready", round=round_, systems=systems, **self._device_cost(retrained))

    def _cost_of(self, rsn: int | None) -> dict[str, Any]:
        """Return what so many retrained samples cost on this machine, without the fixed cost of each training."""
        if rsn is None:
            return {}
        cost = estimated(0, rsn, rsn, self._model)
        return {"seconds": cost.seconds, "joules": cost.joules}

    def _device_cost(self, rsn: int) -> dict[str, Any]:
        return {"rsn": rsn, **self._cost_of(rsn), "energy_unknown": estimated(0, rsn, rsn, self._model).unknown}

    def _begin(self, version: tuple[int, int]) -> None:
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
        self._version = version
        if not trace.rounds:
            self._future = Future()
            self._future.set_result([])
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._future = self._pool.submit(simulate_systems, trace, setting)

    def _end_pool(self) -> None:
        """End the process, which is seldom needed and takes memory."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def close(self) -> None:
        """Kill the simulation under way."""
        with self._lock:
            if self._pool is not None:
                for process in list((self._pool._processes or {}).values()):
                    process.kill()
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
