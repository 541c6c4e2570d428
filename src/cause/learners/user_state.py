"""What a user's code may remember between two trainings: class attributes, closures, globals, generators of its own.

A network is made anew for each segment, so its own attributes are lost with it. Values that its code keeps elsewhere
stay: then a sub-model depends on what was trained before it, which no replay can repeat. `UserStateSnapshot` looks at
these places before and after a training on a few noise samples.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

LIBRARIES = ("torch", "torch_pruning", "numpy", "cause", "builtins", "sklearn")
"""Code that is not the user's."""
DEPTH = 3
"""How deep containers are looked into."""
MOST_BYTES, MOST_ITEMS = 1 << 24, 10_000
"""Larger arrays and containers are left alone: they are data sets, and copying them would take long."""
Restore = Callable[[], None]


class UserStateSnapshot:
    """A snapshot of class attributes, closures and globals of a user's code.

    >>> class Network:
    ...     __module__ = "yours"
    ...     seen = []
    >>> before = UserStateSnapshot([Network], [])
    >>> Network.seen.append(3)
    >>> before.changed()
    ["'seen' of class Network"]
    >>> before.restore()
    >>> Network.seen
    []
    """

    def __init__(self, classes: Iterable[type], functions: Iterable[Callable[..., Any]]) -> None:
        self._places = dict(_places(classes, functions))
        self._before = {name: fingerprint(get()) for name, (get, _) in self._places.items()}
        restoring = (_restoring(get(), put) for get, put in self._places.values())
        self._restore = [restore for restore in restoring if restore is not None]

    def now(self) -> dict[str, bytes | None]:
        """Return a fingerprint of the value at each place; None for values of an unknown type."""
        return {name: fingerprint(get()) for name, (get, _) in self._places.items()}

    def changed(self) -> list[str]:
        """Return the places whose values have changed, in words."""
        return [name for name, value in self.now().items() if value != self._before[name]]

    def restore(self) -> None:
        """Set every place back to its earlier value."""
        for put in self._restore:
            put()


Place = tuple[Callable[[], Any], Callable[[Any], None]]


def _places(classes: Iterable[type], functions: Iterable[Callable[..., Any]]) -> Iterator[tuple[str, Place]]:
    users_classes = {base: None for cls in classes for base in cls.__mro__ if _is_users(base.__module__)}
    methods = [value for cls in users_classes for value in vars(cls).values() if isinstance(value, FunctionType)]
    modules: dict[str, None] = {}
    for cls in users_classes:
        modules[cls.__module__] = None
        for name, value in list(vars(cls).items()):
            if _is_data(name, value):
                yield f"{name!r} of class {cls.__name__}", _attribute(cls, name)
    for function in [*functions, *methods]:
        if not isinstance(function, FunctionType) or not _is_users(function.__module__):
            continue
        modules[function.__module__] = None
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if _filled(cell) and _is_data(name, cell.cell_contents):
                yield f"{name!r} in the closure of {function.__qualname__}", _cell(cell)
        for index, value in enumerate(function.__defaults__ or ()):
            if _is_data("default", value):
                yield f"default {index} of {function.__qualname__}", _constant(value)
        for name in vars(function):
            yield f"{name!r} of function {function.__qualname__}", _attribute(function, name)
    for module in modules:
        table = vars(sys.modules[module]) if module in sys.modules else {}
        for name, value in list(table.items()):
            if _is_data(name, value):
                yield f"{name!r} of module {module}", _global(table, name)


def _is_users(module: str) -> bool:
    return module.partition(".")[0] not in LIBRARIES


def _is_data(name: str, value: Any) -> bool:
    dull = isinstance(value, ModuleType | type | FunctionType | property | staticmethod | classmethod)
    return not name.startswith("__") and not dull


def _attribute(owner: Any, name: str) -> Place:
    return (lambda: vars(owner).get(name)), (lambda value: setattr(owner, name, value))


def _cell(cell: CellType) -> Place:
    return (lambda: cell.cell_contents), (lambda value: setattr(cell, "cell_contents", value))


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - empty cells raise
    except ValueError:
        return False
    return True


def _constant(value: Any) -> Place:
    return (lambda: value), (lambda _: None)


def _global(table: dict[str, Any], name: str) -> Place:
    return (lambda: table.get(name)), (lambda value: table.update({name: value}))


def fingerprint(value: Any, depth: int = DEPTH) -> bytes | None:
    """Return a digest of a value; None if its type is unknown."""
    data = _bytes_of(value, depth)
    return None if data is None else hashlib.sha256(data).digest()


def _bytes_of(value: Any, depth: int) -> bytes | None:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return repr(value).encode()
    if isinstance(value, np.ndarray):
        if value.nbytes > MOST_BYTES:
            return None
        return f"{value.dtype}{value.shape}".encode() + (value.tobytes() if not value.dtype.hasobject else b"")
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state).encode()
    if isinstance(value, np.random.RandomState | random.Random):
        state = value.get_state() if isinstance(value, np.random.RandomState) else value.getstate()
        return repr([part.tobytes() if isinstance(part, np.ndarray) else part for part in state]).encode()
    if isinstance(value, list | tuple | set | frozenset | dict) and depth:
        if len(value) > MOST_ITEMS:
            return None
        parts = list(value.items()) if isinstance(value, dict) else list(value)
        prints = [_bytes_of(part, depth - 1) or b"?" for part in parts]
        return type(value).__name__.encode() + b"".join(
            sorted(prints) if isinstance(value, set | frozenset) else prints
        )
    return _bytes_of_torch(value)


def _bytes_of_torch(value: Any) -> bytes | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.Tensor):
        if value.numel() * value.element_size() > MOST_BYTES:
            return None
        return f"{value.dtype}{tuple(value.shape)}".encode() + _bytes(torch, value)
    if isinstance(value, torch.Generator):
        return _bytes(torch, value.get_state())
    if isinstance(value, torch.nn.Module):
        return b"".join(name.encode() + _bytes(torch, t) for name, t in value.state_dict().items())
    return None


def _bytes(torch: Any, tensor: Any) -> bytes:
    flat: bytes = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return flat


def _restoring(value: Any, put: Callable[[Any], None]) -> Restore | None:
    """Return a function that restores a value, with its contents if it is mutable; None for unsupported types."""
    torch: Any = sys.modules.get("torch")
    if fingerprint(value) is None:
        return None
    if isinstance(value, list | dict | set):
        held = value.copy()

        def refill() -> None:
            value.clear()
            value.extend(held) if isinstance(value, list) else value.update(held)
            put(value)

        return refill
    if isinstance(value, np.ndarray) and value.flags.writeable:
        array = value.copy()

        def rewrite() -> None:
            value[...] = array
            put(value)

        return rewrite
    if isinstance(value, np.random.Generator):
        state = value.bit_generator.state
        return lambda: setattr(value.bit_generator, "state", state)
    if isinstance(value, np.random.RandomState):
        past = value.get_state()
        return lambda: value.set_state(past)
    if isinstance(value, random.Random):
        earlier = value.getstate()
        return lambda: value.setstate(earlier)
    if torch is not None and isinstance(value, torch.Generator):
        drawn = value.get_state()
        return lambda: value.set_state(drawn) and None
    if torch is not None and isinstance(value, torch.Tensor) and not value.requires_grad:
        numbers = value.clone()

        def recopy() -> None:
            value.copy_(numbers)
            put(value)

        return recopy
    return lambda: put(value)
