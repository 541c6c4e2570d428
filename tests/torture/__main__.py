"""`make torture`: kills, power losses, failing disks, old states and guesses, with a summary; 1 on any violation."""

import argparse
import errno
import gc
import os
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.device import bit_flips
from tests.device.homes import LEARNERS, MASTER
from tests.torture import full_disk, guesses, images, old_states
from tests.torture.calls import Case, additive_case, random_case
from tests.torture.failing_reads import failing_reads
from tests.torture.failing_writes import failing_writes
from tests.torture.kills import Outcome, random_kills, scratch_folder, torture
from tests.torture.life import learner_of
from tests.torture.migrations import ARCHIVES, interrupted_migrations
from tests.torture.power_loss import power_losses
from tests.torture.processes import cut_into_processes, long_case
from tests.torture.reopening import reopenings
from tests.torture.summary import Job, run
from tests.torture.test_additive import ADDING
from tests.torture.test_kills import EVICTING, SHORT

PER_TRACE = 25
MLP_EVERY, ADDITIVE_EVERY = 10, 5  # one trace in ten is learned by a network, one in five is summed
WRITES = {
    "full for good": (errno.ENOSPC, True, False),
    "EIO once": (errno.EIO, False, False),
    "EIO for good": (errno.EIO, True, False),
    "EIO for good on that file": (errno.EIO, True, True),
}
READS = {f"{errno.errorcode[code]} {('once', 'for good')[good]}": (code, bool(good))
         for code in (errno.EMFILE, errno.EACCES, errno.EIO) for good in (0, 1)}  # fmt: skip
TRACES = {"short": SHORT, "evicting": EVICTING, "adding": ADDING}
GUESSED = {128: 40, 1_000: 24, 5_000: 12}  # rows of an upload: uploads


def cases(seed: int, count: int) -> list[Case]:
    """The three short traces, and random ones; one in five is of an additive learner."""
    return [*TRACES.values(), *(case_of(seed + number) for number in range(count))]


def case_of(seed: int, learner: str = "bayes") -> Case:
    """A random trace: of an additive learner, or of the named one."""
    return additive_case(seed) if seed % ADDITIVE_EVERY == 1 else random_case(seed, learner)


def kill(seed: int, count: int) -> tuple[int, list[str]]:
    outcomes = random_kills(case_of(seed, "mlp" if seed % MLP_EVERY == 0 else "bayes"), seed, count)
    return sum(outcome.killed for outcome in outcomes), _wrong(outcomes)


def cut(case: Case, most: int) -> tuple[int, list[str]]:
    with torture(case) as tortured:
        losses = power_losses(tortured, most=most, each=12)
    return losses.states, list(losses.problems)


def reopen(case: Case, most: int, seed: int) -> tuple[int, list[str]]:
    with torture(case) as tortured:
        losses = reopenings(tortured, most=most, seed=seed)
    return losses.states, list(losses.problems)


def image(case: Case, seeds: range) -> tuple[int, list[str]]:
    with torture(case) as tortured:
        outcomes = [images.cut_image(tortured, seed) for seed in seeds]
    return len(outcomes), _wrong(outcomes)


def write(case: Case, call: int, how: tuple[int, bool, bool]) -> tuple[int, list[str]]:
    error, for_good, same_file = how
    with torture(case) as tortured:
        assert tortured.reference
        return failing_writes(tortured, call, error=error, for_good=for_good, same_file=same_file)


def read(case: Case, call: int, how: tuple[int, bool]) -> tuple[int, list[str]]:
    with torture(case) as tortured:
        assert tortured.reference
        return failing_reads(tortured, call, error=how[0], for_good=how[1])


def split(seed: int) -> tuple[int, list[str]]:
    case = long_case(seed)
    return 1, [f"{case.system}: {problem}" for problem in cut_into_processes(case, seed)]


def fill(disk: str, how: str, kind: str) -> tuple[int, list[str]]:
    forgets, problems = full_disk.full_disk(full_disk.DISKS[disk](), how, kind)
    return 1, problems if forgets or problems else ["nobody was forgotten"]


def age(name: str, seeds: range) -> tuple[int, list[str]]:
    with scratch_folder() as folder:
        kept = old_states.copies(Path(folder))
        judgements = [old_states.judge(Path(folder), kept, old_states.CHANGES[name], seed) for seed in seeds]
    judged = [each for each in judgements if each is not None]
    return len(judged), [problem for each in judged for problem in each.problems]


def guess(rows: int, uploads: int, seed: int) -> tuple[int, list[str]]:
    with scratch_folder() as folder:
        return uploads, guesses.problems(Path(folder), rows, uploads, seed)


def flip(count: int, seed: int, kind: str) -> tuple[int, list[str]]:
    tally = bit_flips.flips(count, seed, kind)
    return count, tally.failures


def migrate(archive: Path, count: int, seed: int) -> tuple[int, list[str]]:
    with scratch_folder() as folder:
        return interrupted_migrations(archive, Path(folder), count, seed)


