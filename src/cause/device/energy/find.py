"""Finds the energy meters of this machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from cause.device.energy.base import Meter
from cause.device.energy.ina3221 import ina3221
from cause.device.energy.none import NoMeter
from cause.device.energy.nvml import nvml
from cause.device.energy.rapl import rapl
from cause.errors import MeterError

# In order of preference: what covers most comes first.
METERS: Mapping[str, Callable[..., Meter]] = {"ina3221": ina3221, "nvml": nvml, "rapl": rapl}
# Those that see one card of several take its number.
OF_A_CARD = ("nvml",)
# Which of them see the energy of work on a device.
SEEING = {"cpu": ("ina3221", "rapl"), "cuda": ("ina3221", "nvml")}


@dataclass(frozen=True)
class Found:
    """A kind of meter: what it reads, or why this machine does not have it."""

    kind: str
    meter: Meter

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the kind of meter for JSON."""
        meter = self.meter
        there = meter.unavailable is None
        return {
            "kind": self.kind,
            "source": meter.source if there else None,
            "sampling_hz": meter.sampling_hz,
            "unavailable": meter.unavailable,
        }


def found_meters(meters: Mapping[str, Callable[..., Meter]] = METERS) -> list[Found]:
    """Return every kind of meter, whether this machine has it or not."""
    return [Found(kind, _open(make)) for kind, make in meters.items()]


def find_meter(device: str | None = None, meters: Mapping[str, Callable[..., Meter]] = METERS) -> Meter:
    """Return the meter for work on a device ("cpu", "cuda:1"; None for any), or one that says why there is none."""
    reasons = []
    name, _, number = (device or "").partition(":")
    for kind in meters if device is None else SEEING.get(name, ()):
        if kind in meters:
            numbered = kind in OF_A_CARD and number.isdigit() and int(number)
            meter = _open(partial(meters[kind], ordinal=int(number)) if numbered else meters[kind])
            if meter.unavailable is None:
                return meter
            reasons.append(f"{kind}: {meter.unavailable}")
    return NoMeter("; ".join(reasons) or f"no meter sees the energy of {device!r}")


def _open(make: Callable[..., Meter]) -> Meter:
    try:
        return make()
    except MeterError as error:
        return NoMeter(str(error))
