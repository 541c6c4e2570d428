"""The state of an additive learner: sums of whole numbers over the samples, and their bytes."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import BudgetError, LearnerError
from cause.learners.additive.differences import differences
from cause.learners.additive.triangle import Triangle

_HEAD = struct.Struct("<8sqq")
_MAGIC = b"CAUSUM1\0"
Part = Triangle | NDArray[np.int64]
Shapes = Mapping[str, int | tuple[int, ...]]
"""The parts of a state by name: the size of a triangle, or the shape of a table."""


class Sums:
    """Sums over samples. All numbers are int64; states of the same recipe can be added.

    Parameters
    ----------
    shapes
        The parts, as the head names them.
    recipe
        What decides the numbers besides the samples, as plain data; it is not in the bytes of a state.

    Examples
    --------
    >>> sums = Sums({"cross": (2, 3)})
    >>> sums.samples, len(sums.encoded()) == Sums.bytes_of({"cross": (2, 3)})
    (0, True)
    """

    def __init__(self, shapes: Shapes, recipe: Mapping[str, Any] | None = None) -> None:
        self.shapes, self.recipe = shapes, recipe or {}
        self.samples = 0
        self.clipped = 0
        """How many features of the samples were clipped."""
        self.parts: dict[str, Any] = {
            name: Triangle(shape) if isinstance(shape, int) else np.zeros(shape, dtype=np.int64)
            for name, shape in shapes.items()
        }

    @staticmethod
    def bytes_of(shapes: Shapes) -> int:
        """Return the number of bytes of a state with these parts."""
        return _HEAD.size + sum(
            Triangle.bytes_of(shape) if isinstance(shape, int) else 8 * int(np.prod(shape, dtype=np.int64))
            for shape in shapes.values()
        )

    def merge(self, other: "Sums", most_samples: int) -> None:
        """Add another state, in place: the sums over both devices' samples.

        Parameters
        ----------
        other
            A state of the same recipe. One that came as bytes is of the recipe of the learner that decoded it: compare
            the `recipe_digest` of both devices before.
        most_samples
            The number of samples up to which no sum can overflow (`AdditiveLearner.most_samples`).

        Raises
        ------
        LearnerError
            If the states are of different recipes: they may have the same parts, and sums that mean something else.
        BudgetError
            If sums over the samples of both could overflow. Nothing was changed then.
        """
        if differing := list(differences(self.recipe, other.recipe)):
            raise LearnerError(f"states of different recipes cannot be added: {', '.join(differing)}")
        if dict(other.shapes) != dict(self.shapes):
            raise LearnerError(f"states with the parts {dict(other.shapes)} and {dict(self.shapes)} cannot be added")
        if not 0 <= other.samples <= most_samples - self.samples:
            raise BudgetError(
                f"a state of {other.samples:,} samples cannot be added to one of {self.samples:,}: sums of this recipe "
                f"hold {most_samples:,} samples without an overflow"
            )
        self.samples += other.samples
        self.clipped += other.clipped
        for name, part in self.parts.items():
            if isinstance(part, Triangle):
                part.merge(other.parts[name])
            else:
                part += other.parts[name]

    def copy(self) -> "Sums":
        """Return sums of their own with the same numbers."""
        made = Sums.__new__(Sums)
        made.shapes, made.recipe, made.samples, made.clipped = self.shapes, self.recipe, self.samples, self.clipped
        made.parts = {name: part.copy() for name, part in self.parts.items()}
        return made

    def encoded(self) -> bytes:
        """Return the state as bytes: the same ones on every machine."""
        parts = [_HEAD.pack(_MAGIC, self.samples, self.clipped)]
        for part in self.parts.values():
            parts.append(part.encoded() if isinstance(part, Triangle) else part.astype("<i8", copy=False).tobytes())
        return b"".join(parts)

    @classmethod
    def decoded(cls, blob: bytes, shapes: Shapes, recipe: Mapping[str, Any] | None = None) -> "Sums":
        """Return the state of its bytes; `shapes` and `recipe` are those of `Sums`.

        Raises
        ------
        LearnerError
            If they are not the bytes of a state with these parts.
        """
        if len(blob) != cls.bytes_of(shapes) or blob[:8] != _MAGIC:
            raise LearnerError(f"not a state of this recipe: {len(blob):,} bytes, not {cls.bytes_of(shapes):,}")
        sums, data, at = cls.__new__(cls), memoryview(blob), _HEAD.size
        _, sums.samples, sums.clipped = _HEAD.unpack_from(blob)
        sums.shapes, sums.recipe, sums.parts = shapes, recipe or {}, {}
        for name, shape in shapes.items():
            if isinstance(shape, int):
                end = at + Triangle.bytes_of(shape)
                sums.parts[name] = Triangle.decoded(data[at:end], shape)
            else:
                end = at + 8 * int(np.prod(shape, dtype=np.int64))
                sums.parts[name] = np.frombuffer(data[at:end], dtype="<i8").reshape(shape).astype(np.int64)
            at = end
        return sums
