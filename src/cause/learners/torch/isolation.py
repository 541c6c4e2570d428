"""Where bits come from besides the recipe: generators, threads, flags. Set for a training, and put back after it."""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_FILLING: Any = torch.utils.deterministic


def seed_all(seed: bytes) -> None:
    """Seed every generator that a network may draw from, the global ones too."""
    number = int.from_bytes(seed[:8], "big")
    if torch.accelerator.is_available():
        torch.manual_seed(number % 2**63)
    else:
        # The same for the CPU. `torch.manual_seed` would also queue a call, with a traceback, for each kind of
        # accelerator that is not there: slow, and lists that grow as long as the process lives.
        torch.default_generator.manual_seed(number % 2**63)
    np.random.seed(number % 2**32)
    random.seed(number)


def fix_workspace() -> None:
    """cuBLAS reads this when CUDA starts; with other workspaces it sums in other orders."""
    os.environ.setdefault(WORKSPACE, ":4096:8")


def host_generators() -> tuple[Any, ...]:
    """The states of the generators on the host, comparable."""
    name, keys, *rest = np.random.get_state()
    return random.getstate(), (name, np.asarray(keys).tobytes(), *rest), torch.get_rng_state().numpy().tobytes()


@contextmanager
def isolated(device: torch.device, threads: int, compute: str) -> Iterator[None]:
    """One thread, deterministic algorithms, a GPU's flags; the caller's flags and generators are as before after it."""
    fix_workspace()
    before, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), ExitStack() as flags:
        try:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(True)
            if device.type == "cuda":
                flags.enter_context(_on_gpu(device, compute))
            yield
        finally:
            torch.use_deterministic_algorithms(strict)
            torch.set_num_threads(before)
            random.setstate(states[0])
            np.random.set_state(states[1])


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Always the same one: what is freed stays with its stream, and another one each time would fill the card."""
    return torch.cuda.Stream(device)


@contextmanager
def _on_gpu(device: torch.device, compute: str) -> Iterator[None]:
    """A stream of its own, which graphs need, no algorithm chosen by stop-watch, and TF32 only when it is asked for."""
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
