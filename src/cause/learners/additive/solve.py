"""Solutions of symmetric positive definite systems: by LAPACK, or with the same bits on every machine."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cause.common.registry import Registry
from cause.errors import LearnerError

Matrix = NDArray[np.float64]
Solver = Callable[[Matrix, Matrix], Matrix]
"""Takes A and B, returns X with A·X = B."""


def lapack(a: Matrix, b: Matrix) -> Matrix:
    """Solve by LAPACK: fast; the last bits depend on the library, its threads and the processor.

    >>> lapack(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([[2.0], [1.0]])).round(9).tolist()
    [[0.5], [0.0]]
    """
    try:
        return np.asarray(np.linalg.solve(a, b))
    except np.linalg.LinAlgError as error:
        raise LearnerError(f"the state cannot be solved: {error}; choose a larger regularization") from None


def portable(a: Matrix, b: Matrix) -> Matrix:
    """Solve by a Cholesky factorisation of single operations (+ - × ÷ √), whose every bit IEEE 754 fixes.

    No sum is left to a library, which would choose its order by the processor. Much slower than LAPACK.

    >>> portable(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([[2.0], [1.0]])).tolist()
    [[0.5], [0.0]]
    """
    left, right = a.copy(), b.copy()
    n = len(left)
    for k in range(n):
        pivot = left[k, k]
        if not pivot > 0:
            raise LearnerError("the state cannot be solved: it is singular; choose a larger regularization")
        root = np.sqrt(pivot)
        left[k, k] = root
        column = left[k + 1 :, k]
        column /= root
        right[k] /= root
        for start in range(k + 1, n, _ROWS):  # only what is on or below the diagonal is used
            stop = min(start + _ROWS, n)
            part = left[start:stop, k]
            left[start:stop, k + 1 : stop] -= part[:, None] * left[k + 1 : stop, k]
            right[start:stop] -= part[:, None] * right[k]
    for k in range(n - 1, -1, -1):
        right[k] /= left[k, k]
        right[:k] -= left[k, :k, None] * right[k]
    return right


_ROWS = 256
"""Rows that are updated together: their part of the matrix stays in the cache."""
SOLVERS: Registry[Solver] = Registry("solve", {"lapack": lapack, "portable": portable})
