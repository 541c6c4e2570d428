"""Older states of a part of a home, put where the newer ones were: refused and named, and no key is destroyed.

Each way of coming by an older state leaves a home whose parts do not fit together. Opening it must raise an error of
one line and must not destroy a single key; where it opens all the same, everything that was retained must be there.
`doctor` must not call it whole.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cause.device.fsck import examine_home
from cause.engine.requests import Request
from cause.errors import CauseError
from tests.torture import checks
from tests.torture.attack import keys_of
from tests.torture.calls import Book, Case, Forget, Learn
from tests.torture.kills import forked
from tests.torture.life import Report, open_device, perform, seeded

ANN, BOB, CYD = "ann of aachen", "bob of berlin", "cyd of calais"
CASE = Case(
    (
        Learn(1, ((ANN, 8), (BOB, 3))),
        Learn(2, ((BOB, 8), (CYD, 20))),
        Forget((Request(BOB, rounds=(1,)),)),
        Learn(3, ((ANN, 8),)),
        Forget((Request(ANN, rounds=(1,), count=2),)),
        Learn(4, ((CYD, 8),)),
    ),
    "frugal",
    shards=2,
    slots=6,
)
Change = Callable[[Path, Path, random.Random], bool]
"""Makes the state of a home old, given an older copy of it; whether it changed anything."""


@dataclass(frozen=True)
class Judgement:
    """What came of an older state."""

    opened: bool
    problems: tuple[str, ...]


def lose_the_log(home: Path, older: Path, draw: random.Random) -> bool:
    """The write-ahead log of a process that was killed is lost."""
    log = home / "ledger.db-wal"
    if not log.exists() or not log.stat().st_size:
        return False
    log.unlink()
    return True


def flip_the_log(home: Path, older: Path, draw: random.Random) -> bool:
    """One bit of the write-ahead log is flipped: SQLite ends where it does not fit."""
    log = home / "ledger.db-wal"
    data = bytearray(log.read_bytes()) if log.exists() else bytearray()
    if not data:
        return False
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    log.write_bytes(data)
    return True


def cut_the_log(home: Path, older: Path, draw: random.Random) -> bool:
    """The write-ahead log ends early."""
    log = home / "ledger.db-wal"
    size = log.stat().st_size if log.exists() else 0
    if not size:
        return False
    with log.open("r+b") as file:
        file.truncate(draw.randrange(size))
    return True


def put_back_the_ledger(home: Path, older: Path, draw: random.Random) -> bool:
    """The tables of an earlier day."""
    for path in home.glob("ledger.db*"):
        path.unlink()
    for path in older.glob("ledger.db*"):
        shutil.copy(path, home)
    return True


def put_back_a_file_of_the_vault(home: Path, older: Path, draw: random.Random) -> bool:
    """One file of the vault as it was."""
    files = sorted(path.relative_to(older) for path in (older / "vault").rglob("*") if path.is_file())
    changed = [path for path in files if not (home / path).exists() or _other(home / path, older / path)]
    if not changed:
        return False
    chosen = draw.choice(changed)
    shutil.copy(older / chosen, home / chosen)
    return True


def put_back_the_vault(home: Path, older: Path, draw: random.Random) -> bool:
    """The whole vault as it was."""
    shutil.rmtree(home / "vault")
    shutil.copytree(older / "vault", home / "vault")
    return True


CHANGES: dict[str, Change] = {
    "the write-ahead log is lost": lose_the_log,
    "a bit of the write-ahead log is flipped": flip_the_log,
    "the write-ahead log is cut": cut_the_log,
    "an older ledger.db": put_back_the_ledger,
    "an older file of the vault": put_back_a_file_of_the_vault,
    "an older vault": put_back_the_vault,
}


def _other(a: Path, b: Path) -> bool:
    return a.read_bytes() != b.read_bytes()


def copies(scratch: Path) -> list[Path]:
    """The home of the case after each call, as a kill right after it leaves it."""

    def work(report: Report) -> None:
        device = open_device(scratch / "home", CASE)
        for number, call in enumerate(CASE.calls):
            perform(device, call)
            shutil.copytree(scratch / "home", scratch / f"after-{number}")

    lines, _ = forked(work)
    assert not lines, lines
    return [scratch / f"after-{number}" for number in range(len(CASE.calls))]


def judge(scratch: Path, kept: list[Path], change: Change, seed: int) -> Judgement | None:
    """Make the home's state old and open it; None where there was nothing to change."""
    draw = seeded("old", change.__name__, seed)
    call = draw.randrange(1, len(kept))
    home, older = scratch / "old", kept[draw.randrange(call)]
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(kept[call], home)
    before = frozenset(keys_of(home))
    if not change(home, older, draw):
        return None
    there = frozenset(keys_of(home))
    book = Book.after(CASE.calls[: call + 1])
    problems: list[str] = []

    def look(report: Report) -> None:
        try:
            healthy = not examine_home(home).problems
        except CauseError:
            healthy = False
        report({"healthy": healthy})
        try:
            device = open_device(home, CASE)
        except CauseError as error:
            report({"refused": str(error)})
            return
        report({"held": sorted(checks.held(device)), "round": device.ledger.round, "log": device.home.receipts.size})
        device.close()

    lines, _ = forked(look)
    reported = {name: value for line in lines for name, value in line.items()}
    if "failed" in reported:
        problems.append(f"a traceback: {reported['failed'].splitlines()[-1]}")
    forgets = sum(isinstance(each, Forget) for each in CASE.calls[: call + 1])
    intact = "held" in reported and (
        {tuple(each) for each in reported["held"]} == book.retained and reported["round"] == book.round
    )  # fmt: skip
    if "held" in reported and not intact:
        problems.append(f"round {reported['round']} instead of {book.round} is taken for the newest")
    if "held" in reported and reported["log"] < forgets:
        problems.append(f"the log has {reported['log']} entries, and had {forgets} at least")
    if not intact and reported.get("healthy"):
        problems.append("doctor says whole")
    if "refused" in reported and "\n" in reported["refused"]:
        problems.append("a message of several lines")
    if not intact and (lost := (there & before) - frozenset(keys_of(home))):
        problems.append(f"{len(lost)} keys that the newest state knew were destroyed")
    return Judgement("held" in reported, tuple(f"after call {call}: {problem}" for problem in problems))
