"""A trace cut into processes at any point ends where one process ends."""

import random
from pathlib import Path
from typing import Any

from cause.device.device import Cause
from cause.engine.memory import POLICIES
from tests.torture import checks
from tests.torture.calls import SYSTEMS, Book, Call, Case, Learn, Reopen, random_call
from tests.torture.kills import forked, scratch_folder
from tests.torture.life import Report, dump, open_device, perform, seeded

BY_POLICY = tuple(f"cause:policy={policy},gamma=1" for policy in POLICIES)


def long_case(seed: int) -> Case:
    """A trace of more rounds than there are slots, of any system and of any policy, in turns."""
    draw, calls, book = seeded("processes", seed), list[Call](), Book()
    for number in range(draw.randint(7, 10)):
        call = Learn(book.round + 1, _few(draw)) if number < 4 else random_call(draw, book)
        book.apply(call)
        calls.append(call)
    systems = (*BY_POLICY, "frugal", *SYSTEMS)
    return Case(tuple(calls), systems[seed % len(systems)], draw.choice((1, 2)), draw.choice((3, 4)))


def _few(draw: random.Random) -> tuple[tuple[str, int], ...]:
    users = draw.sample(("ann of aachen", "bob of berlin", "cyd of calais"), draw.choice((1, 1, 2)))
    return tuple((user, draw.choice((3, 8, 20))) for user in sorted(users))


def cut_into_processes(case: Case, seed: int = 0) -> list[str]:
    """What differs from the life in one process: with an opening for each call, and with openings at drawn points."""
    draw = seeded("cut", seed)
    cuts = {"every call its own process": [True] * len(case.calls)}
    cuts["drawn processes"] = [draw.random() < 0.4 for _ in case.calls]
    with scratch_folder() as scratch:
        whole = _lived(case, Path(scratch) / "one", [False] * len(case.calls))
        if "failed" in whole:
            return [f"in one process: {whole['failed'].splitlines()[-1]}"]
        problems = []
        for name, cut in cuts.items():
            other = _lived(case, Path(scratch) / name.split()[0], cut)
            if "failed" in other:
                problems.append(f"{name}: {other['failed'].splitlines()[-1]}")
            else:
                problems += [f"{name}: other {part}" for part in whole if whole[part] != other[part]]
        return problems


def _lived(case: Case, folder: Path, cut: list[bool]) -> dict[str, Any]:
    """The end of a life whose process ends after some of its calls."""
    starts = [0, *(number + 1 for number, ends in enumerate(cut) if ends)]
    for start, stop in zip(starts, [*starts[1:], len(case.calls)], strict=True):

        def work(report: Report, start: int = start, stop: int = stop) -> None:
            with open_device(folder, case) as device:
                for call in case.calls[start:stop]:
                    if not isinstance(call, Reopen):
                        perform(device, call)

        lines, _ = forked(work)
        if lines:
            return lines[-1]
    lines, _ = forked(lambda report: report(_end(folder, case)))
    return lines[-1]


def _end(folder: Path, case: Case) -> dict[str, Any]:
    with open_device(folder, case) as device:
        return {**dump(device), "samples": sorted(checks.held(device)), "log": _log_size(device)}


def _log_size(device: Cause) -> int:
    assert device.home is not None
    return device.home.receipts.size
