"""A disk that is full: uploads are refused, every forget succeeds, and so does the next opening."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path

from cause.device.device import Cause
from cause.errors import CauseError
from tests.device.homes import LEARNERS, samples
from tests.torture.images import Image
from tests.torture.kills import forked, scratch_folder
from tests.torture.life import KEY, Report

ROWS = (600, 60, 1)
MOST_ROUNDS = 400
HOW = ("filled by uploads", "filled by others", "opened again")


@contextmanager
def tmpfs(mb: int = 1) -> Iterator[Path]:
    """A file system in memory, of that size."""
    with tempfile.TemporaryDirectory() as folder:
        command = ("mount", "-t", "tmpfs", "-o", f"size={mb}m", "cause-torture", folder)
        subprocess.run(command, check=True, capture_output=True, text=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(("umount", folder), check=True, capture_output=True)


@contextmanager
def ext4(block_bytes: int = 4096) -> Iterator[Path]:
    """A small ext4 in an image."""
    with (
        scratch_folder() as scratch,
        Image(Path(scratch) / "image", 4 if block_bytes < 4096 else 10, block_bytes).mounted() as folder,
    ):
        yield folder


DISKS: dict[str, Callable[[], AbstractContextManager[Path]]] = {
    "tmpfs": tmpfs,
    "ext4": ext4,
    "ext4 of small blocks": partial(ext4, 1024),
}


@cache
def no_tmpfs() -> str | None:
    """Why no file system in memory can be mounted here; None where one can."""
    try:
        with tmpfs():
            return None
    except (subprocess.CalledProcessError, OSError) as error:
        return f"a tmpfs cannot be mounted: {getattr(error, 'stderr', '') or error}".strip()


def full_disk(disk: AbstractContextManager[Path], how: str, kind: str = "bayes") -> tuple[int, list[str]]:
    """Fill a disk, forget everybody on it, open it again: how many forgets there were, and what was wrong.

    The disk is filled by uploads until one of a single sample is refused; "filled by others" takes the room that is
    left then, too, and "opened again" lets another process do the forgetting.
    """
    with disk as folder:
        works: list[Callable[[Report], None]] = [
            lambda report: _fill(_opened(folder, kind), folder, how, report, go_on=how != "opened again")
        ]  # fmt: skip
        if how == "opened again":
            works.append(lambda report: _forget(_opened(folder, kind), report))
        works.append(lambda report: _look(folder, kind, report))
        lines = []
        for number, work in enumerate(works):
            reports, killed = forked(work)
            lines += [*reports, *([{"problem": f"process {number} was ended by a signal"}] if killed else [])]
    problems = [line["problem"] for line in lines if "problem" in line]
    problems += [line["failed"].splitlines()[-1] for line in lines if "failed" in line]
    return sum("forgotten" in line for line in lines), [f"{how}: {problem}" for problem in dict.fromkeys(problems)]


def _opened(folder: Path, kind: str) -> Cause:
    make, system, shards = LEARNERS[kind]
    return Cause(folder / "home", learner=make(), key=KEY, system=system, shards=shards, slots=3)


def _fill(device: Cause, folder: Path, how: str, report: Report, *, go_on: bool) -> None:
    sizes = iter(ROWS)
    rows = next(sizes)
    for number in range(MOST_ROUNDS):
        user, t = f"user {number}", device.ledger.round + 1
        try:
            device.learn({user: samples(user, t, rows)}, repair="later")
        except CauseError as error:
            if "\n" in str(error):
                report({"problem": f"a message of several lines: {error}"})
            rows = next(sizes, 0)
            if not rows:
                break
        except Exception as error:
            report({"problem": f"an upload: {type(error).__name__}: {error} instead of an error of our own"})
            return
    else:
        report({"problem": f"the disk is not full after {MOST_ROUNDS} rounds"})
    report({"filled": device.ledger.round})
    if how == "filled by others":
        with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(512)):
                pass
    if go_on:
        _forget(device, report)


def _forget(device: Cause, report: Report) -> None:
    ledger = device.ledger
    users = {piece.upload.user for s in ledger.shards() for segment in ledger.lineage(s) for piece in segment.pieces}
    if not users:
        report({"problem": "nothing was taken in"})
    for number, user in enumerate(sorted(users)):
        try:
            if number % 3 == 0:  # some of it first: the rest is written anew
                t = ledger.rounds_of(user)[0]
                if sum(len(held) for _, held in ledger.pieces_of(user, t)) > 1:
                    device.forget(user, rounds=[t], count=1, repair="later")
            device.forget(user, repair="later")
            report({"forgotten": user})
        except Exception as error:
            report({"problem": f"a forget was refused: {type(error).__name__}: {error}"})
    if not users:
        return
    try:
        device.close()
    except Exception as error:
        report({"problem": f"closing: {type(error).__name__}: {error}"})


def _look(folder: Path, kind: str, report: Report) -> None:
    try:
        with _opened(folder, kind) as device:
            if device.ledger.shards():
                report({"problem": "something is still held"})
    except CauseError as error:
        report({"problem": f"it cannot be opened again: {error}"})
