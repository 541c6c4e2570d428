"""Checks of argument names: an unknown one is an `InputError` that names the most similar one, not a TypeError."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from cause.engine.arguments import refuse_unknown
from cause.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


def checks_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments' names: an `InputError` for unknown and for missing ones.

    Examples
    --------
    >>> @checks_arguments
    ... def forget(user, *, rounds=None):
    ...     return user
    >>> forget("ann", round=1)
    Traceback (most recent call last):
    cause.errors.InputError: forget has no 'round' (did you mean 'rounds'?): rounds, user
    >>> forget()
    Traceback (most recent call last):
    cause.errors.InputError: forget is called with other arguments than it takes (missing a required argument: 'user'):
    user, rounds
    """
    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items() if name != "self"}
    parameters = [name for name, kind in kinds.items() if kind not in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)]
    takes_any = any(kind is kind.VAR_KEYWORD for kind in kinds.values())
    what = function.__qualname__.removesuffix(".__init__").rpartition("<locals>.")[2]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not takes_any:
            refuse_unknown(what, kwargs, parameters)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(
                f"{what} is called with other arguments than it takes ({error}): {', '.join(parameters)}"
            ) from None
        return function(*args, **kwargs)

    return call
