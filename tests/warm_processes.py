"""Processes that start with the libraries already imported: forked from a process that has imported them.

A fresh worker or service imports torch or scikit-learn, which takes one to three seconds of a processor, and the suite
starts hundreds of them. Each pytest worker has one server of `multiprocessing` that imports them once and holds no
data; the processes of a test are forked from it. They get the environment, the folder and the search path of the test,
as a fresh process would. Tests about the start of processes are marked `fresh_processes` and get fresh ones.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

from cause.executors import spawning
from cause.executors.spawning import ScriptlessContext, ScriptlessProcess

PRELOADED = [
    "torch",
    "sklearn.linear_model",
    "sklearn.naive_bayes",
    "cause.cli.app",
    "cause.service.app",
    "cause.learners.torch",
    "cause.learners.sklearn",
    "cause.learners.additive",
    "cause.executors.worker",
]


class WarmProcess(SpawnProcess):
    """A process that imports neither the caller's script nor the libraries again."""

    environment: dict[str, str]
    server: str

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802
        assert isinstance(process_obj, WarmProcess)
        forkserver.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
        process_obj.environment = dict(os.environ)
        process_obj.server = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined]
        with spawning._without_script():
            return ForkServerProcess._Popen(process_obj)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.environment)
        # processes that this one starts come from the same server
        forkserver._forkserver._forkserver_address = self.server  # type: ignore[attr-defined]
        forkserver._forkserver.ensure_running = lambda: None
        super().run()


class WarmProgram:
    """A command of `cause` in a warm process, with what the tests use of `subprocess.Popen`.

    Parameters
    ----------
    arguments
        The arguments after `cause`.
    environment
        Its variables.
    """

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self._process = WarmProcess(target=_run_command, args=(list(arguments), environment), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("cause", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _run_command(arguments: list[str], environment: dict[str, str]) -> None:
    """In the process: be what `python -m cause` is, with workers that are warm, too."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    sys.argv = ["cause", *arguments]
    from cause.cli import main

    with started_as(WarmProcess):
        main(arguments)


@contextmanager
def started_as(process: type[SpawnProcess] | None) -> Iterator[None]:
    """Start all processes that would be spawned as such ones; None for fresh ones, as outside tests."""
    contexts: list[type[SpawnContext]] = [SpawnContext, ScriptlessContext]
    before = [context.Process for context in contexts]
    new: Callable[..., Any]
    for context, new in zip(contexts, (process or SpawnProcess, process or ScriptlessProcess), strict=True):
        context.Process = new
    try:
        yield
    finally:
        for context, old in zip(contexts, before, strict=True):
            context.Process = old
