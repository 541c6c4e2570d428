"""Cut the power at any write of a device's life: of what was not yet durable some is there, some not, some torn."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.recording_disk import RecordingDisk, State, crash_states
from tests.torture.calls import Case, Reopen
from tests.torture.kills import Sabotage, Torture, forked
from tests.torture.life import Report, open_device, perform, report_changes, seeded
from tests.torture.recorded_home import on
from tests.torture.recovery import Story, aftermath, promised


@dataclass(frozen=True)
class Losses:
    """What power losses led to."""

    writes: int
    states: int
    problems: tuple[str, ...]


def power_losses(
    tortured: Torture, *, most: int, each: int = 6, seed: int = 0, sabotage: Sabotage | None = None
) -> Losses:
    """A case's whole life on a recording disk, and up to `most` of the states that a power loss could leave.

    For each prefix of the writes up to `each` states are drawn, and of all of them `most`. Under sabotage the first
    state that has a problem is the last.
    """
    case, scratch, reference = tortured.case, tortured.scratch, tortured.reference

    def work(report: Report) -> None:
        story = Story(provenance=dict(reference["provenance"]))
        root = scratch / "power"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        open_device(root / "home", case).close()
        disk = RecordingDisk(root)
        moments = [(0, replace(story, provenance={}))]

        def note() -> None:
            moments.append((len(disk.operations), replace(story, provenance={})))

        def listener(line: dict[str, Any]) -> None:
            story.hear([line])
            if "accepted" in line:
                note()

        report_changes(listener)
        with on(disk):
            _record(root / "home", case, story, note)
        chosen = _chosen(disk, most, each, seed)
        for number, (done, state) in enumerate(chosen):
            heard = [one for when, one in moments if when <= done][-1]
            heard = replace(heard, provenance=dict(story.provenance))
            folder = scratch / "state"
            state.write_to(folder)
            backups = sorted(scratch.glob("before-*"))
            problems = promised(folder / "home", case, heard, backups)
            try:
                quiet, thorough = (lambda line: None), number % 20 == 0
                problems += aftermath(folder / "home", case, heard, reference, quiet, backups, thorough=thorough)
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
            report(
                {"state": done, "problems": [f"after {done} writes, in call {heard.begun}: {one}" for one in problems]}
            )
            shutil.rmtree(folder)
            if problems and sabotage:
                break  # it is caught
        report({"writes": len(disk.operations)})

    lines, _ = forked(work, sabotage)
    failures = [line["failed"] for line in lines if "failed" in line]
    assert not failures, failures[0]
    problems = tuple(problem for line in lines for problem in line.get("problems", ()))
    writes = sum(line.get("writes", 0) for line in lines)
    return Losses(writes, sum("state" in line for line in lines), problems)


def _record(folder: Path, case: Case, story: Story, note: Callable[[], None]) -> None:
    device = open_device(folder, case)
    for number, call in enumerate(case.calls):
        story.begun, story.accepted = number, False
        note()
        if isinstance(call, Reopen):
            device.close()
            device = open_device(folder, case)
        else:
            perform(device, call)
        story.done = number
        note()
    device.close()


def _chosen(disk: RecordingDisk, most: int, each: int, seed: int) -> list[tuple[int, State]]:
    """All states are made one after the other; a drawn part of them is kept."""
    draw, kept = seeded("power", seed), []
    for number, crash_state in enumerate(crash_states(disk, most=each)):
        if len(kept) < most:
            kept.append(crash_state)
        elif (place := draw.randint(0, number)) < most:
            kept[place] = crash_state
    return sorted(kept, key=lambda pair: pair[0])
