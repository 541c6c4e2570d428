"""After a life that ended in the middle: what was promised holds, and the trace can be finished as if nothing were."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.errors import CauseError
from cause.system import Cause
from tests.torture import checks
from tests.torture.calls import Book, Case, Forget, Learn, Stage
from tests.torture.life import Report, differences, dump, open_device, perform, tell, unpacked


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
    """While nobody has opened it again: what was forgotten by a call that returned is gone already."""
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

    tell(heard)
    device = open_device(folder, case)
    before, after = Book.after(case.calls[: story.done + 1]), Book.after(case.calls[: story.begun + 1])
    happened = story.begun == story.done or _happened(device, case, story, before, after)
    book = after if happened else before
    problems = checks.whole(device, book.retained, story.provenance)
    problems += _staged(device, case, story, book)
    problems += checks.nothing_comes_back(
        folder, case, book.forgotten, story.provenance, backups=backups, thorough=thorough
    )
    try:
        for call in case.calls[(story.begun if happened else story.done) + 1 :]:
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
    found = checks.waiting(device)
    calls = [call for call in case.calls if isinstance(call, Stage)]
    expected = {c.id: c.count for c in calls if {(c.user, c.round, n) for n in range(c.count)} <= book.staged}
    begun = case.calls[story.begun] if story.begun > story.done else None
    may = {}
    if isinstance(begun, Learn) and begun.staged and book.round < begun.round:
        may = {each.id: each.count for each in (Stage(begun.round, *upload) for upload in begun.uploads)}
    extra = {each: n for each, n in found.items() if each not in expected}
    lost = {each: n for each, n in expected.items() if found.get(each) != n}
    wrong = {each: n for each, n in extra.items() if may.get(each) != n}
    return [f"staged: lost {lost}, too many {wrong}"] if lost or wrong else []


def _happened(device: Cause, case: Case, story: Story, before: Book, after: Book) -> bool:
    """Whether a call that was cut short counts: it must if it was accepted, it may if not."""
    call = case.calls[story.begun]
    if isinstance(call, Stage):
        assert device.home is not None
        return device.home.inbox.waits(call.id)
    if isinstance(call, Learn):
        return device.ledger.round == call.round
    if isinstance(call, Forget):
        # what is not there any more was forgotten; `whole` sees whether it was all of it
        touched = {(user, t) for user, t, _ in after.forgotten - before.forgotten}
        now = sum(len(held) for user, t in touched for _, held in device.ledger.pieces_of(user, t))
        gone = now < sum((user, t) in touched for user, t, _ in before.retained)
        return story.accepted or gone or sum(checks.waiting(device).values()) < len(before.staged)
    return False
