"""NVML: NVIDIA's cards, by their energy counter where they have one, or else by their power."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from cause.device.energy.sampled import SampledMeter
from cause.device.energy.tally import CounterTally, PowerTally
from cause.errors import MeterError

COUNTER_HZ, POWER_HZ = 1.0, 20.0  # a counter needs only its first and last value; power is integrated


def nvml(device: int | str | None = None, library: Any = None, *, ordinal: int = 0) -> SampledMeter:
    """Return a meter of one card, by NVML's number or UUID of it, or else by CUDA's `ordinal`."""
    lib = _library() if library is None else library
    try:
        lib.nvmlInit()
        handle = _handle(lib, _visible(ordinal) if device is None else device)
        name = _text(lib.nvmlDeviceGetName(handle))
    except lib.NVMLError as error:
        raise MeterError(f"no NVIDIA card through NVML: {error}") from None
    try:
        lib.nvmlDeviceGetTotalEnergyConsumption(handle)
    except lib.NVMLError:  # before Volta
        watts = _guarded(lib, lambda: lib.nvmlDeviceGetPowerUsage(handle) / 1e3)
        watts()
        return SampledMeter(f"NVML power of {name}", POWER_HZ, lambda: PowerTally(watts))
    joules = _guarded(lib, lambda: lib.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)
    return SampledMeter(f"NVML energy of {name}", COUNTER_HZ, lambda: CounterTally(lambda: [joules()], [None]))


def _library() -> Any:
    try:
        return import_module("pynvml")
    except ImportError:
        raise MeterError("NVML needs nvidia-ml-py: pip install 'cause[energy]'") from None


def _handle(lib: Any, device: int | str) -> Any:
    if isinstance(device, int):
        return lib.nvmlDeviceGetHandleByIndex(device)
    return lib.nvmlDeviceGetHandleByUUID(device)


def _visible(ordinal: int) -> int | str:
    """Return the number of a card for NVML, which counts all cards; CUDA counts those that the process may see."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
    if not shown:
        return ordinal
    cards = [card.strip() for card in shown.split(",")]
    if ordinal >= len(cards):
        raise MeterError(f"CUDA_VISIBLE_DEVICES={shown} shows no card {ordinal}")
    card = cards[ordinal]
    return int(card) if card.isdigit() else card


def _guarded(lib: Any, read: Callable[[], float]) -> Callable[[], float]:
    def guarded() -> float:
        try:
            return read()
        except lib.NVMLError as error:
            raise MeterError(f"NVML: {error}") from None

    return guarded


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
