"""Run the tests in several processes that are forked after one collection: `-p tests.forked_workers --workers 4`.

Fresh processes, as pytest-xdist starts them, import torch and collect all tests each by themselves, and each had a
server of its own for the processes that tests start: 70 of the suite's CPU seconds. Here both are done once. All tests
of a file run in one process, files in the order of the collection; a process that is free takes the next file. Files
that share something costly run in one process, too: `@pytest.mark.same_process("browser")`.
"""

import ctypes
import multiprocessing.connection
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Never

import pytest

INDEX_BYTES = 4
PR_SET_PDEATHSIG = 1  # of Linux: which signal a process gets when its parent ends


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="how many processes run tests, forked after the collection")


@dataclass
class Worker:
    """A process that runs tests, as its parent sees it."""

    pid: int
    reports: Connection
    unfinished: list[str] = field(default_factory=list)  # tests of its file that have not ended, in their order


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Hand the files to forked processes, and report what they report."""
    count = session.config.getoption("--workers")
    if count < 2 or session.config.option.collectonly or session.testsfailed:
        return None
    groups: dict[str, list[pytest.Item]] = {}
    for test in session.items:
        mark = test.get_closest_marker("same_process")
        groups.setdefault(mark.args[0] if mark else test.nodeid.partition("::")[0], []).append(test)
    files = list(groups.values())
    queue = _queue(len(files))
    parent = os.getpid()
    base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    workers = []
    for number in range(count):
        here, there = multiprocessing.Pipe(duplex=False)
        pid = os.fork()
        if not pid:
            _end_with(parent)
            _run_tests(session, files, queue, there, base / f"worker-{number}")
        there.close()
        workers.append(Worker(pid, here))
    try:
        _report(session, workers, files)
    finally:
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
    return True


def _end_with(parent: int) -> None:
    """End this process when its parent ends, also if that is killed. Does nothing but on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended meanwhile
            os._exit(1)


def _queue(count: int) -> int:
    """Return the end of a pipe from which each worker reads the number of its next file, until it is empty."""
    numbers, write = os.pipe()
    os.write(write, b"".join(number.to_bytes(INDEX_BYTES) for number in range(count)))
    os.close(write)
    return numbers


def _run_tests(session: pytest.Session, files: list[list[Any]], queue: int, reports: Connection, base: Any) -> Never:
    """In a worker: run the tests of one file after the other. The process ends here."""
    config = session.config
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()  # into files of its own
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Sender(config, reports))
    base.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
    try:
        upcoming = _tests(files, queue, reports)
        test = next(upcoming, None)
        while test is not None:
            following = next(upcoming, None)  # its fixtures of the session, or of the file, are kept
            config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            test = following
        reports.send(("end", None))
    finally:
        os._exit(0)


def _tests(files: list[list[Any]], queue: int, reports: Connection) -> Iterator[Any]:
    while number := os.read(queue, INDEX_BYTES):
        reports.send(("file", int.from_bytes(number)))
        yield from files[int.from_bytes(number)]


class _Sender:
    """Sends the reports of a worker to its parent."""

    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self._config = config
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._reports.send(("finished", nodeid))


def _report(session: pytest.Session, workers: list[Worker], files: list[list[Any]]) -> None:
    """Pass on what the workers report, until all have ended or a failure ends the run."""
    hook = session.config.hook
    running = {worker.reports: worker for worker in workers}
    while running:
        for connection in multiprocessing.connection.wait(running):
            assert isinstance(connection, Connection)
            worker = running[connection]
            try:
                kind, value = connection.recv()
            except EOFError:
                kind, value = "died", None
            if kind == "file":
                worker.unfinished += [test.nodeid for test in files[value]]
            elif kind == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=value)
                hook.pytest_runtest_logreport(report=report)
            elif kind == "finished":
                worker.unfinished.remove(value)
            else:
                del running[connection]
                for nodeid in worker.unfinished if kind == "died" else ():
                    hook.pytest_runtest_logreport(report=_died(nodeid))
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


def _died(nodeid: str) -> pytest.TestReport:
    message = "its process died, in this test or in one before it of the same file"
    return pytest.TestReport(nodeid, (nodeid, None, ""), {}, "failed", message, "call")
