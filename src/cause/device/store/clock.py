"""The wall clock of a home, and a check that it is right before samples are destroyed because of their age.

The home keeps the last time that it trusted, together with the boot and the clock that counts the seconds since that
boot. Within one boot the wall clock may not run ahead of that counter; across boots it may have gained a few days at
most. A clock that did is not believed: the home then uses the last time that it believed plus the seconds counted
since then, and destroys nothing by age until the clock is right again or is accepted.
"""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from cause.common.timestamps import time_text
from cause.device.store.database import Database

TOLERANCE_S = 3_600.0
"""How far the wall clock may be off within one boot."""
ACROSS_BOOTS_S = 7 * 86_400.0
"""How far ahead it may be where no counter tells how much time has passed: after a restart of the machine."""
NAME = "clock"
"""Where the table `meta` keeps it."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESS = f"process {uuid4()}"


def boot_id() -> str:
    """Return the id of this boot of the machine; without one, an id of this process."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return _PROCESS


def since_boot() -> float:
    """Return seconds of a clock that cannot be set; if the system can, the time of sleep counts."""
    source = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if source is None else time.clock_gettime(source)


@dataclass(frozen=True)
class ClockReading:
    """A moment at which a transaction was committed, by both clocks."""

    time: float
    """The trusted time."""
    boot: str
    counter: float
    """Seconds since that boot."""
    ahead: float
    """How far the wall clock may be ahead of this, within the same boot."""
    believed: float
    """The last time that was read from the wall clock and believed: whatever is dated later is an estimate."""


class Clock:
    """The clock of a home.

    Parameters
    ----------
    database
        Where the last moment is kept.
    wall
        Seconds since 1970.
    counter
        Seconds since this boot, which no user can set.
    boot
        The id of this boot.
    """

    def __init__(
        self,
        database: Database,
        wall: Callable[[], float] = time.time,
        *,
        counter: Callable[[], float] = since_boot,
        boot: Callable[[], str] = boot_id,
    ) -> None:
        self._database = database
        self.wall, self.counter, self.boot = wall, counter, boot

    def now(self) -> float:
        """Return the wall clock's time if it is trusted, else the last trusted time plus the seconds counted since."""
        wall, estimate, _ = self._compared()
        return wall if estimate is None else estimate

    def doubt(self) -> str | None:
        """Return why the wall clock is not trusted, and the way out, in one line; None if it is trusted."""
        wall, estimate, _ = self._compared()
        if estimate is None:
            return None
        return (
            f"the clock says {_text(wall)}, but by the last time seen it should be about {_text(estimate)}: nothing is "
            "destroyed by its age until the clock is set right, or accepted with `cause expire HOME --trust-clock`"
        )

    def note(self) -> None:
        """Store this moment; call it in a transaction that dates samples."""
        wall, estimate, last = self._compared()
        boot, counter = self.boot(), self.counter()
        if estimate is None or last is None:
            self._keep(ClockReading(wall, boot, counter, TOLERANCE_S, wall))
        else:
            ahead = last.ahead if last.boot == boot else ACROSS_BOOTS_S
            self._keep(ClockReading(estimate, boot, counter, ahead, last.believed))

    def tick(self) -> None:
        """Store this moment in its own transaction, if the stored one is of another boot or over an hour old."""
        last = self._last()
        if last is not None and (last.boot != self.boot() or abs(self.counter() - last.counter) > TOLERANCE_S):
            with self._database.transaction():
                self.note()

    def trust(self, deadline_s: float) -> float:
        """Accept what the wall clock says.

        Samples that arrived while it was not believed were dated by an estimate: they keep their age. Nothing is dated
        in the future, and no request is due later than it would be if it came now.

        Returns
        -------
        float
            By how many seconds the home's time changed; 0 if the clock was believed anyway.
        """
        with self._database.transaction():
            wall, estimate, last = self._compared()
            change = 0.0 if estimate is None else wall - estimate
            for table, column in (("uploads", "arrived"), ("uploads", "received"), ("staged", "arrived")):
                if estimate is not None and last is not None:
                    self._database.run(
                        f"UPDATE {table} SET {column}={column}+? WHERE {column}>?", [change, last.believed]
                    )
                self._database.run(f"UPDATE {table} SET {column}=? WHERE {column}>?", [wall, wall])
            latest = wall + deadline_s
            self._database.run("UPDATE requests SET deadline=? WHERE repaired IS NULL AND deadline>?", [latest, latest])
            self._keep(ClockReading(wall, self.boot(), self.counter(), TOLERANCE_S, wall))
        return change

    def _compared(self) -> tuple[float, float | None, ClockReading | None]:
        """Return the wall clock, what to go by instead if it is not believed, and the last moment."""
        wall, last = self.wall(), self._last()
        if last is None:
            return wall, None, None
        counter = self.counter()
        same = last.boot == self.boot() and counter >= last.counter
        passed = counter - last.counter if same else 0.0
        ahead = last.ahead if same else ACROSS_BOOTS_S
        off = wall - (last.time + passed)
        if -TOLERANCE_S <= off <= ahead:
            return wall, None, last
        return wall, max(last.time + passed, last.believed + 0.001), last

    def _last(self) -> ClockReading | None:
        stored = self._database.get(NAME)
        return None if stored is None else ClockReading(**json.loads(stored))

    def _keep(self, seen: ClockReading) -> None:
        self._database.set(NAME, json.dumps(asdict(seen)))


def _text(seconds: float) -> str:
    try:
        return time_text(seconds)
    except (ValueError, OverflowError, OSError):  # a clock may say anything
        return f"{seconds:.0f} s after 1970"
