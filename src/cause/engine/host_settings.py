"""Shields trainings and predictions from the host program's settings for floating-point errors and warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def own_error_modes() -> Iterator[None]:
    """Return a context in which numpy raises no floating-point errors and no warning becomes an error.

    Under `np.seterr(all="raise")` or `warnings.simplefilter("error")` a learner would fail on samples that it can learn
    from, and they would be quarantined. The filters for warnings belong to all threads, so they are changed only if one
    of them makes errors.

    Examples
    --------
    >>> with np.errstate(all="raise"), own_error_modes():
    ...     float(np.exp(np.float64(-1e9)))
    0.0
    """
    with np.errstate(all="ignore"):
        if not any(action == "error" for action, *_ in warnings.filters):
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
