"""`make exactness`: the full product, in several processes, with a summary; exits with 1 when anything differs."""

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.exactness.product import Outcome, run, set_ups

SHOWN = 20


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="only N set-ups, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    chosen = set_ups()
    random.Random(options.seed).shuffle(chosen)  # so that the time that is left can be told early
    chosen = chosen[: options.sample]
    console, start = Console(), time.perf_counter()
    done, cases, wrong, seconds = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    shown: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        task = progress.add_task("set-ups", total=len(chosen))
        for future in as_completed([pool.submit(run, set_up) for set_up in chosen]):
            took, outcomes = future.result()
            learner = outcomes[0].case.learner
            bad = [outcome for outcome in outcomes if outcome.wrong]
            done[learner] += 1
            cases[learner] += len(outcomes)
            wrong[learner] += len(bad)
            seconds[learner] += took
            shown += bad
            progress.update(task, advance=1, description=f"set-ups, {wrong.total()} mismatches")
    console.print(_table(done, cases, wrong, seconds))
    for outcome in shown[:SHOWN]:
        console.print(f"[red]{outcome.case}[/red]: {'; '.join(outcome.wrong)}", highlight=False)
    console.print(f"{cases.total():,} cases, {wrong.total():,} mismatches, {time.perf_counter() - start:.0f} s")
    return 1 if wrong.total() else 0


def _table(done: Counter[str], cases: Counter[str], wrong: Counter[str], seconds: Counter[str]) -> Table:
    table = Table(title="sub-models beside the clean room's, bit for bit")
    table.add_column("learner")
    for name in ("set-ups", "cases", "mismatches", "s a set-up"):
        table.add_column(name, justify="right")
    for learner in sorted(done):
        mean = seconds[learner] / done[learner]
        table.add_row(learner, f"{done[learner]:,}", f"{cases[learner]:,}", f"{wrong[learner]:,}", f"{mean:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
