"""Energy: meters behind one seam, and what a sample costs on this machine."""

from cause.energy.base import Measurement, Meter, Running
from cause.energy.find import find_meter, found_meters
from cause.energy.none import NoMeter
from cause.energy.sampled import SampledMeter, with_idle

__all__ = ["Measurement", "Meter", "NoMeter", "Running", "SampledMeter", "find_meter", "found_meters", "with_idle"]
