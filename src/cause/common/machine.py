"""The hardware and the installed software of this machine, without importing heavy packages."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cause.common.units import format_bytes
from cause.common.version import __version__

SOFTWARE = (
    # package, what it is for, how to get it
    ("numpy", "the engine", "pip install cause"),
    ("typer", "the command line", "pip install cause"),
    ("rich", "tables and progress", "pip install cause"),
    ("matplotlib", "plots", "pip install 'cause[plot]'"),
    ("scikit-learn", "estimators without torch, and the demo's digits", "pip install 'cause[sklearn]'"),
    ("torch", "networks that learn", "pip install 'cause[torch]'"),
    ("torch-pruning", "removing their filters", "pip install 'cause[torch]'"),
    ("safetensors", "storing them", "pip install 'cause[torch]'"),
    ("zstandard", "compressing them", "pip install 'cause[torch]'"),
    ("cryptography", "homes: sealing and signing", "pip install 'cause[home]'"),
    ("onnxscript", "exports to ONNX", "pip install 'cause[onnx]'"),
    ("nvidia-ml-py", "energy of NVIDIA cards", "pip install 'cause[energy]'"),
)


def software() -> list[dict[str, Any]]:
    """Return the packages that CAUSE uses: name, version (None: missing), purpose, and how to install each."""
    return [_package(*entry) for entry in SOFTWARE]


def hardware() -> dict[str, Any]:
    """Return a description of the machine, without its host name."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "cause": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "memory": format_bytes(memory_bytes) if memory_bytes else "unknown",
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else platform.processor() or "unknown"


def _package(name: str, purpose: str, remedy: str) -> dict[str, str | None]:
    try:
        installed: str | None = version(name)
    except PackageNotFoundError:
        installed = None
    return {"name": name, "version": installed, "purpose": purpose, "remedy": remedy}
