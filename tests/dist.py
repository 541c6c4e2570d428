"""`make dist`: the wheel and the source archive, checked, and a device run from the wheel alone.

python -m tests.dist [--out dist]
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from cause.common.version import __version__

ROOT = Path(__file__).parents[1]
EXTRAS = "home,sklearn"
DATA = {"py.typed", "service/static/index.html"}
"""Files of the package that are no modules: a wheel without them would not do."""
AROUND = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt", "tests/dist.py"}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command, show it and what it prints, and end where it fails."""
    print("$", *(Path(command[0]).name, *command[1:]), flush=True)
    # nothing may be imported from this tree by accident
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(f"error: the command above ended with {done.returncode}")
    return done.stdout


def build(out: Path) -> tuple[Path, Path]:
    """The wheel and the source archive of this tree."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("cause-*.whl"), *out.glob("cause-*.tar.gz")]:
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", out)
    (wheel,), (source,) = out.glob("cause-*.whl"), out.glob("cause-*.tar.gz")
    return wheel, source


def check_contents(wheel: Path, source: Path) -> None:
    """Every module and nothing else is in the wheel; tests, docs and what builds it are in the source archive."""
    package = ROOT / "src" / "cause"
    expected = {str(path.relative_to(ROOT / "src")) for path in package.rglob("*.py")} | {
        f"cause/{each}" for each in DATA
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = archive.read(f"cause-{__version__}.dist-info/METADATA").decode()
    documents = f"cause-{__version__}.data/data/share/doc/cause/"  # what the service shows beside its page
    strange = {name for name in held if not name.startswith(("cause/", f"cause-{__version__}.dist-info/", documents))}
    assert f"{documents}service.md" in held, "the wheel lacks its documentation"
    assert expected <= held, f"the wheel lacks {sorted(expected - held)}"
    assert not strange, f"the wheel has {sorted(strange)}"
    assert not [name for name in held if "__pycache__" in name], "the wheel has compiled modules"
    assert f"\nVersion: {__version__}\n" in metadata, "the wheel names another version"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= AROUND, f"the source archive lacks {sorted(AROUND - names)}"
    for path, count in ((wheel, len(held)), (source, len(names))):
        print(f"{path.name}: {count} files, {path.stat().st_size / 1e6:.2f} MB")


def check_device(wheel: Path, folder: Path) -> None:
    """A device from the wheel, in an environment that has nothing else."""
    run(sys.executable, "-m", "venv", "clean", cwd=folder)
    python, cause = folder / "clean" / "bin" / "python", folder / "clean" / "bin" / "cause"
    constraints = ROOT / "constraints.txt"  # whatever asks for torch gets the build named there, and no CUDA
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints,
        f"cause[{EXTRAS}] @ {wheel.resolve().as_uri()}", cwd=folder)  # fmt: skip
    installed = run(python, "-m", "pip", "list", "--disable-pip-version-check", "--format", "freeze", cwd=folder)
    assert not re.search(r"^(torch|nvidia)", installed, re.MULTILINE), "extras for small boards pull torch"
    place = run(python, "-c", "import cause; print(cause.__file__)", cwd=folder).strip()
    assert Path(place).is_relative_to(folder.resolve() / "clean"), f"cause is imported from {place}"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    x = rng.normal(size=(240, 4)) + y[:, None]
    users = np.array(["alice", "bob", "carol", "dave"])[np.arange(240) % 4]
    np.savez(folder / "data.npz", x=x, y=y, users=users)
    assert run(cause, "--version", cwd=folder).strip() == f"cause {__version__}"
    run(cause, "init", "device", "--shards", "2", "--slots", "8", "--classes", "3", "--estimator", "GaussianNB",
        "--features", "4", cwd=folder)  # fmt: skip
    assert "240 samples of 4 users" in run(cause, "learn", "device", "data.npz", cwd=folder)
    run(cause, "forget", "device", "--user", "bob", cwd=folder)
    run(cause, "verify", "--home", "device", cwd=folder)
    run(cause, "verify", "1", "--home", "device", cwd=folder)
    run(cause, "evaluate", "device", "data.npz", cwd=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out
    wheel, source = build(out)
    run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", wheel, source)
    check_contents(wheel, source)
    with tempfile.TemporaryDirectory(prefix="cause-dist-") as folder:
        check_device(wheel, Path(folder))
    print(
        f"{wheel.name} and {source.name} are in {out}: a device made, taught, and made to forget by the wheel verifies"
    )


if __name__ == "__main__":
    main()
