"""`cause reproduce`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import options as o
from cause.cli.output import print_json, print_table, progress_bar

if TYPE_CHECKING:
    from cause.lab.reproduce.cell import Done
    from cause.lab.reproduce.size import Size

LONG_S = 5.0
"""Without a terminal, a line is printed for each run that took so many seconds."""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables and figures: all, or some of linearity, pruning, shards, controller, sc-function, policies, "
            "epochs, rsn-rounds, rsn-memory, rsn-rho, rsn-shards, energy-shards, energy-rho, forgetting, partitions, "
            "compare, ablation, balance, policy-map, map-fibor, map-controller.",
            autocompletion=o._complete("cause.lab.reproduce.figures", "FIGURES"),
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes on a processor: small data, few epochs (default).")
    ] = False,
    reduced: Annotated[bool, typer.Option("--reduced", help="On a card: a fifth of the samples, 20 epochs.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="As in the paper: all samples, 80 epochs a round. Hours.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="Folder with cifar10, cifar100 and svhn. [default: CAUSE_DATA]")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    workers: Annotated[int, typer.Option(help="Simulations, or shards of a training, at once.")] = 1,
    together: Annotated[
        int, typer.Option(help="Trainings at once, each in its own process; what measures energy or time runs alone.")
    ] = 1,
    ray: o.RayRuns = None,
    per_worker: o.PerRun = None,
    recipe: Annotated[str, typer.Option(help="How to train: paper, ours, authors or authors-network.")] = "paper",
    share: Annotated[float | None, typer.Option(help="Share of the training samples, instead of the size's.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each training, instead of the size's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of each simulation, instead of the size's.")] = None,
    ages: o.Ages = None,
    scope: o.Scope = None,
    arrivals: o.Arrivals = None,
    labels: o.Labels = None,
    trainings: Annotated[int | None, typer.Option(help="Seeds of each training. [default: 1]")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run only some: system=cause,sisa; shards=1,4; dataset=…; backbone=…; kind=train."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no run after so many minutes.")] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing: make tables, pictures and page anew from the folder.")
    ] = False,
    take: Annotated[
        list[Path] | None,
        typer.Option(help="With --report: take in the runs of that folder, made beside these or on another machine."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the results. [default: out/reproduce-SIZE]")
    ] = None,
    json: o.AsJson = False,
) -> None:
    """Make the paper's tables and figures from real runs, ours beside the paper's. A run that was stopped goes on."""
    from cause.common.gpu_sharing import turns_note
    from cause.engine.executor import MOST_WORKERS
    from cause.errors import InputError
    from cause.lab.reproduce.data import at_hand
    from cause.lab.reproduce.recipes import RECIPES
    from cause.lab.reproduce.resources import Resources
    from cause.lab.reproduce.runner import chosen, parse_only, rewrite, wanted_cells
    from cause.lab.reproduce.runner import reproduce as run_all
    from cause.lab.reproduce.size import SIZES

    size_flags = [name for name, flag_set in (("quick", quick), ("reduced", reduced), ("full", full)) if flag_set]
    if len(size_flags) > 1:
        raise InputError(
            f"give one of --quick, --reduced and --full, not {' and '.join('--' + name for name in size_flags)}"
        )
    for flag, number in (("--workers", workers), ("--together", together)):
        if not 1 <= number <= MOST_WORKERS:
            raise InputError(f"{flag} must be from 1 to {MOST_WORKERS}, not {number}")
    RECIPES[recipe]
    name = size_flags[0] if size_flags else "quick"
    folder = out or Path("out") / f"reproduce-{name}"
    figures = chosen(names or ["all"] if report else names or [])
    if report:
        _deliver(rewrite(figures, folder, take or []), json)
        return
    if take:
        raise InputError("--take goes with --report")
    size: Size = SIZES[name].changed(
        share=share, epochs=epochs, seeds=seeds, trainings=trainings, recipe=recipe, device=device,
        ages=None if ages is None else o.ages_of(ages), scope=scope, arrivals=arrivals, labels=labels,
    )  # fmt: skip
    if name == "quick":
        size = size.changed(datasets=at_hand(data))
    cells = [cell for figure in figures for cell in wanted_cells(figure, size, {})]
    chosen_only = parse_only(only or [], cells)
    if note := turns_note(device, together):
        print(f"note: {note}", file=sys.stderr)
    cluster = o.cluster_of(ray, per_worker)
    with _progress() as on_done:
        resources = Resources(data, device, workers, together, cluster)
        report_ = run_all(figures, size, resources, folder, only=chosen_only, on_done=on_done, minutes=minutes)
    _deliver(report_, json)


@contextmanager
def _progress() -> "Iterator[Callable[[Done, int, int], None]]":
    """Show a bar on a terminal, and elsewhere a line for each long run; yield the function to call after each run."""
    started, ran = time.monotonic(), 0
    with progress_bar("running") as progress:

        def on_done(done: "Done", number: int, total: int) -> None:
            nonlocal ran
            ran += 1
            progress(number, total)
            if not sys.stderr.isatty() and done.seconds >= LONG_S:
                left = (time.monotonic() - started) / ran * (total - number)
                print(f"{number}/{total} {done.cell}: {done.seconds:.0f} s, about {left:.0f} s left", file=sys.stderr)

        yield on_done


def _deliver(report: Any, json: bool) -> None:
    if json:
        counts = {"ran": report.ran, "found": report.found, "left": report.left, "page": str(report.page)}
        print_json({**counts, "results": report.results})
        return
    for name, result in report.results.items():
        columns = {"claim": "claim", "paper": "paper", "reading": "the paper's reading", "ours": "ours"}
        if not any(claim["reading"] for claim in result["claims"]):
            del columns["reading"]
        columns["size"] = "size of our runs"
        claims = [[claim[key] or "–" for key in columns] for claim in result["claims"]]
        print_table(name, list(columns.values()), claims, note=" ".join(result["notes"]))
    left = f", {report.left} left" if report.left else ""
    print(f"{report.ran} runs made, {report.found} found{left}; wrote {report.page}")
