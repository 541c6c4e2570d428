"""Notifications to systemd (sd_notify): ready, reloading, stopping, and the watchdog.

The protocol is a datagram to the socket that `NOTIFY_SOCKET` names: see sd_notify(3). Where the variable is not set,
nothing is sent.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """Sends notifications to systemd.

    Parameters
    ----------
    environment
        The environment variables: `NOTIFY_SOCKET`, and `WATCHDOG_USEC` and `WATCHDOG_PID` for the watchdog.

    Examples
    --------
    >>> Notifier({}).send("READY=1")
    False
    >>> Notifier({"WATCHDOG_USEC": "30000000"}).watchdog_s
    30.0
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        mine = not process.isdigit() or int(process) == os.getpid()
        self.watchdog_s = int(microseconds) / 1e6 if microseconds.isdigit() and mine else None
        """Within how many seconds systemd expects a sign of life; None without a watchdog."""

    def send(self, *lines: str) -> bool:
        """Send a notification; return whether it was sent. A service without systemd goes on."""
        if not self._address.startswith(("/", "@")):
            return False
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(lines).encode(), address)
            return True
        return False

    async def watch(self) -> None:
        """Send a sign of life twice in each period of the watchdog, for as long as the event loop runs."""
        while self.watchdog_s is not None:
            self.send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 2)