def _wrong(outcomes: list[Outcome]) -> list[str]:
    return [f"{outcome.where}: {'; '.join(outcome.problems[:3])}" for outcome in outcomes if outcome.problems]


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Return all jobs of the options, in pieces of some seconds each."""
    seed = options.seed
    for number in range(-(-options.kills // PER_TRACE)):
        yield Job("kills", f"trace {seed + number}", PER_TRACE, kill, (seed + number, PER_TRACE))
    for number, case in enumerate(cases(seed, 4) if options.states else ()):
        yield Job("power losses", f"trace {number}", options.states, cut, (case, options.states))
    traces = cases(seed, 20)
    for number in range(-(-options.reopen_states // PER_TRACE)):
        case = traces[number % len(traces)]
        yield Job(
            "kill, reopen, cut", f"trace {number % len(traces)}", PER_TRACE, reopen, (case, PER_TRACE, seed + number)
        )
    for start in range(0, options.images if images.why_not() is None else 0, 10):
        case, seeds = list(TRACES.values())[start // 10 % len(TRACES)], range(start, min(start + 10, options.images))
        yield Job("ext4 images", f"images from {start}", len(seeds), image, (case, seeds))
    for name, case in TRACES.items():
        for call in range(len(case.calls)):
            for label, how in WRITES.items() if options.writes else ():
                yield Job("failing writes", f"{name}, call {call}, {label}", 1, write, (case, call, how))
            for label, broken in READS.items() if options.reads else ():
                yield Job("failing reads", f"{name}, call {call}, {label}", 1, read, (case, call, broken))
    for number in range(options.processes):
        yield Job("processes", f"trace {number}", 1, split, (seed + number,))
    for disk in full_disk.DISKS if options.full_disk else ():
        if (full_disk.no_tmpfs() if disk == "tmpfs" else images.why_not()) is None:
            for filling, kind in product(full_disk.HOW, LEARNERS):
                yield Job("full disks", f"{disk}, {kind}", 1, fill, (disk, filling, kind))
    for name in old_states.CHANGES if options.old_states else ():
        yield Job("old states", name, options.old_states, age, (name, range(options.old_states)))
    for number in range(options.guesses):
        for rows, uploads in GUESSED.items():
            yield Job("guesses", f"seed {seed + number}", uploads, guess, (rows, uploads, seed + number))
    for number, start in enumerate(range(0, options.flips, PER_TRACE)):
        kind = list(LEARNERS)[number % len(LEARNERS)]
        yield Job("bit flips", f"{kind}, flips from {start}", PER_TRACE, flip, (PER_TRACE, seed + start, kind))
    for archive in ARCHIVES if options.migrations else ():
        yield Job("migrations", archive.name, options.migrations, migrate, (archive, options.migrations, seed))


def parsed() -> argparse.Namespace:
    """Parse the options; without any, there are 2,000 kills."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    number: dict[str, Any] = {"type": int, "default": 0, "metavar": "N"}
    parser.add_argument("--kills", **number, help="kills at random moments of random traces")
    parser.add_argument("--states", **number, help="power losses of each of 7 traces")
    parser.add_argument("--reopen-states", **number, help="kill or cut, open again, and cut the power")
    parser.add_argument("--images", **number, help="the same on real ext4 images")
    parser.add_argument("--writes", action="store_true", help="let every write of three traces fail")
    parser.add_argument("--reads", action="store_true", help="let every read of three traces fail")
    parser.add_argument("--processes", **number, help="traces that are cut into processes")
    parser.add_argument("--full-disk", action="store_true", help="forget on full disks")
    parser.add_argument("--old-states", **number, help="older states of a part, of each kind")
    parser.add_argument("--guesses", **number, help="rounds of guesses at what was forgotten")
    parser.add_argument("--flips", **number, help="flipped bits")
    parser.add_argument("--migrations", **number, help="interrupted first openings of each home of an earlier version")
    parser.add_argument("--seed", type=int, default=0, help="of the first trace (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    if not any(value for name, value in vars(options).items() if name not in ("seed", "jobs")):
        options.kills = 2_000
    return options


def main() -> int:
    """Run it."""
    options, console, start = parsed(), Console(), time.perf_counter()
    os.environ |= {"OMP_NUM_THREADS": "1", "CAUSE_TEST_KEY": MASTER}
    for kind in ("bayes", "mlp", "additive"):
        learner_of(kind)  # every process is a copy of this one: imports are done once
    gc.collect()
    gc.freeze()  # a home collects garbage after an erasure: half of the time without this
    summary = run(jobs(options), options.jobs, console)
    if options.images and images.why_not():
        summary.skipped["ext4 images"] = images.why_not() or ""
    if options.full_disk and full_disk.no_tmpfs():
        summary.skipped["full tmpfs"] = full_disk.no_tmpfs() or ""
    summary.show(console)
    spent = time.perf_counter() - start
    console.print(f"{sum(summary.tries.values()):,} tries, {summary.violations:,} violations, {spent:.0f} s")
    return 1 if summary.violations else 0


if __name__ == "__main__":
    sys.exit(main())
