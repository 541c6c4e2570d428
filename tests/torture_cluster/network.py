"""A small network of this machine's own: network namespaces on a bridge, whose links can be cut and slowed down.

Every node of the cluster has a network namespace, with an address that this module makes up. The device runs outside
of them and reaches them through the bridge, as it would reach other machines. No other address is touched.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

NETWORK = "10.213.{number}"
"""The first three numbers of the addresses."""


def why_not() -> str | None:
    """Return why no network can be made here; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need the rights of root"
    if shutil.which("ip") is None:
        return "the command `ip` is missing (Debian: iproute2)"
    probe = f"cause-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    link = f"cz{os.getpid()}p"
    made = subprocess.run(["ip", "link", "add", link, "type", "bridge"], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"a bridge cannot be made: {made.stderr.strip()}"
    _ip("link", "del", link)
    return None


@dataclass(frozen=True)
class Link:
    """A namespace and its connection to the bridge."""

    namespace: str
    outside: str
    """The end of the connection at the bridge."""
    address: str


class Network:
    """Namespaces on a bridge.

    Parameters
    ----------
    namespaces
        How many.
    number
        A number from 0 to 255 that no other network of this machine uses.
    """

    def __init__(self, namespaces: int, number: int) -> None:
        self._bridge = f"cz{number}"
        self.address = f"{NETWORK.format(number=number)}.1"
        self.links = [
            Link(f"cause-{number}-{n}", f"cz{number}v{n}", f"{NETWORK.format(number=number)}.{n + 1}")
            for n in range(1, namespaces + 1)
        ]

    def __enter__(self) -> "Network":
        self._remove()  # of a run that was killed
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for link in self.links:
            _ip("netns", "add", link.namespace)
            _ip("link", "add", link.outside, "type", "veth", "peer", "name", "eth0", "netns", link.namespace)
            _ip("link", "set", link.outside, "master", self._bridge)
            self.mend(link)
            for command in (
                ("addr", "add", f"{link.address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", link.namespace, *command)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        for link in self.links:
            _ip("netns", "del", link.namespace, check=False)
            _ip("link", "del", link.outside, check=False)
        _ip("link", "del", self._bridge, check=False)

    def cut(self, link: Link) -> None:
        """Let no packet pass between a namespace and the others. Connections stay open on both sides."""
        _ip("link", "set", link.outside, "down")

    def mend(self, link: Link) -> None:
        """Let packets pass again."""
        _ip("link", "set", link.outside, "up")

    def processes(self) -> list[int]:
        """Return the processes in the namespaces."""
        found: list[int] = []
        for link in self.links:
            found += map(int, _ip("netns", "pids", link.namespace).split())
        return found


def inside(link: Link | None, command: Sequence[str]) -> list[str]:
    """Return the command that runs a command in a namespace, or outside of all of them."""
    return list(command) if link is None else ["ip", "netns", "exec", link.namespace, *command]


def _ip(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
