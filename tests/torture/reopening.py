"""Kill a process or cut the power, open the home again, and cut the power: writes of both processes may be lost.

A chain of events on a recorded disk. At each event the process before it has ended, killed (the kernel still holds
all that it wrote) or with the power (of what was not durable some is there, some not, some torn); the next one opens
the home and perhaps does one call. In the end the power goes, and the home is opened on a good disk and looked at.
"""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cause.errors import CauseError
from tests.recording_disk import RecordingDisk, State, Sync, SyncFolder, cut_states
from tests.torture.calls import Case, Reopen
from tests.torture.kills import Torture, forked
from tests.torture.life import Report, open_device, perform, report_changes, seeded
from tests.torture.power_loss import Losses
from tests.torture.recorded_home import on
from tests.torture.recovery import Story, aftermath, promised, reached

EVENTS = ("kill", "kill", "cut")


@dataclass
class Life:
    """What was done to a disk, and what had been promised after how many operations."""

    disk: RecordingDisk
    story: Story
    first: int = 0  # operations of the processes before
    moments: list[tuple[int, Story]] = field(default_factory=list)

    def note(self) -> None:
        self.moments.append((len(self.disk.operations), replace(self.story, provenance={})))

    def hear(self, line: dict[str, Any]) -> None:
        self.story.hear([line])
        if "accepted" in line:
            self.note()

    def moment(self, draw: random.Random) -> int:
        """A number of operations; most often one after which a sync would come, when the most is not durable."""
        every = range(self.first, len(self.disk.operations))
        syncs = [number for number in every if isinstance(self.disk.operations[number], Sync | SyncFolder)]
        if syncs and draw.random() < 0.7:
            return draw.choice(syncs)
        return draw.randint(self.first, len(self.disk.operations))

    def story_at(self, done: int) -> Story:
        newest = [story for when, story in self.moments if when <= done][-1]
        return replace(newest, provenance=dict(self.story.provenance))


def reopenings(tortured: Torture, *, most: int, seed: int = 0, until_caught: bool = False) -> Losses:
    """Follow `most` chains of events over the life of a case, with the home's own creation durable and not.

    Returns
    -------
    How many operations were recorded, how many chains there were, and what was wrong after them.
    """
    assert tortured.reference, "made before the process is copied"

    def work(report: Report) -> None:
        lives = [_recorded(tortured, creation=creation) for creation in (False, True)]
        for number in range(most):
            draw = seeded("reopening", seed, number)
            history, problems = _chain(tortured, lives[draw.random() < 0.3], draw, thorough=number % 20 == 0)
            report({"state": number, "problems": [f"chain {number}, {history}: {one}" for one in problems]})
            if problems and until_caught:
                break
        report({"writes": sum(len(life.disk.operations) for life in lives)})

    return _losses(forked(work)[0])


def _losses(lines: Sequence[dict[str, Any]]) -> Losses:
    failures = [line["failed"] for line in lines if "failed" in line]
    assert not failures, failures[0]
    problems = tuple(problem for line in lines for problem in line.get("problems", ()))
    writes = sum(line.get("writes", 0) for line in lines)
    return Losses(writes, sum("state" in line for line in lines), problems)


def killed_at_syncs(tortured: Torture, call: int, *, cuts: int = 2, seed: int = 0) -> Losses:
    """Kill the device before each sync of one call, open the home again, and cut the power in several ways."""
    assert tortured.reference, "made before the process is copied"

    def work(report: Report) -> None:
        life = _recorded(tortured, creation=False)
        during = [number for number, _ in enumerate(life.disk.operations) if life.story_at(number).begun == call]
        for done in (number for number in during if isinstance(life.disk.operations[number], Sync | SyncFolder)):
            draw = seeded("syncs", seed, done)
            for cut in range(cuts):
                steps, problems = _chain(tortured, life, draw, events=[("kill", done)], thorough=cut == 0, calls=False)
                report({"state": done, "problems": [f"{steps}: {problem}" for problem in problems]})
        report({"writes": len(during)})

    return _losses(forked(work)[0])


