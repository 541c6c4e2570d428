"""Torch's settings that change bits: set to our values during a training or prediction, then restored.

Some belong to the whole process (default dtype, precisions, kernels), some to a thread (autocast, grad mode, function
modes, denormals). The first thread that enters sets the process's switches, and the last one to leave gives them back:
so a prediction that ends does not change the settings under a training that goes on beside it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock, local
from typing import Any

import torch
from torch.nn.modules import module as hooked_modules
from torch.optim import optimizer as hooked_optimizers
from torch.overrides import _pop_mode, _push_mode
from torch.utils._python_dispatch import _disable_current_modes

_C: Any = torch._C
_BACKENDS: Any = torch.backends
_FILLING: Any = torch.utils.deterministic


@dataclass(frozen=True)
class Switch:
    """A setting of the process: how it is read and set, and the value under which everything of ours runs."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], None]
    ours: Any
    as_good: tuple[Any, ...] = ()
    """Other values that give the same bits, and so are left alone."""


def _precision(backend: str, operation: str) -> Switch:
    """Return the switch of the precision of fp32 products. "none" is torch's default; on a CPU it is full precision."""
    return Switch(
        f"fp32_precision of {backend}.{operation}",
        lambda: _C._get_fp32_precision_getter(backend, operation),
        lambda value: _C._set_fp32_precision_setter(backend, operation, value),
        "none" if operation == "all" else "ieee",
        ("none",),
    )


def _matmul_precision() -> Any:
    try:
        return _C._get_float32_matmul_precision()
    except RuntimeError:  # the host uses the newer settings, which are saved one by one
        return "highest"


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _set_anomaly(value: tuple[bool, bool]) -> None:
    torch.set_anomaly_enabled(*value)


def _attribute(owner: Any, name: str, ours: Any, label: str) -> Switch:
    return Switch(label, lambda: getattr(owner, name), lambda value: setattr(owner, name, value), ours)


def _flag(name: str, ours: bool, label: str) -> Switch:
    return Switch(label, getattr(_C, f"_get_{name}"), getattr(_C, f"_set_{name}"), ours)


def _attention(kind: str) -> Switch:
    get, set_ = getattr(_C, f"_get_{kind}_sdp_enabled"), getattr(_C, f"_set_sdp_use_{kind}")
    return Switch(f"{kind} attention", get, set_, True)


def _reduction(kind: str) -> Switch:
    name = f"cublas_allow_{kind}_reduced_precision_reduction"
    get, set_ = getattr(_C, f"_get_{name}"), getattr(_C, f"_set_{name}")
    return Switch(f"{kind} reductions of cuBLAS", get, lambda value: set_(*value), (True, True))


def _table() -> list[Switch]:
    switches = [
        _precision("generic", "all"),
        _precision("mkldnn", "all"),
        # sets the products of all backends, so these come after it
        Switch("float32_matmul_precision", _matmul_precision, torch.set_float32_matmul_precision, "highest"),
        *(_precision("mkldnn", operation) for operation in ("matmul", "conv", "rnn")),
        Switch("default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        Switch(
            "deterministic algorithms",
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            _set_deterministic,
            (True, False),
        ),
        _attribute(_FILLING, "fill_uninitialized_memory", True, "fill_uninitialized_memory"),
        _flag("mkldnn_enabled", True, "mkldnn.enabled"),
        _flag("mkldnn_deterministic", False, "mkldnn.deterministic"),
        _flag("nnpack_enabled", True, "nnpack.enabled"),
        _flag("cpu_allow_fp16_reduced_precision_reduction", False, "fp16 reductions of a CPU"),
        Switch(
            "swap_module_params_on_conversion",
            torch.__future__.get_swap_module_params_on_conversion,
            torch.__future__.set_swap_module_params_on_conversion,
            False,
        ),
        Switch(
            "overwrite_module_params_on_conversion",
            torch.__future__.get_overwrite_module_params_on_conversion,
            torch.__future__.set_overwrite_module_params_on_conversion,
            False,
        ),
        Switch("mha fast path", _BACKENDS.mha.get_fastpath_enabled, _BACKENDS.mha.set_fastpath_enabled, True),
        *map(_attention, ("flash", "mem_efficient", "math", "cudnn")),
        Switch(
            "anomaly detection",
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            _set_anomaly,
            (False, True),
            ((False, False),),
        ),
    ]
    # these matter on a GPU alone; what else does is set with its stream
    switches.append(_flag("cublas_allow_fp16_accumulation", False, "fp16 accumulation of cuBLAS"))
    switches.append(_flag("math_sdp_allow_fp16_bf16_reduction", False, "half-precision reductions of attention"))
    switches += [_reduction(kind) for kind in ("fp16", "bf16")]
    if _BACKENDS.opt_einsum.is_available():
        switches.append(_attribute(_BACKENDS.opt_einsum, "enabled", True, "opt_einsum.enabled"))
        switches.append(_attribute(_BACKENDS.opt_einsum, "strategy", "auto", "opt_einsum.strategy"))
    if "x86" in _BACKENDS.quantized.supported_engines:
        switches.append(_attribute(_BACKENDS.quantized, "engine", "x86", "quantized.engine"))
    return switches


