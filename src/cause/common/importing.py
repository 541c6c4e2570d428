"""Importing users' own functions by a name that a configuration can hold: `package.module:function`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from cause.errors import InputError

SCRIPT = "__main__"


def imported(name: str, what: str) -> Callable[..., Any]:
    """Import a function by its name.

    Parameters
    ----------
    name
        `package.module:function`.
    what
        The word for the function in error messages: "model", "loss".

    Raises
    ------
    InputError
        If there is no such module or function, or it cannot be called.

    Examples
    --------
    >>> imported("math:sqrt", "loss")(4)
    2.0
    >>> imported("math:root", "loss")
    Traceback (most recent call last):
    cause.errors.InputError: cannot find the loss 'math:root': module 'math' has no attribute 'root'
    """
    module, _, function = name.partition(":")
    try:
        value = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"cannot find the {what} {name!r}: {error}{_hint(module, error)}") from None
    if not callable(value):
        raise InputError(f"the {what} {name!r} is not a function")
    imported_function: Callable[..., Any] = value
    return imported_function


def _hint(module: str, error: Exception) -> str:
    """Return a hint if the module is in the current folder, which installed programs do not search."""
    top = module.partition(".")[0]
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name == top
        and (Path(f"{top}.py").is_file() or Path(top).is_dir())
    ):
        return ": it is in the current folder, which is searched with PYTHONPATH=. set in the environment"
    return ""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which a function can be imported.

    >>> import math
    >>> name_of(math.sqrt)
    'math:sqrt'
    """
    return f"{function.__module__}:{getattr(function, '__qualname__', function)}"


def check_importable_elsewhere(name: str, what: str) -> None:
    """Raise an `InputError` for a function of the running script: another program cannot import it.

    >>> check_importable_elsewhere("__main__:network", "model")
    Traceback (most recent call last):
    cause.errors.InputError: the model '__main__:network' is in the script that is running, where no other program finds
    it: put it into a module of its own and import it from there
    """
    if name.partition(":")[0] == SCRIPT:
        raise InputError(
            f"the {what} {name!r} is in the script that is running, where no other program finds it: put it into a "
            "module of its own and import it from there"
        )
