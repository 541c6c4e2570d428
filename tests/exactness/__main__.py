"""`make exactness`: the full product, in several processes, with a summary; exits with 1 when anything differs."""

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.exactness.dimensions import DIMENSIONS, Case
from tests.exactness.product import VARIED, alike, run, set_ups
from tests.exactness.records import Record, Records, finished_in

SHOWN = 20


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="only N set-ups, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="write finished set-ups there, skip those in it")
    parser.add_argument(
        "--without", type=Path, metavar="FILE", help="leave out set-ups that a file of another machine has finished"
    )
    parser.add_argument("--nice", action="store_true", help="let everything else on this machine go first")
    options = parser.parse_args()
    if options.nice:
        os.nice(19)  # the processes it starts inherit it
    chosen = set_ups()
    random.Random(options.seed).shuffle(chosen)  # so that the remaining time can be estimated early
    elsewhere = finished_in(options.without) if options.without else set()
    chosen = [each for each in chosen if str(each) not in elsewhere][: options.sample]
    try:
        records = Records(options.resume)
    except ValueError as error:
        parser.error(str(error))
    console, start = Console(), time.perf_counter()
    finished = _run(chosen, records, options.jobs, console)
    console.print(_table(finished))
    wrong = [each for one in finished for each in one["wrong"]]
    for each in wrong[:SHOWN]:
        console.print(f"[red]{Case(**each['case'])}[/red]: {'; '.join(each['wrong'])}", highlight=False)
    cases, took = sum(one["cases"] for one in finished), time.perf_counter() - start
    console.print(f"{len(finished):,} set-ups, {cases:,} cases, {len(wrong):,} mismatches, {took:.0f} s")
    return 1 if wrong else 0


def _run(chosen: Sequence[Case], records: Records, jobs: int, console: Console) -> list[Record]:
    """Return the results of the chosen set-ups, of this run or an earlier one."""
    chosen_names, finished_names = {str(each) for each in chosen}, {one["set_up"] for one in records.finished}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        task = progress.add_task("set-ups", total=len(chosen), completed=len(chosen_names & finished_names))
        mismatches = 0
        groups = alike([each for each in chosen if str(each) not in finished_names])
        for future in as_completed([pool.submit(run, group) for group in groups]):
            records.add(future.result())
            mismatches += sum(len(one["wrong"]) for one in future.result())
            progress.update(task, advance=len(future.result()), description=f"set-ups, {mismatches} mismatches")
    return [one for one in records.finished if one["set_up"] in chosen_names]


def _table(finished: Sequence[Record]) -> Table:
    """Cases and mismatches by dimension and value; seconds where a set-up has one value."""
    cases, wrong, seconds, done = (Counter[tuple[str, str]]() for _ in range(4))
    for one in finished:
        for name, counts in one["counts"].items():
            cases.update({(name, value): count for value, count in counts.items()})
            seconds.update({(name, value): one["seconds"] for value in counts})
            done.update((name, value) for value in counts)
        wrong.update((name, str(value)) for each in one["wrong"] for name, value in each["case"].items())
    table = Table(title="sub-models beside the clean room's, bit for bit")
    for name in ("dimension", "value"):
        table.add_column(name)
    for name in ("cases", "mismatches", "s a set-up"):
        table.add_column(name, justify="right")
    for name, values in DIMENSIONS.items():
        for at in ((name, str(value)) for value in values):
            mean = f"{seconds[at] / done[at]:.1f}" if done[at] and name not in VARIED else ""
            table.add_row(*at, f"{cases[at]:,}", f"{wrong[at]:,}", mean)
        table.add_section()
    return table


if __name__ == "__main__":
    sys.exit(main())