SWITCHES = _table()
_HOOKS: list[Any] = [
    *(table for name, table in vars(hooked_modules).items() if name.startswith("_global_") and isinstance(table, dict)),
    *(table for name, table in vars(hooked_optimizers).items() if name.startswith("_global_")),
]
"""Hooks on every module and every optimizer of the process."""


class _Process:
    """The process's switches. They are ours while at least one thread is inside."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Switch, Any]] = []
        self._hooks: list[dict[Any, Any]] = []
        self.threads = 1
        """What the host had set as the number of threads when the first one entered."""

    def enter(self, threads: int) -> bool:
        """Set the process's switches unless another thread has; return whether this call did."""
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return False
            self.threads = threads
            try:
                self._set()
            except BaseException:
                self._inside = 0
                self._give_back()
                raise
            return True

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._give_back()

    def _set(self) -> None:
        for switch in SWITCHES:
            value = switch.get()
            if value != switch.ours and value not in switch.as_good:
                self._before.append((switch, value))
                switch.set(switch.ours)
        self._hooks = [dict(table) for table in _HOOKS]
        for table in _HOOKS:
            table.clear()

    def _give_back(self) -> None:
        while self._before:
            switch, value = self._before.pop()
            if switch.get() == switch.ours:  # otherwise another thread of the host has set it meanwhile
                switch.set(value)
        for table, hooks in zip(_HOOKS, self._hooks, strict=False):
            if hooks:
                table.update({**hooks, **table})
        self._hooks = []


_PROCESS, _THREAD = _Process(), local()


@contextmanager
def own_settings(threads: int) -> Iterator[None]:
    """Return a context with our settings; it restores the host program's, also after an error."""
    before = torch.get_num_threads()
    first = _PROCESS.enter(before)
    if not first and before == threads and not _depth():
        before = _PROCESS.threads  # a thread that is new to torch takes over the number that is ours at this moment
    _THREAD.depth = _depth() + 1
    try:
        with ExitStack() as stack:
            _enter_thread(stack)
            torch.set_num_threads(threads)
            yield
    finally:
        torch.set_num_threads(before)
        _THREAD.depth -= 1
        _PROCESS.leave()


def _depth() -> int:
    """Return how many of these contexts this thread is in."""
    return getattr(_THREAD, "depth", 0)


def _enter_thread(stack: ExitStack) -> None:
    """Set the settings of this thread, those that differ."""
    if torch.is_inference_mode_enabled():
        stack.enter_context(torch.inference_mode(False))
    if not torch.is_grad_enabled():
        stack.enter_context(torch.enable_grad())
    for kind in ("cpu", "cuda"):
        if torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(kind, enabled=False))
    if _C._len_torch_function_stack():  # a default device is one of them
        stack.enter_context(_without_function_modes())
    if _C._len_torch_dispatch_stack():
        stack.enter_context(_disable_current_modes())
    if _C._autograd._top_saved_tensors_default_hooks(True) is not None:
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_same, _same))  # the innermost ones are used
    if _flushes_denormals():
        torch.set_flush_denormal(False)
        stack.callback(torch.set_flush_denormal, True)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


@contextmanager
def _without_function_modes() -> Iterator[None]:
    modes = [_pop_mode() for _ in range(_C._len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def _flushes_denormals(smallest: float = sys.float_info.min) -> bool:
    """Return whether this thread's arithmetic takes the smallest numbers for 0; torch has no call for it."""
    return smallest / 2 == 0.0
