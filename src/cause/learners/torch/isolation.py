"""Sets everything that bits depend on besides the recipe (generators, threads, flags), and restores it afterwards."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch

from cause.learners.torch.private_draws import PrivateDraws, own_generator, private_draws
from cause.learners.torch.switches import own_settings

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
VARIABLES = (
    "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
    "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)  # fmt: skip
"""Variables that libraries under torch read when they start, and that change bits: nobody can set them later."""
_FILLING: Any = torch.utils.deterministic


def seed_all(seed: bytes) -> None:
    """Seed every generator that a network may draw from, the global ones too; inside `private_draws`, that one."""
    number = int.from_bytes(seed[:8], "big")
    own = own_generator()
    if own is not None:
        own.manual_seed(number % 2**63)
    elif torch.accelerator.is_available():
        torch.manual_seed(number % 2**63)
    else:
        # The same for the CPU. `torch.manual_seed` would also queue a call, with a traceback, for each kind of
        # accelerator that is not there: slow, and lists that grow as long as the process lives.
        torch.default_generator.manual_seed(number % 2**63)
    np.random.seed(number % 2**32)
    random.seed(number)


def fix_workspace() -> None:
    """Set the workspace of cuBLAS before CUDA starts: with another one it sums in another order."""
    os.environ.setdefault(WORKSPACE, ":4096:8")


def variables() -> list[str]:
    """Return those of `VARIABLES` that are set, for the fingerprint of the environment."""
    return [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]


def host_generators() -> tuple[Any, ...]:
    """Return the states of all generators on the host, for a comparison."""
    return *other_generators(), torch.get_rng_state().numpy().tobytes()


def other_generators() -> tuple[Any, ...]:
    """Return the states of the global generators that are not torch's, for a comparison."""
    name, keys, *rest = np.random.get_state()
    return random.getstate(), (name, np.asarray(keys).tobytes(), *rest)


@contextmanager
def isolated(
    device: torch.device, threads: int, compute: str, *, private: bool = False
) -> Iterator[PrivateDraws | None]:
    """Return a context with our switches, threads and GPU flags; it restores the caller's, and all generators.

    Parameters
    ----------
    device, threads, compute
        As the learner has them.
    private
        Draw from a generator of this thread (`private_draws`): torch's global one is neither read nor changed.
    """
    fix_workspace()
    states = random.getstate(), np.random.get_state()
    forked = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [], enabled=not private)
    with own_settings(threads), forked:
        try:
            with (
                _on_gpu(device, compute) if device.type == "cuda" else nullcontext(),
                private_draws() if private else nullcontext() as draws,
            ):
                yield draws
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of a device, always the same: memory stays with its stream, and more would fill the card."""
    return torch.cuda.Stream(device)


@contextmanager
def _on_gpu(device: torch.device, compute: str) -> Iterator[None]:
    """Use a stream of its own, which graphs need, no benchmarking of algorithms, and TF32 only if the recipe says."""
    matmul, fill = torch.get_float32_matmul_precision(), _FILLING.fill_uninitialized_memory
    tf32 = compute == "tf32"
    with (
        torch.cuda.device(device),
        torch.cuda.stream(_stream(device)),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32),
    ):
        try:
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            # otherwise every output is filled before it is written: no bit of a network that reads only what it
            # wrote depends on it, and it takes time
            _FILLING.fill_uninitialized_memory = False
            yield
        finally:
            torch.cuda.current_stream(device).synchronize()
            _FILLING.fill_uninitialized_memory = fill
            torch.set_float32_matmul_precision(matmul)
