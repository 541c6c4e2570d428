"""Open a second time what a killed process left: its writes that were not synced are still pending.

`RecordingDisk` takes everything at its start as durable. After a kill that is false: the next process sees all that was
written (it is in the page cache), and a power loss can still take away what was never synced.
"""

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


def failed_sync(disk: RecordingDisk, done: int, root: Path) -> RecordingDisk:
    """The disk as the next process finds it when the sync after `done` operations has failed.

    Linux then shows what was written as if it were on the disk, and never writes it again: whatever was not durable is
    seen by the next process, and no sync of its own saves it.
    """
    again, _ = killed(disk, done, root)
    again.operations = []
    return again
