"""The device that trains, and the fingerprint of the machine and software on which a training gives the same bits."""

import os
import platform
from collections.abc import Sequence

import torch

from cause.common.hashing import digest
from cause.errors import InputError
from cause.learners.torch.isolation import WORKSPACE, fix_workspace, variables


def device_of(name: str) -> torch.device:
    """Return the device of a name; an `InputError` if it cannot be used."""
    fix_workspace()  # before CUDA starts
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot train on {name!r}: {str(error).splitlines()[0]}") from None
    return device


def environment_of(device: torch.device, threads: int, *, filled: bool, whole: Sequence[str] | None) -> str:
    """Return versions, processor and settings on which bits depend, besides the recipe.

    Parameters
    ----------
    device, threads
        Where the network is trained, and with how many threads of the CPU.
    filled
        Whether batches of depthwise convolutions are padded on this device.
    whole
        The layers that pruning leaves whole; None if the network is pruned as it is.
    """
    parts = [f"torch {torch.__version__}", str(device.type), f"{threads} threads", platform.machine()]
    if device.type in ("cpu", "cuda"):  # networks are initialised on the CPU
        parts += [torch.backends.cpu.get_cpu_capability(), f"mkldnn {torch.backends.mkldnn.is_available()}"]
    if device.type == "cuda":
        parts += [torch.cuda.get_device_name(device), f"cuda {torch.version.cuda}"]
        parts += [f"cudnn {torch.backends.cudnn.version()}", f"cublas {os.environ.get(WORKSPACE)}"]
        parts += ["whole batches"] if filled else []  # without them bits differ
    parts += [] if whole is None else [f"whole layers {digest(*whole).hex()[:8]}"]
    return ", ".join(parts + variables())
