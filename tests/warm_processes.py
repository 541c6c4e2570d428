"""Processes that start with the libraries already imported: forked from a process that has imported them.

A fresh worker or service imports torch or scikit-learn, which takes one to three seconds of a processor, and the suite
starts hundreds of them. One server of `multiprocessing` imports them once and holds no data; the processes of a test
are forked from it. They get the environment, the folder and the search path of the test, as a fresh process would.
Tests about the start of processes are marked `fresh_processes` and get fresh ones.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cause.executors import spawning
from cause.executors.spawning import ScriptlessContext, ScriptlessProcess

PRELOADED = [
    "torch",
    "torch._inductor.config",  # the first training of a process imports it, for a second
    "sklearn.linear_model",
    "sklearn.naive_bayes",
    "cause.cli.app",
    "cause.service.app",
    "cause.learners.torch",
    "cause.learners.sklearn",
    "cause.learners.additive",
    "cause.executors.worker",
    "tests.warm_imports",
]


def share_server() -> None:
    """Start the server, and let processes that are forked from this one use it, too."""
    forkserver.set_forkserver_preload(PRELOADED)
    forkserver._forkserver.ensure_running()
    forkserver._forkserver.ensure_running = lambda: None  # it looks for a child, which the server is of this one only


class WarmProcess(SpawnProcess):
    """A process that imports neither the caller's script nor the libraries again."""

    environment: dict[str, str]
    server: str

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802
        assert isinstance(process_obj, WarmProcess)
        forkserver.set_forkserver_preload(PRELOADED)
        forkserver._forkserver.ensure_running()
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
        Its variables; those of this process without them.
    script
        A Python script to run instead of `cause`; every warning in it is an error.
    output
        A folder for the files `out` and `err` with what it prints; without one it prints where this process does.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: dict[str, str] | None = None,
        script: Path | None = None,
        output: Path | None = None,
    ) -> None:
        given = (list(arguments), environment or dict(os.environ), script, output)
        self._process = WarmProcess(target=_run_program, args=given, daemon=True)
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


def run_warm(
    arguments: Sequence[object], output: Path, script: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command of `cause`, or a script, to its end; `output` is a folder for what it prints."""
    output.mkdir(exist_ok=True)
    program = WarmProgram([str(each) for each in arguments], script=script, output=output)
    try:
        code = program.wait(timeout)
    finally:
        program.kill()
    return subprocess.CompletedProcess(
        ["cause", *map(str, arguments)], code, (output / "out").read_text(), (output / "err").read_text()
    )


def _run_program(arguments: list[str], environment: dict[str, str], script: Path | None, output: Path | None) -> None:
    """In the process: be what `python -m cause` or `python -W error script` is, with workers that are warm, too."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    if output is not None:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    with started_as(WarmProcess):
        if script is None:
            sys.argv = ["cause", *arguments]
            from cause.cli import main

            main(arguments)
        else:
            sys.argv = [str(script), *arguments]
            sys.path.insert(0, str(script.parent))
            warnings.simplefilter("error")
            runpy.run_path(str(script), run_name="__main__")


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
