"""Let each read of the disk fail, once or for a while: nothing is dropped or destroyed, and the device goes on.

A read that fails says nothing of the bytes that it did not get. Whatever a call makes of the error, everything that
the same call without an error keeps must be there afterwards, under the same keys.
"""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cause.device.device import Cause
from cause.errors import CauseError
from tests.device.homes import samples
from tests.recording_disk import RecordingDisk
from tests.torture.attack import keys_of
from tests.torture.kills import Torture, forked
from tests.torture.life import Report, open_device, perform, report_changes
from tests.torture.recorded_home import on
from tests.torture.recovery import Story, aftermath

X = samples("x", 1, 4)[0]


@dataclass(frozen=True)
class Survivors:
    """Of a call without errors: how many reads there are, and which keys outlast it."""

    reads: int
    keys: frozenset[bytes]


def failing_reads(
    tortured: Torture, call: int, *, error: int, for_good: bool, every: int = 1, first: int = 0
) -> tuple[int, list[str]]:
    """Fail each read of an opening, a prediction and one call: how many failures, and what was wrong after them."""
    assert tortured.reference, "made before the process is copied"

    def work(report: Report) -> None:
        survivors = _without_errors(tortured, call)
        for number in range(first % every, survivors.reads, every):
            for problem in _fail(tortured, call, number, survivors, error, for_good):
                report({"problem": f"read {number} of {survivors.reads}: {problem}"})
            report({"failure": number})

    lines, _ = forked(work)
    failures = [line["failed"] for line in lines if "failed" in line]
    assert not failures, failures[0]
    return sum("failure" in line for line in lines), [line["problem"] for line in lines if "problem" in line]


def _stage(tortured: Torture, call: int) -> tuple[Path, RecordingDisk]:
    root = tortured.scratch / "reads"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copytree(tortured.scratch / f"before-{call}", root / "home")
    return root / "home", RecordingDisk(root)


def _without_errors(tortured: Torture, call: int) -> Survivors:
    folder, disk = _stage(tortured, call)
    before = frozenset(keys_of(folder))
    report_changes(lambda line: None)
    with on(disk):
        device = open_device(folder, tortured.case)
        _work(device, tortured, call)
        device.close()
        reads = disk.reads
        open_device(folder, tortured.case).close()
    return Survivors(reads, before & frozenset(keys_of(folder)))


def _work(device: Cause, tortured: Torture, call: int) -> None:
    with suppress(CauseError):  # nobody may be able to vote
        device.predict(X)
    perform(device, tortured.case.calls[call])
    with suppress(CauseError):
        device.predict(X)


def _fail(
    tortured: Torture, call: int, number: int, survivors: Survivors, error: int, for_good: bool
) -> list[str]:  # fmt: skip
    case, problems = tortured.case, []
    folder, disk = _stage(tortured, call)
    story = Story(call - 1, call - 1, provenance=dict(tortured.reference["provenance"]))
    report_changes(lambda line: story.hear([line]))
    disk.fail_read_at, disk.read_error, disk.reads_for_good = number, error, for_good
    with on(disk):
        device = None
        try:
            device = open_device(folder, case)
            story.hear([{"begun": call}])
            _work(device, tortured, call)
            story.hear([{"done": call}])
        except CauseError as failure:
            problems += ["a message of several lines"] if "\n" in str(failure) else []
        except Exception as failure:
            problems.append(f"{type(failure).__name__}: {failure} instead of an error of our own")
        disk.fail_read_at = None
        if device is not None:
            try:
                if story.done == story.begun:
                    _go_on(device)
                device.close()
            except CauseError as failure:
                if "again" not in str(failure):
                    problems.append(f"it does not go on, and does not say why: {failure}")
    where = f" (reading {Path(disk.last_read).name})" if disk.last_read else ""
    try:
        open_device(folder, case).close()  # what no table names any more goes now
        lost = survivors.keys - frozenset(keys_of(folder))
        if lost:
            problems.append(f"{len(lost)} keys of {len(survivors.keys)} that should stay were destroyed{where}")
        problems += aftermath(folder, case, story, tortured.reference, lambda line: None)
    except Exception as failure:
        problems.append(f"after opening it again: {type(failure).__name__}: {failure}")
    return problems


def _go_on(device: Cause) -> None:
    """The disk reads again: so does the device, without being opened again."""
    device.repair()
    if device.heads():
        device.predict(X)
