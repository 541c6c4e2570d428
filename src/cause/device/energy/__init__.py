"""Energy: meters with one interface, and the cost of a sample on this machine."""

from cause.device.energy.base import Measurement, Meter, Running
from cause.device.energy.find import find_meter, found_meters
from cause.device.energy.none import NoMeter
from cause.device.energy.sampled import SampledMeter, with_idle

__all__ = ["Measurement", "Meter", "NoMeter", "Running", "SampledMeter", "find_meter", "found_meters", "with_idle"]
