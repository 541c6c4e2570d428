"""A process whose memory is read by a test, and what of the forgotten is left in it."""

import subprocess
import sys
import time

from tests.process_memory import Needles, search

WITHIN_S = 5.0


class Probe:
    """A program that says in a line what it has done, and waits for a line before it goes on.

    Parameters
    ----------
    module, arguments
        What is run, as `python -m MODULE ARGUMENTS`.
    """

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, step: str) -> None:
        """Wait until it has done this step."""
        assert self.process.stdout.readline().strip() == step

    def go_on(self) -> None:
        """Let it begin the next step."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def left_after(pid: int, needles: list[Needles]) -> dict[str, list[str]]:
    """Return what is still in memory when the time is over; nothing as soon as there is nothing."""
    end = time.monotonic() + WITHIN_S
    while True:
        hits = search(pid, needles)
        if not hits or time.monotonic() > end:
            return hits


def report(hits: dict[str, list[str]]) -> str:
    """Say what is left and where, for a failed test."""
    places = [f"{name}: {place}" for name, where in hits.items() for place in where]
    return "\n".join([f"{len(hits)} are still in memory, at {len(places)} places", *places[:20]])
