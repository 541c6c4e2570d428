"""Kill a device at a moment of its life, open it again, and see that nothing is wrong."""

import json
import os
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from tests.torture.calls import Case, Reopen
from tests.torture.life import Report, dump, learner_of, live, open_device, perform, report_changes, seeded
from tests.torture.recovery import Story, aftermath, promised
from tests.torture.steps import Steps, install

T = TypeVar("T")
Sabotage = Callable[[], None]
"""Breaks something in a process that is about to live a device's life: for controls."""


def forked(work: Callable[[Report], None], sabotage: Sabotage | None = None) -> tuple[list[dict[str, Any]], bool]:
    """Run this in a copy of the process; what it reported, and whether it was killed."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the parent has no other threads that matter
        child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            if sabotage:
                sabotage()
            work(lambda line: _say(writer, line))
        except BaseException:
            _say(writer, {"failed": traceback.format_exc()})
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    return [json.loads(line) for line in lines], os.WIFSIGNALED(status)


def _say(writer: int, line: dict[str, Any]) -> None:
    data = memoryview(json.dumps(line).encode() + b"\n")
    while data:
        data = data[os.write(writer, data) :]


@dataclass(frozen=True)
class Outcome:
    """What a kill led to."""

    killed: bool
    where: str
    problems: tuple[str, ...]


class Torture:
    """A case, its uninterrupted life, and kills at any of its moments."""

    def __init__(self, case: Case, scratch: Path, sabotage: Sabotage | None = None, lasting: bool = False) -> None:
        self.case, self.scratch = case, scratch
        self._sabotage, self._lasting = sabotage, lasting  # a lasting one breaks the next process too
        learner_of(case.learner)  # so that every copy of this process has its imports done

    @cached_property
    def reference(self) -> dict[str, Any]:
        """The end of a life without kills; before each call its home is put aside, and moments are counted."""

        def work(report: Report) -> None:
            report_changes(report)
            steps = Steps(lambda number, what: None)
            install(steps)
            folder, moments = self.scratch / "home", []
            open_device(folder, self.case).close()
            for number, call in enumerate(self.case.calls):
                shutil.copytree(folder, self.scratch / f"before-{number}")
                device = open_device(folder, self.case)
                before = steps.count
                if isinstance(call, Reopen):
                    device.close()
                    device = open_device(folder, self.case)
                else:
                    perform(device, call)
                moments.append(steps.count - before)
                device.close()
            device = open_device(folder, self.case)
            device.repair()
            report({"reference": dump(device), "moments": moments})
            device.close()

        lines, _ = forked(work)
        story = Story()
        story.hear(lines)
        assert not story.failures, story.failures[0]
        return {**lines[-1], "provenance": story.provenance}

    @property
    def moments(self) -> list[int]:
        """How many moments each call has."""
        return self.reference["moments"]

    def kill(self, call: int, moment: int, *, again: int = 0, thorough: bool = False) -> Outcome:
        """Die at that moment of that call (or of those after it), and with `again` in that of the next opening."""
        shutil.rmtree(folder := self.scratch / f"killed-{os.getpid()}", ignore_errors=True)
        shutil.copytree(self.scratch / f"before-{call}", folder)
        story = Story(call - 1, call - 1, provenance=dict(self.reference["provenance"]))
        fatal: list[str] = []

        def life(report: Report) -> None:
            report_changes(report)
            steps = Steps(lambda number, what: self._die(report, what) if number == moment else None)

            def opened() -> None:
                install(steps)

            live(folder, self.case, call, report, opened).close()

        def opening(report: Report) -> None:
            report_changes(report)
            install(Steps(lambda number, what: self._die(report, what) if number == again else None))
            open_device(folder, self.case).close()

        def afterwards(report: Report) -> None:
            problems = aftermath(folder, self.case, story, self.reference, report, self._backups(), thorough=thorough)
            report({"problems": problems})

        lines, killed = forked(life, self._sabotage)
        story.hear(lines)
        fatal += [line["dying"] for line in lines if "dying" in line]
        where = f"call {story.begun} ({type(self.case.calls[max(0, story.begun)]).__name__}), {', '.join(fatal)}"
        problems = promised(folder, self.case, story, self._backups(), thorough=thorough)
        if again:
            lines, _ = forked(opening, self._sabotage)
            story.hear(lines)
            where += "".join(f", then {line['dying']} of the opening" for line in lines if "dying" in line)
            problems += promised(folder, self.case, story, self._backups(), thorough=thorough)
        lasting = self._sabotage if self._lasting else None
        lines, _ = forked(afterwards, lasting)
        story.hear(lines)
        problems += [problem for line in lines for problem in line.get("problems", [])]
        problems += [failure.splitlines()[-1] for failure in story.failures]
        return Outcome(killed, where, tuple(dict.fromkeys(problems)))

    def _die(self, report: Report, what: str) -> None:
        report({"dying": what})
        os.kill(os.getpid(), signal.SIGKILL)

    def _backups(self) -> list[Path]:
        """Copies of the home from before any of the calls."""
        return sorted(self.scratch.glob("before-*"))


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory, where there is one: a kill does not lose what the kernel holds, so nothing need wait for a disk."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="cause-torture-", dir=memory if memory.is_dir() else None)


@contextmanager
def torture(case: Case, sabotage: Sabotage | None = None, *, lasting: bool = False) -> Iterator[Torture]:
    """A case in a folder of its own."""
    with scratch_folder() as folder:
        yield Torture(case, Path(folder), sabotage, lasting)


def random_kills(case: Case, seed: int, count: int) -> list[Outcome]:
    """Kills of one trace at random moments."""
    with torture(case) as tortured:
        return [random_kill(tortured, seed, number) for number in range(count)]


def spread(work: Callable[[T], Outcome | list[Outcome]], items: Iterable[T], lanes: int = 2) -> list[Outcome]:
    """Do this to all items, in as many processes, each a copy of this one."""
    items = list(items)

    def lane(number: int, report: Report) -> None:
        for item in items[number::lanes]:
            outcomes = work(item)
            for outcome in outcomes if isinstance(outcomes, list) else [outcomes]:
                report({"outcome": asdict(outcome)})

    with ThreadPoolExecutor(lanes) as pool:
        reports = [lines for lines, _ in pool.map(lambda number: forked(partial(lane, number)), range(lanes))]
    failures = [line["failed"] for lines in reports for line in lines if "failed" in line]
    assert not failures, failures[0]
    outcomes = [line["outcome"] for lines in reports for line in lines if "outcome" in line]
    return [Outcome(each["killed"], each["where"], tuple(each["problems"])) for each in outcomes]


def random_kill(tortured: Torture, *seed: Any) -> Outcome:
    """At a moment drawn from all of the trace's; one in five kills strikes the next opening too."""
    draw = seeded(*seed)
    moments = tortured.moments
    call = draw.choices(range(len(moments)), [max(1, n) for n in moments])[0]
    again = draw.randint(1, 40) if draw.random() < 0.2 else 0
    return tortured.kill(call, draw.randint(1, max(1, moments[call])), again=again, thorough=draw.random() < 0.1)
