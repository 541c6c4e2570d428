"""RAPL: energy counters of Intel and AMD processor packages, through the kernel's powercap files."""

from pathlib import Path

from cause.device.energy.sampled import SampledMeter
from cause.device.energy.sysfs import read_int, read_text
from cause.device.energy.tally import CounterTally
from cause.errors import MeterError

ROOT = Path("/sys/class/powercap")
# Counters wrap around at a range that the kernel tells; reading once a second sees every turn of it.
SAMPLING_HZ = 1.0


def rapl(root: Path = ROOT) -> SampledMeter:
    """Return a meter of all processor packages together; they do not include memory."""
    # Domains of the other kind, intel-rapl-mmio:N, count the same packages a second time.
    packages = [zone for zone in sorted(root.glob("intel-rapl:*")) if read_text(zone / "name").startswith("package")]
    if not packages:
        raise MeterError(f"no RAPL packages in {root}: not an Intel or AMD machine, or hidden from a virtual one")
    wraps_at = [read_int(zone / "max_energy_range_uj") / 1e6 for zone in packages]

    def read_joules() -> list[float]:
        return [read_int(zone / "energy_uj") / 1e6 for zone in packages]

    read_joules()  # since 2020 the counters are for root only: find out now
    names = ", ".join(read_text(zone / "name") for zone in packages)
    return SampledMeter(f"RAPL {names}", SAMPLING_HZ, lambda: CounterTally(read_joules, wraps_at))
