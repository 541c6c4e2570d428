"""How long erasing and adding keys take, against what a bare sync costs on the same disk: `python -m benchmarks.vault`.

A device's flush decides most of it, so look at the ratio to a bare sync first.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cause.cli.output import print_table
from cause.disk import Disk
from cause.vault import EnvKeySource, Vault
from cause.vault.sources import new_master_key

KEYS = (1_000, 4_000, 16_000, 100_000)


class NoWait(Disk):
    """Nothing waits for the device: what the processor does."""

    def sync(self, *files: object) -> None:
        pass


def measure(action: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and 99th percentile, in ms."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken), sorted(taken)[int(len(taken) * 0.99)]


def bare_sync(folder: Path, times: int) -> tuple[float, float]:
    disk = Disk()
    file = disk.create(folder / "probe")

    def once() -> None:
        file.write_at(0, os.urandom(4096))
        disk.sync(file)

    once()
    found = measure(once, times)
    file.close()
    return found


def vault_of(folder: Path, count: int, disk: Disk) -> tuple[Vault, list[bytes]]:
    source = EnvKeySource("MASTER", {"MASTER": new_master_key()})
    vault = Vault.create(folder, source, disk)
    names = [os.urandom(16) for _ in range(count)]
    vault.new_keys(names)
    return vault, names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where to write; the system's temporary folder by default")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        root = Path(place)
        sync = bare_sync(root, options.times)
        for count in KEYS:
            for waits, disk in ((True, Disk()), (False, NoWait())):
                folder = root / f"{count}-{waits}"
                vault, names = vault_of(folder, count, disk)
                waiting = iter(names)
                erase = measure(lambda v=vault, w=waiting: v.erase([next(w)]), options.times)  # type: ignore[misc]
                add = measure(lambda v=vault: v.new_key(os.urandom(16)), options.times)  # type: ignore[misc]
                vault.close()
                start = time.perf_counter()
                Vault.open(folder, vault._source).close()
                opened = (time.perf_counter() - start) * 1000
                times = [f"{value:.2f}" for value in (*erase, *add, opened)]
                rows.append([f"{count:,}", "yes" if waits else "no", *times])
    print_table(
        f"Vault, ms (a bare write and sync: {sync[0]:.2f}, 99th percentile {sync[1]:.2f})",
        ["keys", "durable", "erase", "p99", "add", "p99", "open"],
        rows,
    )


if __name__ == "__main__":
    main()
