"""Many small pieces of work, in several processes, with a bar for each kind, and a table in the end."""

import multiprocessing
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

SHOWN = 12


@dataclass(frozen=True)
class Job:
    """A piece of work: how many tries it stands for, and the call that does them."""

    kind: str
    name: str
    tries: int
    work: Callable[..., tuple[int, list[str]]]
    """Returns how many tries there really were, and what was wrong."""
    arguments: tuple[object, ...] = ()


@dataclass
class Summary:
    """What came of all jobs, by kind."""

    tries: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    problems: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def violations(self) -> int:
        return sum(map(len, self.problems.values()))

    def show(self, console: Console) -> None:
        table = Table(title="what was done to homes, and what was wrong afterwards")
        table.add_column("what")
        for name in ("tries", "violations", "ms a try"):
            table.add_column(name, justify="right")
        for kind, tries in self.tries.items():
            each = 1000 * self.seconds[kind] / max(1, tries)
            table.add_row(kind, f"{tries:,}", f"{len(self.problems.get(kind, [])):,}", f"{each:.0f}")
        for kind, why in self.skipped.items():
            table.add_row(kind, "skipped", why, "")
        console.print(table)
        for kind, problems in self.problems.items():
            for problem in problems[:SHOWN]:
                console.print(f"[red]{kind}[/red]: {problem}", highlight=False, markup=True)
            if len(problems) > SHOWN:
                console.print(f"[red]{kind}[/red]: and {len(problems) - SHOWN:,} more")


def run(jobs: Iterable[Job], processes: int, console: Console) -> Summary:
    """Do all of them."""
    jobs, summary = list(jobs), Summary()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        totals: Counter[str] = Counter()
        for job in jobs:
            totals[job.kind] += job.tries
        bars = {kind: progress.add_task(kind, total=total) for kind, total in totals.items()}
        for kind in totals:
            summary.tries[kind] = 0
        futures = {pool.submit(_timed, job): job for job in jobs}
        for future in as_completed(futures):
            job = futures[future]
            try:
                took, tries, problems = future.result()
            except Exception as error:
                took, tries, problems = 0.0, 0, [f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"]
            summary.tries[job.kind] += tries
            summary.seconds[job.kind] += took
            if problems:
                summary.problems.setdefault(job.kind, []).extend(f"{job.name}: {problem}" for problem in problems)
            wrong = len(summary.problems.get(job.kind, []))
            description = f"{job.kind}, {wrong} violations" if wrong else job.kind
            progress.update(bars[job.kind], advance=job.tries, description=description)
            for problem in problems:
                progress.console.print(f"[red]{job.kind}[/red]: {job.name}: {problem}", highlight=False)
            if not console.is_terminal:  # a bar cannot be seen there
                console.print(f"{description}: {summary.tries[job.kind]:,} of {totals[job.kind]:,}", highlight=False)
    return summary


def _timed(job: Job) -> tuple[float, int, list[str]]:
    start = time.perf_counter()
    tries, problems = job.work(*job.arguments)
    return time.perf_counter() - start, tries, problems
