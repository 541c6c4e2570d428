"""Output of the commands: tables, JSON, progress bars, files."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cause.common.files import check_writable
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.engine.progress import Step, Watch
    from cause.lab.reproduce.summary import Panel


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", names: int = 1
) -> None:
    """Print a table.

    Parameters
    ----------
    title
        The line above it.
    columns
        The heads of the columns.
    rows
        The cells.
    note
        The line below it.
    names
        How many columns, from the left, hold names and are left-aligned; the others hold numbers.
    """
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    note = escape(note)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, caption=note or None)
    table.caption_justify = "left"
    for index, column in enumerate(columns):
        table.add_column(
            column, justify="left" if index < names else "right", no_wrap=index < min(names, len(columns) - 1)
        )
    for row in rows:
        table.add_row(*map(escape, row))  # else rich would read 'cause[plot]' as markup
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show on standard error what is being done, if it is a terminal; for work of unknown length."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, if it is a terminal; yield the function that moves it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def training_bar(what: str) -> Iterator["Watch | None"]:
    """Show the segment, epoch, speed and time left of a training on standard error; yield None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description} shard {task.fields[shard]}, round {task.fields[round]}, {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]} samples/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, shard="–", round="–", epoch="starting", rate="–")

        def watch(step: "Step") -> None:
            speed = bar.tasks[0].speed
            bar.update(
                task,
                completed=step.done,
                total=step.total,
                shard=step.segment.shard,
                round=step.segment.round,
                epoch=f"epoch {step.epoch} of {step.epochs}",
                rate=f"{speed:,.0f}" if speed else "–",
            )

        yield watch


def check_files(plot: Path | None, out: Path | None) -> None:
    """Raise an `InputError` for files that could not be written, before any work is done."""
    if plot is not None:
        from importlib.util import find_spec

        if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise InputError(f"a plot is a .png, .svg or .pdf file, not {str(plot)!r}")
        if find_spec("matplotlib") is None:
            raise InputError("plots need matplotlib: pip install 'cause[plot]'")
        if plot == out:
            raise InputError(f"--plot and --out name the same file: {str(plot)!r}")
    for path in filter(None, (plot, out)):
        check_writable(path)


def drawing_of(panels: "Callable[[], Sequence[Panel]]") -> Callable[[Path], None]:
    """Return a function that draws panels into a file; they are made when it is called."""

    def draw(path: Path) -> None:
        from cause.lab.reproduce.draw import draw as draw_panels

        draw_panels(panels(), path)

    return draw


def deliver(
    result: dict[str, Any],
    *,
    show: Callable[[], None],
    draw: Callable[[Path], None],
    json: bool,
    plot: Path | None,
    out: Path | None,
) -> None:
    """Print a result, then draw it and write it to a file. It is printed first, so that a full disk loses nothing.

    Parameters
    ----------
    result
        The result, for JSON.
    show
        Prints it for people.
    draw
        Draws it into a file.
    json
        Print JSON instead of calling `show`.
    plot
        The file to draw into, or None.
    out
        The file to write the result to with its provenance, or None.
    """
    if json:
        print_json(result)
    else:
        show()
    if plot:
        draw(plot)
    if out:
        from cause.lab.provenance import write_result

        write_result(out, result)
    if not json:
        for path in filter(None, (plot, out)):
            print(f"wrote {path}")
