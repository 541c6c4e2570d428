"""The host program's switches of torch: none of them changes a bit, and each is as it was afterwards."""

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cause.errors import LearnerError
from cause.learners.torch import TorchLearner
from cause.learners.torch.switches import SWITCHES, own_settings
from tests.learners.common_networks import Attention
from tests.learners.test_torch import lesson, upload
from tests.quick import quick_only

CLASSES, SHAPE = 4, (1, 8, 8)


class Mixed(nn.Module):
    """Convolution, attention, a recurrent and a linear layer: each has kernels of its own."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.attention, self.gru = Attention(16), nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        scaled = nn.functional.scaled_dot_product_attention(steps, steps, steps)
        return self.out(torch.cat([self.attention(scaled), self.gru(steps[:, :8])[0][:, -1]], dim=1))


def mixed(classes: int, shape: tuple[int, ...]) -> nn.Module:
    return Mixed(classes)


def learner() -> TorchLearner:
    return TorchLearner(mixed, classes=CLASSES, shape=SHAPE, epochs=2, batch_size=4, optimizer="sgd", lr=0.05)


def bits(own: TorchLearner) -> tuple[bytes, bytes]:
    """Two segments and a prediction."""
    first = own.encode(own.train(None, lesson(upload()), b"s" * 32))
    second = own.encode(own.train(own.decode(first), lesson(upload("b")), b"t" * 32))
    return second, own.predict(own.decode(second), upload("c").arrays(np.arange(5))[0]).tobytes()


@pytest.fixture(scope="module")
def untouched() -> tuple[bytes, bytes]:
    return bits(learner())


@dataclass(frozen=True)
class Turned:
    """A switch, the value that a host program gives it, and how it is read."""

    set: Callable[[Any], Any]
    get: Callable[[], Any]
    value: Any
    none: bool = False
    """It is unset by None."""


def attribute(owner: Any, name: str, value: Any) -> Turned:
    return Turned(lambda given: setattr(owner, name, given), lambda: getattr(owner, name), value)


def flag(name: str, value: Any) -> Turned:
    return Turned(getattr(torch._C, f"_set_{name}"), getattr(torch._C, f"_get_{name}"), value)


def pair(name: str, value: Any) -> Turned:
    turn = getattr(torch._C, f"_set_{name}")
    return Turned(lambda given: turn(*given), getattr(torch._C, f"_get_{name}"), value)


def denormals() -> bool:
    return sys.float_info.min / float(2) == 0.0


backends = torch.backends
mkldnn: Any = backends.mkldnn
HOST = {
    "matmul precision medium": Turned(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "medium"),
    "matmul precision high": Turned(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "high"),
    "fp32_precision": attribute(backends, "fp32_precision", "bf16"),
    "mkldnn.matmul.fp32_precision": attribute(mkldnn.matmul, "fp32_precision", "bf16"),
    "mkldnn.conv.fp32_precision": attribute(mkldnn.conv, "fp32_precision", "bf16"),
    "mkldnn.rnn.fp32_precision": attribute(mkldnn.rnn, "fp32_precision", "bf16"),
    "default dtype": Turned(torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "default dtype half": Turned(torch.set_default_dtype, torch.get_default_dtype, torch.bfloat16),
    "default device": Turned(torch.set_default_device, torch.get_default_device, torch.device("meta"), none=True),
    "mkldnn.enabled": attribute(backends.mkldnn, "enabled", False),
    "mkldnn.deterministic": attribute(backends.mkldnn, "deterministic", True),
    "nnpack": flag("nnpack_enabled", False),
    "fp16 accumulation of cuBLAS": flag("cublas_allow_fp16_accumulation", True),
    "half-precision reductions of attention": flag("math_sdp_allow_fp16_bf16_reduction", True),
    "fp16 reductions": pair("cublas_allow_fp16_reduced_precision_reduction", (False, True)),
    "bf16 reductions": pair("cublas_allow_bf16_reduced_precision_reduction", (False, True)),
    "mha fast path": Turned(backends.mha.set_fastpath_enabled, backends.mha.get_fastpath_enabled, False),
    "flash attention": Turned(backends.cuda.enable_flash_sdp, backends.cuda.flash_sdp_enabled, False),
    "efficient attention": Turned(
        backends.cuda.enable_mem_efficient_sdp, backends.cuda.mem_efficient_sdp_enabled, False
    ),
    "cudnn attention": Turned(backends.cuda.enable_cudnn_sdp, backends.cuda.cudnn_sdp_enabled, False),
    "math attention": Turned(backends.cuda.enable_math_sdp, backends.cuda.math_sdp_enabled, False),
    "quantized engine": attribute(backends.quantized, "engine", "qnnpack"),
    "deterministic algorithms": Turned(
        torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True
    ),
    "deterministic debug mode": Turned(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode, 1),
    "fill_uninitialized_memory": attribute(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "swap_module_params_on_conversion": Turned(
        torch.__future__.set_swap_module_params_on_conversion,
        torch.__future__.get_swap_module_params_on_conversion,
        True,
    ),
    "overwrite_module_params_on_conversion": Turned(
        torch.__future__.set_overwrite_module_params_on_conversion,
        torch.__future__.get_overwrite_module_params_on_conversion,
        True,
    ),
    "grad mode": Turned(torch.set_grad_enabled, torch.is_grad_enabled, False),
    "anomaly detection": Turned(torch.set_anomaly_enabled, torch.is_anomaly_enabled, True),
    "autocast": Turned(
        lambda on: torch.set_autocast_enabled("cpu", on), lambda: torch.is_autocast_enabled("cpu"), True
    ),
    "threads": Turned(torch.set_num_threads, torch.get_num_threads, 2),
    "flush denormal": Turned(torch.set_flush_denormal, denormals, True),
}
if backends.opt_einsum.is_available():  # a package that torch uses where it is installed
    HOST["opt_einsum.enabled"] = attribute(backends.opt_einsum, "enabled", False)
    HOST["opt_einsum.strategy"] = attribute(backends.opt_einsum, "strategy", "greedy")


@contextmanager
def turned(switch: Turned):
    before = switch.get()
    switch.set(switch.value)
    try:
        yield
    finally:
        switch.set(None if switch.none else before)


@pytest.mark.parametrize("name", HOST)
def test_a_switch_of_the_host_changes_no_bit_and_is_given_back(name, untouched):
    switch = HOST[name]
    with turned(switch):
        trained = bits(learner())
        after = switch.get()
    assert after == switch.value
    assert trained == untouched


@pytest.mark.parametrize("name", quick_only(HOST, list(HOST)[::4]))
def test_a_switch_is_given_back_after_an_error(name):
    switch = HOST[name]
    with turned(switch):
        hot = TorchLearner(mixed, classes=CLASSES, shape=SHAPE, epochs=3, optimizer="sgd", lr=1e30)
        with pytest.raises(LearnerError, match="diverged"):
            hot.train(None, lesson(upload()), b"s" * 32)
        assert switch.get() == switch.value


CONTEXTS: dict[str, Any] = {
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a device": lambda: torch.device("meta"),
    "saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.to(torch.bfloat16) if t.is_floating_point() else t,
        lambda t: t.float() if t.dtype == torch.bfloat16 else t,
    ),
    "mkldnn flags": lambda: mkldnn.flags(enabled=False, allow_tf32=None),
    "attention kernels": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_what_the_host_wraps_around_a_call_changes_no_bit(name, untouched):
    with CONTEXTS[name]():
        assert bits(learner()) == untouched


def test_hooks_on_all_modules_and_optimizers_of_the_process_see_nothing(untouched):
    seen = []
    module = nn.modules.module.register_module_forward_hook(lambda *given: seen.append("module") or given[2] * 2)
    step = register_optimizer_step_pre_hook(lambda *given: seen.append("step"))
    try:
        assert bits(learner()) == untouched
        assert seen == []
        nn.Linear(1, 1)(torch.zeros(1))
        assert seen == ["module"]
    finally:
        module.remove()
        step.remove()


def test_every_switch_of_ours_is_turned_by_a_test():
    """A switch that is added to the table without a test would show up here."""
    missing = []
    for switch in SWITCHES:
        before, moved = switch.get(), False
        for host in HOST.values():
            with turned(host):
                moved = moved or switch.get() != before
        missing += [] if moved else [switch.name]
    assert set(missing) <= {"fp16 reductions of a CPU"}  # that one cannot be turned where a CPU has no fp16 arithmetic


def test_a_prediction_that_ends_does_not_change_the_settings_of_a_training_beside_it():
    inside, leave, seen = threading.Event(), threading.Event(), []

    def train():
        with own_settings(1):
            inside.set()
            leave.wait(10)
            seen.append((torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()))

    torch.set_default_dtype(torch.float64)
    try:
        thread = threading.Thread(target=train)
        thread.start()
        inside.wait(10)
        with own_settings(1):
            pass
        leave.set()
        thread.join()
        assert seen == [(torch.float32, True)]
        assert torch.get_default_dtype() == torch.float64
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_new_thread_of_the_host_gets_the_hosts_number_of_threads():
    inside, leave, numbers = threading.Event(), threading.Event(), []

    def predict():
        with own_settings(1):
            pass
        numbers.append(torch.get_num_threads())

    def train():
        with own_settings(1):
            inside.set()
            leave.wait(10)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        training = threading.Thread(target=train)
        training.start()
        inside.wait(10)
        predicting = threading.Thread(target=predict)
        predicting.start()
        predicting.join()
        leave.set()
        training.join()
        assert (numbers, torch.get_num_threads()) == ([2], 2)
    finally:
        torch.set_num_threads(before)


def test_a_variable_that_changes_bits_below_torch_is_part_of_the_environment(monkeypatch):
    plain = learner().environment
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    assert learner().environment == plain + ", ONEDNN_DEFAULT_FPMATH_MODE=BF16"
