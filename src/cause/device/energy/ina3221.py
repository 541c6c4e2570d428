"""Jetson boards: the INA3221 chip measures volts and amperes of the supply rails; the kernel shows mV and mA."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cause.device.energy.sampled import SampledMeter
from cause.device.energy.sysfs import read_int, read_text
from cause.device.energy.tally import PowerTally
from cause.errors import MeterError

HWMON, I2C = Path("/sys/class/hwmon"), Path("/sys/bus/i2c/drivers/ina3221x")
WHOLE_BOARD = ("VDD_IN", "POM_5V_IN")  # Orin Nano, Orin NX, Xavier NX; Nano
SAMPLING_HZ = 20.0


class Rail(NamedTuple):
    """One channel of the chip."""

    name: str
    milli_volts: Path
    milli_amperes: Path

    def watts(self) -> float:
        """Return the power at this moment."""
        return read_int(self.milli_volts) * read_int(self.milli_amperes) / 1e6


def ina3221(hwmon: Path = HWMON, i2c: Path = I2C, rails: Sequence[str] | None = None) -> SampledMeter:
    """Return a meter of the whole board by its input rail, or of the sum of named rails.

    Boards without an input rail (AGX) need `rails`: which of theirs add up to the board differs, and a guess would be a
    wrong number.
    """
    available = {rail.name: rail for rail in (*_hwmon_rails(hwmon), *_iio_rails(i2c))}
    if not available:
        raise MeterError(f"no INA3221 in {hwmon} or {i2c}: not a Jetson board")
    names = rails or [name for name in WHOLE_BOARD if name in available][:1]
    if not names:
        raise MeterError(
            f"the INA3221 has no rail of the whole board ({', '.join(available)}): name the rails to add up"
        )
    for name in names:
        if name not in available:
            raise MeterError(f"the INA3221 has no rail {name!r}: one of {', '.join(available)}")
    chosen = [available[name] for name in names]
    watts = _sum_of(chosen)
    watts()  # cannot be read? Find out now
    return SampledMeter(f"INA3221 {' + '.join(names)}", SAMPLING_HZ, lambda: PowerTally(watts))


def _sum_of(rails: Sequence[Rail]) -> Callable[[], float]:
    return lambda: sum(rail.watts() for rail in rails)


def _hwmon_rails(root: Path) -> Iterator[Rail]:
    """Return the power rails of JetPack 5 and later."""
    for chip in sorted(root.glob("hwmon*")):
        if (chip / "name").is_file() and read_text(chip / "name") == "ina3221":
            for label in sorted(chip.glob("in*_label")):
                number = label.name.removeprefix("in").removesuffix("_label")
                volts, amperes = chip / f"in{number}_input", chip / f"curr{number}_input"
                if volts.is_file() and amperes.is_file():  # a sum of several channels has no current of its own
                    yield Rail(read_text(label), volts, amperes)


def _iio_rails(root: Path) -> Iterator[Rail]:
    """Return the power rails of JetPack 4."""
    for label in sorted(root.glob("*/iio:device*/rail_name_*")):
        number = label.name.removeprefix("rail_name_")
        yield Rail(
            read_text(label), label.parent / f"in_voltage{number}_input", label.parent / f"in_current{number}_input"
        )
