"""An aarch64 machine: Debian's Python and the aarch64 wheels, run by qemu-user.

Everything is fetched into one folder (about 150 MB) by `apt-get download`, from the machine's own sources of Debian 12,
and by pip; nothing is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

EMULATOR = "qemu-user-static:amd64"
PACKAGES = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g", "libexpat1", "libssl3",
    "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5", "libgcc-s1", "libstdc++6", "libuuid1", "libcrypt1",
)  # fmt: skip
WHEELS = ("numpy", "cryptography", "cffi", "pycparser", "typer", "rich")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_34_aarch64", "manylinux2014_aarch64", "manylinux_2_17_aarch64")


class CannotFetchError(Exception):
    """A package that is not to be had here."""


def command(folder: Path) -> list[str]:
    """Return the command that runs Python on aarch64; fetch it first, if it is not there.

    Raises
    ------
    CannotFetchError
        If this machine cannot fetch or run it.
    """
    root, wheels = folder / "root", folder / "wheels"
    if not (folder / "fetched").exists():
        _fetch(folder, root, wheels)
        (folder / "fetched").touch()
    emulator = folder / "emulator" / "usr" / "bin" / "qemu-aarch64-static"
    return [str(emulator), "-L", str(root), str(root / "usr" / "bin" / "python3.11")]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of that Python: its own library, our source and its wheels."""
    source = Path(__file__).resolve().parents[2]
    path = [source / "src", source, folder / "wheels"]
    home = folder / "root" / "usr"
    return {**os.environ, "PYTHONHOME": str(home), "PYTHONPATH": os.pathsep.join(map(str, path))}


def _fetch(folder: Path, root: Path, wheels: Path) -> None:
    if not Path("/etc/apt").is_dir():
        raise CannotFetchError("this is not Debian: there is no apt")
    for part in ("lists/partial", "archives/partial", "debs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "apt.conf").write_text(
        'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; "amd64"; };\nAPT::Sandbox::User "root";\n'
        f'Dir::State "{folder}";\nDir::State::status "{folder}/status";\nDir::State::lists "{folder}/lists";\n'
        f'Dir::Cache "{folder}";\nDir::Cache::archives "{folder}/archives";\n'
    )
    apt = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    _run(["apt-get", "update"], env=apt)
    _run(["apt-get", "download", EMULATOR, *PACKAGES], env=apt, cwd=folder / "debs")
    for package in (folder / "debs").glob("*.deb"):
        target = folder / "emulator" if package.name.startswith("qemu") else root
        _run(["dpkg-deb", "-x", str(package), str(target)])
    platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
    _run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--python-version", "3.11",
         "--implementation", "cp", *platforms, "--target", str(wheels), *WHEELS]
    )  # fmt: skip


def _run(line: list[str], **more: object) -> None:
    try:
        done = subprocess.run(line, capture_output=True, text=True, **more)  # type: ignore[call-overload]
    except OSError as error:
        raise CannotFetchError(f"{line[0]}: {error.strerror}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it failed"]
        raise CannotFetchError(f"{' '.join(line[:3])}: {lines[-1]}")
