"""What erasing and adding keys cost: time, bytes written, memory. `python -m benchmarks.vault`.

A device's flush decides most of the time, so look at the ratio to a bare sync first.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cause.cli.output import print_table
from cause.device.disk import Disk, OpenFile
from cause.device.vault import FileKeySource, Vault
from cause.device.vault.sources import new_master_key

KEYS = (10_000, 100_000, 1_000_000)
UPLOADS = (1, 8)  # keys that are added, and erased, together
_OPEN = """
import resource, sys, time
from cause.device.vault import FileKeySource, Vault
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
empty = resident()
start = time.perf_counter()
with Vault.open(sys.argv[1], FileKeySource(sys.argv[2]), read_only=True) as vault:
    taken = time.perf_counter() - start
    print(taken, (resident() - empty) / 1e6)
"""


class CountingFile(OpenFile):
    """A file that counts what is written."""

    def __init__(self, file: OpenFile, disk: "CountingDisk") -> None:
        super().__init__(file.path, file.descriptor)
        self.disk = disk

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self.disk.written += len(data)
        super().write_at(offset, data)


class CountingDisk(Disk):
    """A disk that counts what is written, and waits for the device only if it is told to."""

    def __init__(self) -> None:
        self.waits = False
        self.written = 0

    def open(self, path: Path) -> OpenFile:
        return CountingFile(super().open(path), self)

    def sync(self, *files: OpenFile) -> None:
        if self.waits:
            super().sync(*files)


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
    result = measure(once, times)
    file.close()
    return result


def row(root: Path, source: FileKeySource, count: int, upload: int, times: int) -> list[str]:
    """Fill a vault with uploads of so many keys each; erase and add some uploads, durably; open it in a new process."""
    folder, disk = root / f"{count}-{upload}", CountingDisk()
    vault = Vault.create(folder, source, disk)
    uploads = [[os.urandom(16) for _ in range(upload)] for _ in range(count // upload)]
    for names in uploads:
        vault.add_keys(names)
    disk.waits = True
    step = max(1, len(uploads) // times)
    waiting = iter(uploads[::step])
    erasures = min(times, len(uploads[::step]))
    disk.written = 0
    erase = measure(lambda: vault.erase(next(waiting)), erasures)
    written = disk.written / erasures
    add = measure(lambda: vault.add_keys([os.urandom(16) for _ in range(upload)]), times)
    vault.close()
    command = [sys.executable, "-c", _OPEN, str(folder), str(source.path)]
    opened, memory = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    size = sum(path.stat().st_size for path in folder.iterdir())
    times_ms = [f"{value:.2f}" for value in (*erase, *add)]
    sizes = [f"{memory:.0f}", f"{size / 1e6:.0f}"]
    return [f"{count:,}", str(upload), *times_ms, f"{written / 1e3:,.0f}", f"{opened:.2f}", *sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--most", type=int, default=KEYS[-1], help="leave out vaults of more keys")
    parser.add_argument("--folder", type=Path, help="where to write; the system's temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        root = Path(place)
        (root / "master").write_text(new_master_key())
        source = FileKeySource(root / "master")
        sync = bare_sync(root, options.times)
        counts = [count for count in KEYS if count <= options.most]
        rows = [row(root, source, count, upload, options.times) for count in counts for upload in UPLOADS]
    print_table(
        f"Vault (a bare write and sync: {sync[0]:.2f} ms, 99th percentile {sync[1]:.2f})",
        ["keys", "an upload", "erase ms", "p99", "add ms", "p99", "kB an erasure", "open s", "MB memory", "MB disk"],
        rows,
    )


if __name__ == "__main__":
    main()
