"""Which shards were sent to workers on other machines, and whether such workers may still live.

Before samples leave this machine, the home records durably how long a worker may live without it. A process that ends
in order first waits until all its workers have ended, and removes the record. If it was killed, the next opening finds
the record: nobody renews the workers' leases any more, since the home's lock is free only once that process has ended.
So all of them have ended one lease after the opening, by the counter of this machine, whatever its wall clock says. An
erasure that touches one of these shards waits until then.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from cause.device.advice import doctor_advice
from cause.device.store.clock import since_boot
from cause.device.store.database import Database
from cause.errors import HomeError, InputError
from cause.executors.cluster.lease import longest_life

LEASES = "leases"
"""The row of `meta` with the shards that were sent, and those whose workers may live."""


class Leases:
    """Keeps track of workers on other machines.

    Parameters
    ----------
    database
        The ledger.
    read_only
        Whether another process may be writing the home: then nothing may be sent.
    counter
        Seconds since boot, which no user can set.
    sleep
        Waits for so many seconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        read_only: bool,
        counter: Callable[[], float] = since_boot,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._database, self._read_only, self._counter, self._sleep = database, read_only, counter, sleep
        self._opened = counter()  # the lock is held, so every earlier process has ended
        self._alive: dict[int, float] | None = None  # shards whose workers of an earlier process may live; read once
        self._own: dict[int, float] = {}  # shards that this process has sent

    def sending(self, shard: int, seconds: float) -> None:
        """Record durably that samples of a shard leave this machine, before they do.

        Parameters
        ----------
        shard
            The shard.
        seconds
            How long a worker may live without this process.

        Raises
        ------
        InputError
            If the home is only read: an erasure by the process that writes it could not reach the workers.
        HomeError
            If the record cannot be written.
        """
        if self._own.get(shard, 0.0) >= seconds:
            return
        if self._read_only:
            raise InputError("a home that is only read sends no samples to other machines: open it for writing")
        own = self._own | {shard: seconds}
        self._write(sent=_longest(self._sent(), own), alive=_longest(self._earlier(), own))
        self._own = own

    def wait(self, shards: Collection[int]) -> None:
        """Wait until the workers of earlier processes that may hold samples of these shards have ended."""
        if self._read_only:
            return
        left = [seconds for shard, seconds in self._earlier().items() if shard in shards]
        if left:
            self._sleep(max(0.0, self._opened + longest_life(max(left)) - self._counter()))

    def ended(self) -> None:
        """Record that all workers of this process have ended, and those of earlier ones if their time is over."""
        if self._read_only or not (self._own or self._earlier()):
            return
        passed = self._counter() - self._opened
        left = {shard: seconds for shard, seconds in self._earlier().items() if longest_life(seconds) > passed}
        self._write(sent=self._sent(), alive=left)
        self._own, self._alive = {}, left

    def longest(self) -> float | None:
        """Return the longest lease under which samples of this home were ever sent; None if none was sent."""
        return max(self._sent().values(), default=None)

    def was_sent(self, shard: int) -> bool:
        """Return whether samples or sub-models of a shard were ever sent to another machine."""
        return shard in self._sent()

    def _sent(self) -> dict[int, float]:
        return self._read("sent")

    def _earlier(self) -> dict[int, float]:
        if self._alive is None:
            self._alive = self._read("alive")
        return self._alive

    def _read(self, part: str) -> dict[int, float]:
        stored = self._database.get(LEASES)
        if stored is None:
            return {}
        try:
            return {int(shard): float(seconds) for shard, seconds in json.loads(stored)[part]}
        except (ValueError, TypeError, LookupError):
            folder = self._database.path.parent
            raise HomeError("the record of leases is damaged", doctor_advice(folder)) from None

    def _write(self, *, sent: dict[int, float], alive: dict[int, float]) -> None:
        with self._database.transaction():
            self._database.set(LEASES, json.dumps({"sent": sorted(sent.items()), "alive": sorted(alive.items())}))


def _longest(*parts: dict[int, float]) -> dict[int, float]:
    """Return the longest lease of each shard."""
    shards: Iterable[int] = {shard for part in parts for shard in part}
    return {shard: max(part.get(shard, 0.0) for part in parts) for shard in shards}


def is_record(value: Any) -> bool:
    """Return whether a row of `meta` is a record of leases; some others raise ValueError, TypeError or LookupError."""
    record = json.loads(value)
    return set(record) == {"sent", "alive"} and all(
        isinstance(shard, int) and shard >= 0 and 0 < float(seconds) < 1e6
        for part in record.values()
        for shard, seconds in part
    )
