"""How fresh processes are started: without running the caller's script again, unless the learner is defined in it.

Python's `spawn` imports the main script in every process that it starts. A script without
`if __name__ == "__main__":` then does everything a second time. What is sent to our processes says by itself which
modules it needs, so the script is imported only when it is among them.
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
    """A fresh process that does not import the caller's script."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802
        with _without_script():
            return SpawnProcess._Popen(process_obj)


class ScriptlessContext(SpawnContext):
    """A context for pools of such processes."""

    Process = ScriptlessProcess


def context_for(*sent: Any) -> SpawnContext:
    """The context for processes that are sent these values; the script is imported only if they refer to it."""
    return multiprocessing.get_context("spawn") if refers_to_script(*sent) else ScriptlessContext()


def refers_to_script(*sent: Any) -> bool:
    """Whether a class, a function or a name among these values is of the script that was started.

    >>> refers_to_script({"epochs": 3})
    False
    """
    try:
        return any(b"__main__" in pickle.dumps(each) for each in sent)
    except Exception:  # whoever sends it says what is wrong with it
        return False


def refuse_rerun() -> None:
    """Refuse to make a device in a process that is just importing the script that started it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False) and "__mp_main__" in sys.modules:
        raise InputError(
            f"a worker process runs this script again: put what it does under {GUARD}, or the learner into a module "
            "of its own"
        )


def needs_guard() -> NoGuardError:
    """What is wrong when a process cannot import the script that defines the learner."""
    return NoGuardError(
        f"a worker process cannot import this script, which defines the learner: put what it does under {GUARD}, or "
        "the learner into a module of its own"
    )


@contextmanager
def _without_script() -> Iterator[None]:
    """While a process is started by this thread: leave the script out of what it prepares."""
    with _patching:
        original, own = spawn.get_preparation_data, threading.get_ident()

        def prepared(name: str) -> dict[str, Any]:
            found = original(name)
            if threading.get_ident() == own:
                found = {key: value for key, value in found.items() if not key.startswith("init_main_from")}
            return found

        spawn.get_preparation_data = prepared
        try:
            yield
        finally:
            spawn.get_preparation_data = original
