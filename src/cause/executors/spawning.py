"""Starts processes without running the caller's script again, unless the script defines the learner.

Python's `spawn` imports the main script in every process that it starts. A script without
`if __name__ == "__main__":` then does everything a second time. The pickled learner names the modules that it needs, so
the script is imported only if it is among them.
"""

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

from cause.errors import InputError, NoGuardError

GUARD = "`if __name__ == '__main__':`"
_patching = threading.Lock()


class ScriptlessProcess(SpawnProcess):
    """A spawned process that does not import the caller's script."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802
        with _without_script():
            return SpawnProcess._Popen(process_obj)


class ScriptlessContext(SpawnContext):
    """A `multiprocessing` context that starts every process as a `ScriptlessProcess`."""

    Process = ScriptlessProcess


def context_for(*sent: Any) -> SpawnContext:
    """Return a context for processes that receive these values; it imports the script only if they refer to it."""
    return multiprocessing.get_context("spawn") if refers_to_script(*sent) else ScriptlessContext()


def refers_to_script(*sent: Any) -> bool:
    """Return whether these values refer to the main script, by a class, a function or a name that it defines.

    Values that cannot be pickled count as not referring to it: sending them fails with an error of its own.

    >>> refers_to_script({"epochs": 3})
    False
    """
    try:
        return any(b"__main__" in pickle.dumps(value) for value in sent)
    except Exception:
        return False


def refuse_rerun() -> None:
    """Raise an `InputError` in a worker process that is importing the main script: the script has no guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False) and "__mp_main__" in sys.modules:
        raise InputError(
            f"a worker process runs this script again: put what it does under {GUARD}, or the learner into a module "
            "of its own"
        )


def needs_guard() -> NoGuardError:
    """Return the error to raise if a worker cannot import the script that defines the learner."""
    return NoGuardError(
        f"a worker process cannot import this script, which defines the learner: put what it does under {GUARD}, or "
        "the learner into a module of its own"
    )


@contextmanager
def _without_script() -> Iterator[None]:
    """Leave the script out of the data that `spawn` prepares for processes which this thread starts."""
    with _patching:
        original, this_thread = spawn.get_preparation_data, threading.get_ident()

        def without_script(name: str) -> dict[str, Any]:
            data = original(name)
            if threading.get_ident() == this_thread:
                data = {key: value for key, value in data.items() if not key.startswith("init_main_from")}
            return data

        spawn.get_preparation_data = without_script
        try:
            yield
        finally:
            spawn.get_preparation_data = original
