"""Checks after an interrupted life: all promises hold, and the trace can be continued as if nothing had happened."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.device.device import Cause
from cause.errors import CauseError
from tests.small_learners import Sample
from tests.torture import checks
from tests.torture.calls import Book, Case, Learn, Stage
from tests.torture.life import Report, differences, dump, open_device, perform, report_changes, unpacked


@dataclass
class Story:
    """What was heard of a life so far."""

    begun: int = -1
    done: int = -1
    accepted: bool = False  # of the call that was begun last
    provenance: dict[str, frozenset[Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def hear(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if "begun" in line:
                self.begun, self.accepted = line["begun"], False
            elif "done" in line:
                self.done = line["done"]
            elif "accepted" in line:
                self.accepted = True
            elif "digest" in line:
                self.provenance[line["digest"]] = unpacked(line["seen"])
            elif "failed" in line:
                self.failures.append(line["failed"])


def promised(
    folder: Path, case: Case, story: Story, backups: Sequence[Path] = (), *, thorough: bool = False
) -> list[str]:
    """Return what is wrong before the home is opened again: samples forgotten by a finished call must not be there."""
    forgotten = Book.after(case.calls[: story.done + 1]).forgotten
    return checks.nothing_comes_back(folder, case, forgotten, story.provenance, backups=backups, thorough=thorough)


def aftermath(
    folder: Path,
    case: Case,
    story: Story,
    reference: dict[str, Any],
    report: Report,
    backups: Sequence[Path] = (),
    *,
    thorough: bool = False,
) -> list[str]:
    """Open it, look at everything, finish the trace and compare. In a process of its own: it changes classes."""

    def heard(line: dict[str, Any]) -> None:
        story.hear([line])
        report(line)

    report_changes(heard)
    device = open_device(folder, case)
    last = reached(device, case, story)
    book = Book.after(case.calls[: last + 1])
    problems = checks.whole(device, book.retained, story.provenance)
    problems += _staged(device, case, story, book)
    problems += checks.nothing_comes_back(
        folder, case, book.forgotten, story.provenance, backups=backups, thorough=thorough
    )
    try:
        for call in case.calls[last + 1 :]:
            perform(device, call)
        device.repair()
    except (CauseError, AssertionError) as error:
        return [*problems, f"the trace cannot be finished: {type(error).__name__}: {error}"]
    book = Book.after(case.calls)
    problems += checks.whole(device, book.retained, story.provenance)
    problems += checks.nothing_comes_back(folder, case, book.forgotten, story.provenance, backups=backups)
    problems += checks.exact(device) + differences(dump(device), reference["reference"])
    device.close()
    return problems


def _staged(device: Cause, case: Case, story: Story, book: Book) -> list[str]:
    """What waits is what was uploaded and neither learned nor forgotten; of a round that was cut short, maybe less."""
    staged = checks.waiting(device)
    calls = [call for call in case.calls if isinstance(call, Stage)]
    expected = {c.id: c.count for c in calls if {(c.user, c.round, n) for n in range(c.count)} <= book.staged}
    may = {}
    for begun in case.calls[story.done + 1 : story.begun + 1]:
        if isinstance(begun, Learn) and begun.staged and book.round < begun.round:
            may |= {each.id: each.count for each in (Stage(begun.round, *upload) for upload in begun.uploads)}
    extra = {each: n for each, n in staged.items() if each not in expected}
    lost = {each: n for each, n in expected.items() if staged.get(each) != n}
    wrong = {each: n for each, n in extra.items() if may.get(each) != n}
    return [f"staged: lost {lost}, too many {wrong}"] if lost or wrong else []


def reached(device: Cause, case: Case, story: Story) -> int:
    """The last call that counts: of those that were begun and did not return any number may, in their order; one that
    was accepted must. If nothing fits, the checks that follow say what is wrong."""
    least = story.begun if story.accepted else story.done
    held, round_, staged = checks.held(device), device.ledger.round, checks.waiting(device)
    for number in range(story.begun, least, -1):
        if _fits(case, number, held, round_, staged):
            return number
    if least > story.done or story.begun == story.done or _fits(case, least, held, round_, staged):
        return least
    return max(least, min(story.begun, _begun(device, case, story)))


def _fits(case: Case, number: int, held: set[Sample], round_: int, staged: dict[str, int]) -> bool:
    book = Book.after(case.calls[: number + 1])
    calls = [call for call in case.calls if isinstance(call, Stage)]
    here = {each.id: {(each.user, each.round, n) for n in range(each.count)} <= book.staged for each in calls}
    return held == book.retained and round_ == book.round and all((one in staged) == is_ for one, is_ in here.items())


def _begun(device: Cause, case: Case, story: Story) -> int:
    """What the round and the number of samples say, where not everything fits."""
    before = Book.after(case.calls[: story.done + 1])
    after = Book.after(case.calls[: story.begun + 1])
    less = len(checks.held(device)) < len(before.retained) and len(after.retained) < len(before.retained)
    return story.begun if device.ledger.round > before.round or less else story.done
