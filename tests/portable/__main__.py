"""Show that states and portable solutions have one digest: `make portable`.

A home is made here and verified with several kernels of BLAS, numbers of threads and processor features, and on
aarch64; one that was made on aarch64 is verified here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.portable import aarch64

KERNELS = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen")
PLAIN = "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX"


def run(what: str, action: str, folder: Path, line: list[str], environment: dict[str, str]) -> str:
    """Run one machine, and return the digest that it prints."""
    done = subprocess.run(
        [*line, "-m", "tests.portable.sums", action, str(folder)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it failed"]
        sys.exit(f"{what}: {lines[-1]}")
    digest, machine = done.stdout.split()
    print(f"{digest[:16]}…  {action:<6}  {machine:<8}  {what}", flush=True)
    return digest


def main() -> None:
    """Run all machines, and print the digest that they share."""
    parser = argparse.ArgumentParser(prog="python -m tests.portable", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/aarch64"), help="where aarch64's Python is kept")
    parser.add_argument("--without-aarch64", action="store_true", help="this processor only")
    options = parser.parse_args()
    here = [sys.executable]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        digests = [run("as it is", "make", home, here, dict(os.environ))]
        machines = {f"OpenBLAS {kernel}, one thread": {"OPENBLAS_CORETYPE": kernel, **threads} for kernel in KERNELS}
        machines["two threads"] = dict.fromkeys(threads, "2")
        machines["numpy without AVX"] = {"NPY_DISABLE_CPU_FEATURES": PLAIN}
        digests += [run(what, "verify", home, here, {**os.environ, **more}) for what, more in machines.items()]
        if not options.without_aarch64:
            folder = options.folder.resolve()
            try:
                line = aarch64.command(folder)
            except aarch64.CannotFetchError as error:
                sys.exit(f"aarch64 cannot be fetched here ({error}): --without-aarch64 leaves it out")
            environment = aarch64.environment(folder)
            digests.append(run("qemu-user", "verify", home, line, environment))
            digests.append(run("qemu-user", "make", Path(scratch) / "made-there", line, environment))
            digests.append(run("made on aarch64", "verify", Path(scratch) / "made-there", here, dict(os.environ)))
        shutil.rmtree(home, ignore_errors=True)
    if len(set(digests)) != 1:
        sys.exit(f"{len(set(digests))} digests on {len(digests)} machines: {sorted(set(digests))}")
    print(f"one digest on {len(digests)} machines: {digests[0]}")


if __name__ == "__main__":
    main()
