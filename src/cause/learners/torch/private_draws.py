"""A generator of this thread alone, for trainings in a process whose other threads draw random numbers too.

Dropout and the initialisation of layers draw from torch's global CPU generator. Another thread of the program that
draws from it meanwhile would change the bits of a sub-model. Inside `private_draws` every operation of this thread that
would draw from the global generator gets a generator of its own instead, seeded in the same way, so the bits are those
of a process with a single thread. The global generator is neither read nor changed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_AS_FILLED: dict[str, Callable[..., Any]] = {
    "aten::rand_like": lambda out, generator: out.uniform_(0, 1, generator=generator),
    "aten::randn_like": lambda out, generator: out.normal_(0, 1, generator=generator),
    "aten::randint_like": lambda out, *bounds, generator: out.random_(*bounds, generator=generator),
}
"""Operations without an argument for a generator, as the operation that torch itself fills their result with."""
_WITH_GENERATOR = {"default": "generator", "low": "low_generator"}
"""Overloads without a generator, and those of the same operation with one: rand, randn, randint, randperm."""


class _Own(threading.local):
    mode: "PrivateDraws | None" = None


_OWN = _Own()


def own_generator() -> torch.Generator | None:
    """Return the generator of this thread; None outside `private_draws`."""
    return None if _OWN.mode is None else _OWN.mode.generator


def others_run() -> bool:
    """Return whether the process has other Python threads than this one."""
    return threading.active_count() > 1


class PrivateDraws(TorchDispatchMode):
    """Passes a generator of its own to every operation of this thread that draws on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()
        self.draws = 0
        """How many operations have drawn."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        self.draws += 1
        names = [argument.name for argument in func._schema.arguments]
        if "generator" in names:
            at = names.index("generator")
            if at < len(args):
                return func(*args[:at], self._instead_of(args[at]), *args[at + 1 :], **kwargs)
            return func(*args, **{**kwargs, "generator": self._instead_of(kwargs.get("generator"))})
        if func._schema.name in _AS_FILLED:
            like, *bounds = args
            return _AS_FILLED[func._schema.name](torch.empty_like(like, **kwargs), *bounds, generator=self.generator)
        other = _WITH_GENERATOR.get(func._overloadname)
        if other is not None and other in func._overloadpacket.overloads():
            return getattr(func._overloadpacket, other)(*args, **{**kwargs, "generator": self.generator})
        return self._lent(func, args, kwargs)

    def _instead_of(self, generator: torch.Generator | None) -> torch.Generator:
        """Return our generator in place of the global one; one that the caller made stays."""
        if generator is None or _address(generator) == _address(torch.default_generator):
            return self.generator
        return generator

    def _lent(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation that can draw from the global generator only, which has our state meanwhile."""
        before = torch.default_generator.get_state()
        torch.default_generator.set_state(self.generator.get_state())
        try:
            return func(*args, **kwargs)
        finally:
            self.generator.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(before)


def _address(generator: Any) -> Any:
    """Return where torch keeps a generator: the same one comes in several Python objects."""
    return generator._cdata


class _ByThread:
    """Stands in for the global generator in `torch.random`: `torch.manual_seed` in a private section seeds ours."""

    def __getattr__(self, name: str) -> Any:
        return getattr(own_generator() or torch.default_generator, name)


class _Sections:
    """How many private sections there are; `torch.random` is as torch has it while there is none."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                vars(torch.random)["default_generator"] = _ByThread()

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                vars(torch.random)["default_generator"] = torch.default_generator


_SECTIONS = _Sections()


@contextmanager
def private_draws() -> Iterator[PrivateDraws]:
    """Let this thread draw from a generator of its own inside; seed it (`seed_all`) first.

    Examples
    --------
    >>> torch.manual_seed(7).initial_seed()
    7
    >>> expected = torch.rand(2)
    >>> with private_draws():
    ...     _ = torch.manual_seed(7)
    ...     torch.equal(torch.rand(2), expected)
    True
    """
    outer, mode = _OWN.mode, PrivateDraws()
    _SECTIONS.enter()
    try:
        with mode:
            _OWN.mode = mode
            yield mode
    finally:
        _OWN.mode = outer
        _SECTIONS.leave()
