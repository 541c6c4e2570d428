"""Whether several processes can use an NVIDIA GPU at the same time, or take turns on it."""

import os
from collections.abc import Mapping
from pathlib import Path

PIPE_FOLDER = "/tmp/nvidia-mps"
"""Where NVIDIA's MPS daemon listens unless `CUDA_MPS_PIPE_DIRECTORY` names another folder."""
PID_FILE = "nvidia-cuda-mps-control.pid"

TURNS_NOTE = (
    "{workers} processes share a GPU and take turns on it: start NVIDIA's MPS daemon first (`nvidia-cuda-mps-control "
    "-d`), and they use it at the same time"
)


def mps_daemon_runs(environ: Mapping[str, str] = os.environ, processes: Path = Path("/proc")) -> bool:
    """Return whether NVIDIA's MPS daemon is running, where CUDA programs of this environment would look for it.

    Parameters
    ----------
    environ
        The environment variables; `CUDA_MPS_PIPE_DIRECTORY` is looked at.
    processes
        The folder that has an entry for each running process.

    Returns
    -------
    bool
        False also if the daemon's folder cannot be read, or if the daemon has ended and left its files.
    """
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or PIPE_FOLDER)
    try:
        pid = int((folder / PID_FILE).read_text())
        return (processes / str(pid) / "comm").read_text().startswith("nvidia-cuda-mps")
    except (OSError, ValueError):
        return False


def turns_note(device_type: str, workers: int) -> str | None:
    """Return a sentence for users whose worker processes take turns on a GPU; None if they do not.

    >>> turns_note("cpu", 8) is None
    True
    """
    if device_type != "cuda" or workers < 2 or mps_daemon_runs():
        return None
    return TURNS_NOTE.format(workers=workers)