def _recorded(tortured: Torture, *, creation: bool) -> Life:
    """The case's whole life in one process; with `creation` nothing at all is durable at its start."""
    case, root = tortured.case, tortured.scratch / f"life-{int(creation)}"
    root.mkdir()
    if not creation:
        open_device(root / "home", case).close()
    life = Life(RecordingDisk(root), Story(provenance=dict(tortured.reference["provenance"])))
    life.note()
    report_changes(life.hear)
    with on(life.disk):
        device = open_device(root / "home", case)
        for number, call in enumerate(case.calls):
            life.story.begun, life.story.accepted = number, False
            life.note()
            if isinstance(call, Reopen):
                device.close()
                device = open_device(root / "home", case)
            else:
                perform(device, call)
            life.story.done = number
            life.note()
        device.close()
    return life


def _chain(
    tortured: Torture,
    life: Life,
    draw: random.Random,
    *,
    events: Sequence[tuple[str, int | None]] | None = None,
    thorough: bool,
    calls: bool = True,
) -> tuple[str, list[str]]:
    case, history = tortured.case, []
    backups = sorted(tortured.scratch.glob("before-*"))
    for number, (kind, at) in enumerate(events or [(draw.choice(EVENTS), None) for _ in range(draw.choice((1, 1, 2)))]):
        done = life.moment(draw) if at is None else at
        history.append(f"{kind} after {done} in call {life.story_at(done).begun}")
        folder = tortured.scratch / f"process-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        story = life.story_at(done)
        if kind == "kill":
            disk = RecordingDisk.resumed(folder, life.disk.initial, life.disk.operations[:done])
        else:
            ((_, state),) = cut_states(life.disk, [done], draw)
            disk = RecordingDisk.resumed(folder, reachable(state))
        life = Life(disk, story, len(disk.operations))
        life.note()
        try:
            history[-1] += _process(life, case, draw, calls=calls)
        except (CauseError, AssertionError) as error:
            return "; ".join(history), [f"it cannot be opened again or go on: {type(error).__name__}: {error}"]
    done = life.moment(draw) if draw.random() < 0.7 else len(life.disk.operations)
    ((_, state),) = cut_states(life.disk, [done], draw)
    history.append(f"cut after {done - life.first} of {len(life.disk.operations) - life.first}")
    return "; ".join(history), after_the_cut(tortured, state, life.story_at(done), backups, thorough=thorough)


def reopened_and_cut(tortured: Torture, disk: RecordingDisk, done: int, story: Story, draw: random.Random) -> list[str]:
    """A process ended after so many operations; another one opens the home on a good disk, and then the power goes."""
    life = Life(disk, replace(story, provenance=dict(story.provenance)))
    life.moments = [(0, replace(story, provenance={}))]
    history, problems = _chain(tortured, life, draw, events=[("kill", done)], thorough=False)
    return [f"{history}: {problem}" for problem in problems]


def after_the_cut(
    tortured: Torture, state: State, story: Story, backups: Sequence[Path] = (), *, thorough: bool = False
) -> list[str]:
    """Write a state down, open the home in it, look at everything and finish the trace."""
    folder = tortured.scratch / "state"
    shutil.rmtree(folder, ignore_errors=True)
    state.write_to(folder)
    home = folder / "home"
    problems = promised(home, tortured.case, story, backups) if home.exists() else []
    try:
        problems += aftermath(
            home, tortured.case, story, tortured.reference, lambda line: None, backups, thorough=thorough
        )
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")
    return list(dict.fromkeys(problems))


def _process(life: Life, case: Case, draw: random.Random, *, calls: bool) -> str:
    """A process opens the home, perhaps does the next call, and perhaps closes it; what it did, in words."""
    folder, did = life.disk.root / "home", ", opened"
    report_changes(life.hear)
    with on(life.disk):
        device = open_device(folder, case)
        try:
            if life.story.accepted:
                life.story.done = life.story.begun  # an opening serves what was accepted
                life.note()
            following = reached(device, case, life.story) + 1
            if calls and draw.random() < 0.5 and following < len(case.calls):
                life.story.begun, life.story.accepted = following, False
                life.note()
                perform(device, case.calls[following])
                life.story.done = following
                life.note()
                did += f", did call {following}"
            end = None if draw.random() < 0.3 else len(life.disk.operations)
        finally:
            with suppress(Exception):
                device.close()
    if end is not None:  # it never came to close anything
        del life.disk.operations[end:]
    return did + (", closed" if end is None else "")


def reachable(state: State) -> State:
    """Without the names whose folders' names were lost."""
    names = {
        path: inode
        for path, inode in state.names.items()
        if all(parent in state.names for parent in path.parents if parent != Path())
    }
    return State(names, dict(state.inodes))
