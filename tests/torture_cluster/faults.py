"""Faults at random moments: killed and stopped workers, killed and emptied nodes, links that are cut."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.torture_cluster.network import Link
from tests.torture_cluster.nodes import Cluster
from tests.waiting import wait_until

LOOK_S = 2.0
"""How often nodes that have ended are looked for."""
WEIGHTS = {
    "kill a worker": 24,
    "stop a worker": 20,
    "stop a worker and continue it": 8,
    "cut a link for less than a lease": 12,
    "cut a link for longer than a lease": 10,
    "cut all links": 1,
    "cut a link until the node is dead": 0.3,
    "kill a node": 0.7,
    "remove a node's session folder": 0.5,
    "kill the device": 1.5,
}


class Faults:
    """Injects faults from a thread of its own while it is on.

    Parameters
    ----------
    cluster
        The cluster to disturb.
    draw
        The source of random choices.
    lease
        The seconds of a lease.
    kill_device
        Kills the device.
    log
        Called with each fault.
    """

    def __init__(
        self,
        cluster: Cluster,
        draw: random.Random,
        lease: float,
        kill_device: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self._cluster, self._draw, self._lease, self._kill_device = cluster, draw, lease, kill_device
        self._log = log
        self.counts: Counter[str] = Counter()
        self._cut_until: dict[Link, float] = {}
        self._continue_at: dict[int, float] = {}
        self._kill_at: dict[int, float] = {}
        self._on, self._ended = threading.Event(), threading.Event()
        self._next = self._look_at = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def on(self) -> None:
        """Begin to inject faults."""
        self._on.set()

    def off(self) -> None:
        """Inject no further faults. Links that are cut stay so until their time is over."""
        self._on.clear()

    def close(self) -> None:
        """End for good, with all links whole and all nodes up."""
        self._ended.set()
        self._thread.join()
        for pid in self._kill_at:
            if pid in self._cluster.raylets().values():
                _signal(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: pid not in self._cluster.raylets().values(), 20)  # type: ignore[misc]
        self._kill_at.clear()
        for link in self._cluster.network.links:
            self._cluster.network.mend(link)
        self._cut_until.clear()
        self.revive()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._mend()
            if self._on.is_set() and time.monotonic() >= self._next:
                self._inject()
                self._next = time.monotonic() + self._draw.uniform(0.2, 1.6)

    def _mend(self) -> None:
        now = time.monotonic()
        for link in [link for link, end in self._cut_until.items() if end <= now]:
            self._cluster.network.mend(link)
            del self._cut_until[link]
        for pid in [pid for pid, end in self._continue_at.items() if end <= now]:
            del self._continue_at[pid]
            if pid in self._cluster.workers():  # the number may belong to another process by now
                _signal(pid, signal.SIGCONT)
        for pid in [pid for pid, end in self._kill_at.items() if end <= now]:
            del self._kill_at[pid]
            if pid in self._cluster.raylets().values():
                _signal(pid, signal.SIGKILL)
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self.revive()

    def revive(self) -> None:
        """Start nodes that have ended, unless they are cut off."""
        raylets = self._cluster.raylets()
        for link in self._cluster.network.links:
            if link not in self._cut_until and link not in raylets:
                self.counts["node started again"] += 1
                self._log(f"start node {link.address} again")
                with contextlib.suppress(OSError):  # Ray may still see the old node; it is tried again
                    self._cluster.start(link)

    def _inject(self) -> None:
        (what,) = self._draw.choices(list(WEIGHTS), list(WEIGHTS.values()))
        whole = [link for link in self._cluster.network.links if link not in self._cut_until]
        if "worker" in what:
            workers = self._cluster.workers()
            if not workers:
                return
            pid = self._draw.choice(workers)
            _signal(pid, signal.SIGKILL if what.startswith("kill") else signal.SIGSTOP)
            if "continue" in what:
                self._continue_at[pid] = time.monotonic() + self._draw.uniform(0.05, 2 * self._lease)
        elif what == "cut all links":
            self._cut(whole, self._draw.uniform(0.2, 2.0) * self._lease)
        elif what.startswith("cut"):
            if len(whole) < 2:
                return
            seconds = self._draw.uniform(0.1, 0.9) * self._lease
            if "longer" in what:
                seconds = self._draw.uniform(1.2, 5.0) * self._lease
            elif "dead" in what:
                seconds = 25.0
            self._cut([self._draw.choice(whole)], seconds)
        elif "node" in what:
            raylets = [(link, pid) for link, pid in self._cluster.raylets().items() if link in whole]
            if len(raylets) < 2:
                return
            link, pid = self._draw.choice(raylets)
            if what == "kill a node":
                _signal(pid, signal.SIGKILL)
            else:  # no worker can start there any more: after a while somebody starts the node again
                self._cluster.remove_session(link)
                self._kill_at[pid] = time.monotonic() + self._draw.uniform(1.0, 5.0)
        else:
            self._kill_device()
        self.counts[what] += 1
        self._log(what)

    def _cut(self, links: list[Link], seconds: float) -> None:
        for link in links:
            self._log(f"cut {link.address} for {seconds:.1f} s")
            self._cut_until[link] = time.monotonic() + seconds
            self._cluster.network.cut(link)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
