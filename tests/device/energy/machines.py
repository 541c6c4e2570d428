"""Machines as the kernel shows them: small trees of files."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def rapl_tree(root, packages=2, wraps_at_uj=262_143_328_850):
    """Packages with a core domain each, the whole platform, and the same package seen a second way."""
    zones = []
    for number in range(packages):
        zone = root / f"intel-rapl:{number}"
        write(zone / "name", f"package-{number}")
        write(zone / "energy_uj", 1_000_000)
        write(zone / "max_energy_range_uj", wraps_at_uj)
        write(root / f"intel-rapl:{number}:0" / "name", "core")
        write(root / f"intel-rapl:{number}:0" / "energy_uj", 77)
        zones.append(zone)
    write(root / f"intel-rapl:{packages}" / "name", "psys")
    write(root / f"intel-rapl:{packages}" / "energy_uj", 99)
    write(root / "intel-rapl-mmio:0" / "name", "package-0")
    write(root / "intel-rapl-mmio:0" / "energy_uj", 55)
    return zones


ORIN_NANO = {"VDD_IN": (5000, 1200), "VDD_CPU_GPU_CV": (4960, 400), "VDD_SOC": (4960, 300)}


def hwmon_tree(root, rails=ORIN_NANO):
    """JetPack 5: another chip first, then the INA3221 with a summed channel that has no current."""
    write(root / "hwmon0" / "name", "pwmfan")
    chip = root / "hwmon1"
    write(chip / "name", "ina3221")
    for number, (name, (milli_volts, milli_amperes)) in enumerate(rails.items(), start=1):
        write(chip / f"in{number}_label", name)
        write(chip / f"in{number}_input", milli_volts)
        write(chip / f"curr{number}_input", milli_amperes)
    write(chip / "in7_label", "sum of shunt voltages")
    write(chip / "in7_input", 3)
    return chip


def iio_tree(root):
    """JetPack 4 on a Nano."""
    chip = root / "6-0040" / "iio:device0"
    for number, (name, volts, amperes) in enumerate((("POM_5V_IN", 5100, 400), ("POM_5V_GPU", 5100, 50))):
        write(chip / f"rail_name_{number}", name)
        write(chip / f"in_voltage{number}_input", volts)
        write(chip / f"in_current{number}_input", amperes)
    return chip


class Nvml:
    """A card as `pynvml` shows it, since the library itself runs only beside one."""

    class NVMLError(Exception):
        """What the library raises."""

    def __init__(self, energies_mj=None, powers_mw=(), cards=("GPU-a", "GPU-b")):
        self.energies, self.powers, self.cards, self.requested = energies_mj, list(powers_mw), cards, None

    def nvmlInit(self):  # noqa: N802
        if not self.cards:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index >= len(self.cards):
            raise self.NVMLError("Invalid Argument")
        self.requested = self.cards[index]
        return self.requested

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in self.cards:
            raise self.NVMLError("Not Found")
        self.requested = uuid
        return uuid

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return f"Card {handle}"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        if self.energies is None:
            raise self.NVMLError("Not Supported")
        return self.energies.pop(0) if len(self.energies) > 1 else self.energies[0]

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if not self.powers:
            raise self.NVMLError("GPU is lost")
        return self.powers.pop(0) if len(self.powers) > 1 else self.powers[0]
