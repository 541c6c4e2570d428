"""`make torture`: kills, power losses and failing writes, with a summary; exits with 1 on any violation."""

import argparse
import errno
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.torture.calls import random_case
from tests.torture.failing import failing_writes
from tests.torture.kills import Outcome, random_kills, torture
from tests.torture.life import learner_of
from tests.torture.power import power_losses
from tests.torture.test_kills import EVICTING, SHORT

PER_TRACE = 25
MLP_EVERY = 10  # one trace in ten is learned by a network
SHOWN = 20


def kills_of(seed: int, count: int) -> tuple[str, float, list[Outcome]]:
    """Kills of one random trace."""
    start, learner = time.perf_counter(), "mlp" if seed % MLP_EVERY == 0 else "bayes"
    try:
        outcomes = random_kills(seed, learner, count)
    except AssertionError as error:
        outcomes = [Outcome(False, "the life without kills", (str(error).splitlines()[-1],))]
    return learner, time.perf_counter() - start, outcomes


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=2_000, metavar="N", help="how many (default: 2,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first trace (default: 0)")
    parser.add_argument(
        "--states", type=int, default=0, metavar="N", help="power losses of each of 6 traces (default: 0)"
    )
    parser.add_argument("--writes", action="store_true", help="let every write of two traces fail, too")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    console, start = Console(), time.perf_counter()
    for kind in ("bayes", "mlp"):
        learner_of(kind)  # every process is a copy of this one: imports are done once
    os.environ["OMP_NUM_THREADS"] = "1"
    killed, survived, harmed, seconds = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    shown: list[tuple[int, Outcome]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    traces = range(options.seed, options.seed + -(-options.kills // PER_TRACE))
    with (
        ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        task = progress.add_task("kills", total=len(traces) * PER_TRACE)
        futures = {pool.submit(kills_of, seed, PER_TRACE): seed for seed in traces}
        for future in as_completed(futures):
            learner, took, outcomes = future.result()
            killed[learner] += sum(outcome.killed for outcome in outcomes)
            survived[learner] += sum(not outcome.killed for outcome in outcomes)
            bad = [outcome for outcome in outcomes if outcome.problems]
            harmed[learner] += len(bad)
            seconds[learner] += took
            shown += [(futures[future], outcome) for outcome in bad]
            progress.update(task, advance=len(outcomes), description=f"kills, {harmed.total()} violations")
    console.print(_table(killed, survived, harmed, seconds))
    for seed, outcome in shown[:SHOWN]:
        console.print(f"[red]trace {seed}[/red], {outcome.where}: {'; '.join(outcome.problems[:3])}", highlight=False)
    spent = time.perf_counter() - start
    console.print(f"{killed.total():,} kills, {harmed.total():,} violations, {spent:.0f} s")
    problems = [*_power(console, options.states), *(_writes(console) if options.writes else ())]
    for problem in problems[:SHOWN]:
        console.print(f"[red]{problem}[/red]", highlight=False)
    return 1 if harmed.total() or problems else 0


def _power(console: Console, most: int) -> list[str]:
    """Power losses: many states of a few traces."""
    problems: list[str] = []
    for case in (SHORT, EVICTING, *map(random_case, range(4))) if most else ():
        start = time.perf_counter()
        with torture(case) as tortured:
            losses = power_losses(tortured, most=most, each=12)
        problems += losses.problems
        told = f"{losses.writes:,} writes, {losses.states:,} states of the disk, {len(losses.problems)} violations"
        console.print(f"power losses: {told}, {time.perf_counter() - start:.0f} s", highlight=False)
    return problems


def _writes(console: Console) -> list[str]:
    """Every write of two traces fails: once and for good, for want of room and otherwise."""
    problems: list[str] = []
    start, failures = time.perf_counter(), 0
    for case in (SHORT, EVICTING):
        with torture(case) as tortured:
            for call, error, for_good in product(range(len(case.calls)), (errno.ENOSPC, errno.EIO), (False, True)):
                count, found = failing_writes(tortured, call, error=error, for_good=for_good)
                failures += count
                problems += found
    spent = time.perf_counter() - start
    console.print(f"failing writes: {failures:,}, {len(problems)} violations, {spent:.0f} s", highlight=False)
    return problems


def _table(killed: Counter[str], survived: Counter[str], harmed: Counter[str], seconds: Counter[str]) -> Table:
    table = Table(title="kills, and what the next opening found")
    table.add_column("learner")
    for name in ("kills", "outlived the trace", "violations", "ms a kill"):
        table.add_column(name, justify="right")
    for learner in sorted(killed):
        total = killed[learner] + survived[learner]
        cells = [f"{each[learner]:,}" for each in (killed, survived, harmed)]
        table.add_row(learner, *cells, f"{1000 * seconds[learner] / total:.0f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
