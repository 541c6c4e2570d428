"""Let each change of the disk fail, once or for good: the device says so, and goes on once the disk works again.

Once more in another process on a good disk, and then the power goes: what a failed sync dropped is lost by then.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cause.device.device import Cause
from cause.errors import CauseError
from tests.recording_disk import Operation, RecordingDisk, State, Sync, SyncFolder, cut_states
from tests.small_learners import Sample
from tests.torture import checks
from tests.torture.calls import Book, Case
from tests.torture.kills import Torture, forked
from tests.torture.life import Report, open_device, perform, report_changes, seeded
from tests.torture.recorded_home import on
from tests.torture.recovery import Story, aftermath, promised
from tests.torture.reopening import reachable, reopened_and_cut


def failing_writes(
    tortured: Torture,
    call: int,
    *,
    error: int,
    for_good: bool,
    same_file: bool = False,
    every: int = 1,
    syncs: bool = False,
    cuts: int = 1,
) -> tuple[int, list[str]]:
    """Fail each change that one call makes: how many failures there were, and what was wrong after any of them.

    With `syncs` only syncs are let fail. With `same_file` what fails for good are the changes of the same kind to the
    same file: its syncs, or its writes.
    After each failure the home is opened again and the power goes, `cuts` times.
    """

    def work(report: Report) -> None:
        changes = _changes(tortured, call)
        kinds = (Sync, SyncFolder) if syncs else (object,)
        chosen = [number for number, change in enumerate(changes) if isinstance(change, kinds)]
        for number in chosen[::every]:
            for problem in _fail(tortured, call, number, (error, for_good, same_file), cuts):
                report({"problem": f"write {number} of {len(changes)}: {problem}"})
            report({"failure": number})

    assert tortured.reference, "made before the process is copied"
    lines, _ = forked(work)
    failures = [line["failed"] for line in lines if "failed" in line]
    assert not failures, failures[0]
    return sum("failure" in line for line in lines), [line["problem"] for line in lines if "problem" in line]


def _stage(tortured: Torture, call: int, **failure: Any) -> tuple[Path, RecordingDisk]:
    root = tortured.scratch / "failing"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copytree(tortured.scratch / f"before-{call}", root / "home")
    return root / "home", RecordingDisk(root, **failure)


def _changes(tortured: Torture, call: int) -> list[Operation]:
    """What one call does to the disk."""
    folder, disk = _stage(tortured, call)
    report_changes(lambda line: None)
    with on(disk):
        device = open_device(folder, tortured.case)
        before = len(disk.operations)
        perform(device, tortured.case.calls[call])
        changes = disk.operations[before:]
        device.close()
    return changes


def _fail(tortured: Torture, call: int, number: int, how: tuple[int, bool, bool], cuts: int) -> list[str]:
    case = tortured.case
    folder, disk = _stage(tortured, call)
    story = Story(call - 1, call - 1, provenance=dict(tortured.reference["provenance"]))
    report_changes(lambda line: story.hear([line]))
    problems = []
    with on(disk):
        device = open_device(folder, case)
        disk.error, disk.for_good, disk.same_file = how
        disk.fail_at = len(disk.operations) + number
        story.hear([{"begun": call}])
        try:
            perform(device, case.calls[call])
            story.hear([{"done": call}])
        except CauseError as failure:
            problems += ["a message of several lines"] if "\n" in str(failure) else []
        except Exception as failure:
            problems.append(f"{type(failure).__name__}: {failure} instead of an error of our own")
        problems += _meanwhile(device, case, story)
        then = replace(story, provenance=dict(story.provenance))
        crashed = tortured.scratch / "crashed"  # had the process ended here
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(folder, crashed)
        done = len(disk.operations)
        disk.fail_at = None
        backups = [*sorted(tortured.scratch.glob("before-*")), crashed]
        forgotten = checks.held(device) | Book.after(case.calls[: story.begun + 1]).forgotten
        problems += _goes_on(device, case, story, folder, forgotten, backups)
        gone_on = len(disk.operations)
        try:
            device.close()
        except CauseError:
            problems.append("it cannot be closed")
    ((_, state),) = cut_states(disk, [gone_on], seeded("gone on", call, number, how))
    problems += problems or _cut_then(tortured, state, story, forgotten, backups)
    problems += promised(crashed, case, then, backups)
    for cut in range(cuts):
        draw = seeded("failing", call, number, how, cut)
        more = reopened_and_cut(tortured, disk, done, replace(then, provenance=dict(then.provenance)), draw)
        problems += [f"opened again and cut: {problem}" for problem in more]
    try:
        problems += aftermath(crashed, case, then, tortured.reference, lambda line: None, backups)
    except Exception as failure:
        problems.append(f"after opening it again: {type(failure).__name__}: {failure}")
    return problems


def _meanwhile(device: Cause, case: Case, story: Story) -> list[str]:
    """The device object after a failure: what it holds in memory is what was there before the call, or after it."""
    before, after = Book.after(case.calls[: story.begun]), Book.after(case.calls[: story.begun + 1])
    held = checks.held(device)
    if story.done == story.begun and held != after.retained:
        return ["the call returned, but the device holds something else"]
    return (
        []
        if held in (before.retained, after.retained)
        else ["the device holds neither what it held nor what it should"]
    )


def _goes_on(
    device: Cause, case: Case, story: Story, folder: Path, forgotten: set[Sample], backups: Sequence[Path]
) -> list[str]:
    """The disk works again: the device forgets everything, for good, without being opened again."""
    try:
        device.repair()  # which serves what was accepted, too
        for user in sorted({user for user, _, _ in checks.held(device)}):
            device.forget(user, repair="later")
        if device.heads():
            return ["everything was forgotten, and somebody votes"]
    except Exception as failure:
        return [f"it does not go on: {type(failure).__name__}: {failure}"]
    problems = checks.nothing_comes_back(folder, case, forgotten, story.provenance, backups=backups)
    return [f"having gone on and forgotten: {problem}" for problem in problems]


def _cut_then(
    tortured: Torture, state: State, story: Story, forgotten: set[Sample], backups: Sequence[Path]
) -> list[str]:
    """Everything was forgotten on a good disk, and the power went: nothing comes back."""
    folder, case = tortured.scratch / "cut", tortured.case
    shutil.rmtree(folder, ignore_errors=True)
    reachable(state).write_to(folder)
    problems = checks.nothing_comes_back(folder / "home", case, forgotten, story.provenance, backups=backups)
    try:
        with open_device(folder / "home", case) as device:
            problems += [f"it holds {sorted(held)}"] if (held := checks.held(device)) else []
    except CauseError as failure:
        problems.append(f"it cannot be opened: {failure}")
    return [f"having gone on and forgotten, after a cut: {problem}" for problem in problems]
