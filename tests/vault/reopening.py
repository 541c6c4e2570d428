"""Open a second time what a killed process left: its writes that were not synced are still pending.

`RecordingDisk` takes everything at its start as durable. After a kill that is false: the next process sees all that was
written (it is in the page cache), and a power loss can still take away what was never synced.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from tests.recording_disk import RecordingDisk, _settle


def killed(disk: RecordingDisk, done: int, root: Path) -> tuple[RecordingDisk, int]:
    """The disk as the next process finds it, in the folder `root`, when a process was killed after `done` operations.

    Returns the disk and how many of its operations are pending writes of the killed process: `crash_states` with
    `first` set to that number gives the power losses from the second opening on.
    """
    durable, waiting, seen = disk.initial.copy(), [], disk.initial.copy()
    for operation in disk.operations[:done]:
        seen.apply(operation)
        durable, waiting = _settle(durable, [*waiting, operation])
    seen.write_to(root)
    again = RecordingDisk(root)
    again.initial, again.operations, again.now = durable, list(waiting), seen
    again._next_inode = disk._next_inode
    return again, len(waiting)


def kills(disk: RecordingDisk, places: Iterator[Path], first: int = 0, every: int = 1) -> Iterator[tuple]:
    """A kill after each (or each n-th) operation: how much was done, the disk as the next process sees it, pending."""
    for done in itertools.islice(range(first, len(disk.operations) + 1), 0, None, every):
        yield done, *killed(disk, done, next(places))
