"""The device's end of the process that has joined a Ray cluster (see `ray_process`)."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any

from cause.errors import CauseError, InputError, PassingError
from cause.executors.cluster.connection import require_protection

ANSWER_S = 90.0
"""How long a question may take that Ray answers at once. Without the cluster's head it ends after 60 s."""
END_S = 10.0
"""How long the process may take to leave the cluster."""


class RayError(Exception):
    """An error of Ray, in one line."""


class RayProcess:
    """One process that has joined the cluster, or tries to.

    Raises
    ------
    InputError
        If the cluster cannot be joined, or is not protected.
    """

    def __init__(self, address: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cause.executors.cluster.ray_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the device, which lets it end
            )  # fmt: skip
        self._socket = ours
        self._lock = threading.Lock()
        self._numbers = count()
        self._answers: dict[int, Future[Any]] = {}
        self.has_ended = False
        threading.Thread(target=self._listen, daemon=True, name="cause-ray").start()
        try:
            self.host = str(self.call("join", None, address=address, program=sys.argv[0]))
            nodes = [node["NodeManagerAddress"] for node in self.call("nodes")]
            require_protection(address, nodes, anew=True)
        except BaseException:
            self.close()
            raise

    def call(self, name: str, longest: float | None = ANSWER_S, **arguments: Any) -> Any:
        """Call a function of `ray_process`, wait for `longest` seconds at most, and return what it returns.

        Raises
        ------
        InputError
            If the cluster cannot be joined.
        TimeoutError
            If Ray took too long.
        RayError
            If Ray refuses.
        ConnectionError
            If the process has ended.
        """
        answer = Future[Any]()
        with self._lock:
            if self.has_ended:
                raise ConnectionError("the connection to the Ray cluster was lost")
            number = next(self._numbers)
            self._answers[number] = answer
            line = json.dumps({"number": number, "name": name, "arguments": arguments})
            with contextlib.suppress(OSError):  # it has ended, and `_listen` will notice
                self._socket.sendall(line.encode() + b"\n")
        return answer.result(longest)

    def _listen(self) -> None:
        """Hand answers to those who wait for them, until the process ends."""
        errors = {"input": InputError, "timeout": TimeoutError, "ray": RayError}
        with contextlib.suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            for line in lines:
                reply = json.loads(line)
                with self._lock:
                    answer = self._answers.pop(reply["number"])
                if "error" in reply:
                    answer.set_exception(errors[reply["error"]](reply["text"]))
                else:
                    answer.set_result(reply["value"])
        with self._lock:
            self.has_ended, left = True, list(self._answers.values())
            self._answers.clear()
        for answer in left:
            answer.set_exception(ConnectionError("the connection to the Ray cluster was lost"))

    def close(self) -> None:
        """Let the process leave the cluster and end; its actors end with it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._socket.close()


class RayClient:
    """A connection to a Ray cluster that is made anew when it was lost.

    Parameters
    ----------
    address
        The address of the cluster.

    Raises
    ------
    InputError
        If the cluster cannot be joined, or is not protected.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._process: RayProcess | None = None
        self._numbers = count()
        self.host = self.process().host
        """The address of this machine in the cluster."""

    def process(self) -> RayProcess:
        """Return the process that has joined the cluster; a new one if the last one has ended.

        Raises
        ------
        InputError
            If the cluster cannot be joined, or is not protected.
        """
        with self._lock:
            if self._process is None or self._process.has_ended:
                self._end()
                self._process = RayProcess(self.address)
            return self._process

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that are alive: `NodeID`, `NodeManagerAddress` and `Resources` of each.

        Raises
        ------
        PassingError
            If the cluster was lost, and cannot be joined again.
        """
        for last in (False, True):
            try:
                return list(self.process().call("nodes"))
            except ConnectionError as error:  # the process ended meanwhile: the next one may find another node
                if last:
                    raise self._lost(error) from None
            except (CauseError, RayError, TimeoutError) as error:
                raise self._lost(error) from None
        raise AssertionError  # pragma: no cover

    def next_number(self) -> int:
        """Return a number for an actor."""
        return next(self._numbers)

    def close(self) -> None:
        """Leave the cluster; the next call joins it again."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _lost(self, error: Exception) -> PassingError:
        why = str(error) or "it does not answer"
        return PassingError(f"the Ray cluster {self.address!r} was lost: {why}")
