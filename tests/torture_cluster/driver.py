"""The harness's end of the device under torture: sends commands, waits for answers, kills and starts it again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.device.homes import MASTER
from tests.waiting import wait_until

START_S = 120.0


class DeviceDied(Exception):
    """The device's process has ended before it answered."""


class Call:
    """A command that was sent, and the answer to it.

    Parameters
    ----------
    command
        The command.
    """

    def __init__(self, command: dict[str, Any]) -> None:
        self.command = command
        self.answer: dict[str, Any] | None = None
        self.began_at, self.done_at = time.monotonic(), 0.0
        self.event = threading.Event()

    @property
    def seconds(self) -> float:
        """How long the command took."""
        return self.done_at - self.began_at

    def wait(self, seconds: float) -> dict[str, Any]:
        """Return the answer; `DeviceDied` if there will be none, `TimeoutError` if it takes longer than that."""
        if not self.event.wait(seconds):
            raise TimeoutError(f"{self.command['do']} has not returned after {seconds:.0f} s")
        if self.answer is None:
            raise DeviceDied
        return self.answer


class Driver:
    """A device in a process.

    Parameters
    ----------
    home, address, lease, learner, other_environments
        The arguments of `tests.torture_cluster.device`.
    variables
        The variables of Ray.
    log
        The file for what it writes to the standard error.
    """

    def __init__(
        self,
        home: Path,
        address: str,
        lease: float,
        learner: str,
        other_environments: str,
        variables: dict[str, str],
        log: Path,
    ) -> None:
        self._log = log
        self.accepted: set[str] = set()
        self._number = 0
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        opening = self._calls[0] = Call({"do": "open"})
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.torture_cluster.device",
                    str(home),
                    address,
                    str(lease),
                    learner,
                    other_environments,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **variables, "CAUSE_TEST_KEY": MASTER},
            )
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.state = opening.wait(START_S)
        except BaseException:
            self.kill()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off by a kill, or written by a library
            self.accepted.update(line.get("accepted", ()))
            with self._lock:
                call = self._calls.pop(line.get("id", -1), None)
            if call is not None:
                call.done_at, call.answer = time.monotonic(), line
                call.event.set()
        with self._lock:
            left, self._calls = list(self._calls.values()), {}
        for call in left:
            call.event.set()

    def send(self, **command: Any) -> Call:
        """Send a command and return at once."""
        with self._lock:
            self._number += 1
            call = Call({**command, "id": self._number})
            self._calls[self._number] = call
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(call.command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            call.event.set()
        return call

    def kill(self) -> None:
        """Kill the process with SIGKILL and read what it wrote until then."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self._collect()

    def close(self, seconds: float) -> bool:
        """Let the device close its home and end; return whether it did."""
        self.send(do="close")
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._collect()
        return self.process.returncode == 0

    def show_stacks(self) -> None:
        """Let the process write the stacks of its threads to its log; one that does not answer is left alone."""
        before = self._log.stat().st_size
        with contextlib.suppress(ProcessLookupError, AssertionError):
            self.process.send_signal(signal.SIGUSR1)
            wait_until(lambda: self._log.stat().st_size > before, 5)

    def _collect(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
