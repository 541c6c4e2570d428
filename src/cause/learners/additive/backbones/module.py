"""A torch module as a backbone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError, LearnerError
from cause.learners.additive.backbones.base import REGULARIZATION, BackboneWithFacts, Facts

if TYPE_CHECKING:
    from torch import nn


class ModuleBackbone(BackboneWithFacts):
    """Computes features by a frozen torch module, one picture at a time on one thread.

    Batches of one and one thread are what makes the bits of a feature independent of everything else: in batches of 16
    and more torch changes the last bits of most features, with another number of threads too.

    Parameters
    ----------
    module
        The module. It is put into eval mode; nobody may change it afterwards.
    shape
        The shape of one input.
    scale
        The range of the features, if it is known.
    identity
        What the recipe names it by; by default a digest of its parameters and of its text.
    prepare
        Makes the module's input of inputs, as float32; by default they are only converted.
    takes
        Says which other shapes of an input `prepare` can convert.
    regularization
        The λ of a ridge head that suits its features.
    typical
        A typical feature and its deviation, if they are known.

    Raises
    ------
    InputError
        If the module does not return one row of numbers for an input of this shape.
    """

    def __init__(
        self,
        module: "nn.Module",
        shape: tuple[int, ...],
        scale: tuple[float, float] | None = None,
        identity: dict[str, Any] | None = None,
        prepare: Callable[[NDArray[Any]], NDArray[np.float32]] | None = None,
        takes: Callable[[tuple[int, ...]], bool] | None = None,
        regularization: float = REGULARIZATION,
        typical: tuple[float, float] | None = None,
    ) -> None:
        self._module = module.eval()
        self._prepare = prepare or (lambda x: np.ascontiguousarray(x, dtype=np.float32))
        self._takes = takes
        self._identity = identity or {"backbone": "module", "runtime": "torch", "digest": module_digest(module)}
        try:
            features = self.compute(np.zeros((1, *shape), dtype=np.float32)).shape[1]
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            line = (str(error).splitlines() or [""])[0]
            raise InputError(f"the backbone fails on an input of shape {shape}: {line}") from None
        self.facts = Facts(shape, features, scale, regularization, typical)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether inputs of this shape can be converted."""
        return super().takes(shape) or (self._takes is not None and self._takes(shape))

    @property
    def identity(self) -> dict[str, Any]:
        """The digest of its weights, and torch as its runtime."""
        return self._identity

    def described(self) -> dict[str, Any] | None:
        """Return None: an object has to be passed whenever a home is opened."""
        return None if self._identity["backbone"] == "module" else {}

    @property
    def module(self) -> "nn.Module":
        """The module, for exports."""
        return self._module

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of inputs."""
        import torch

        rows = []
        with one_thread(), torch.no_grad():
            for one in x:
                row = self._module(torch.from_numpy(self._prepare(one[None])))
                if row.ndim < 1 or len(row) != 1:
                    raise LearnerError(f"the backbone returns shape {tuple(row.shape)} for one input")
                rows.append(row.reshape(-1).numpy())
        return np.stack(rows)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread inside, whatever it is set to outside."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def module_digest(module: "nn.Module") -> str:
    """Return a digest of a module's text, parameters and buffers."""
    parts = sha256(repr(module).encode())
    for name, value in sorted(module.state_dict().items()):
        parts.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        parts.update(value.detach().cpu().contiguous().reshape(-1).view(_byte()).numpy().tobytes())
    return parts.hexdigest()


def _byte() -> Any:
    import torch

    return torch.uint8
