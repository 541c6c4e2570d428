"""Makes missing runs, keeps each when it ends, and writes the results of all runs."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from cause.common.files import check_writable, write_text
from cause.common.registry import check_choice
from cause.engine.progress import Progress
from cause.errors import InputError, LearnerError
from cause.lab.provenance import provenance
from cause.lab.reproduce import kinds
from cause.lab.reproduce.archive import Archive
from cause.lab.reproduce.cell import Cell, Done, unique
from cause.lab.reproduce.data import check_there
from cause.lab.reproduce.draw import can_draw, draw
from cause.lab.reproduce.figures import FIGURES, Figure
from cause.lab.reproduce.page import write_page
from cause.lab.reproduce.resources import Resources, check_trainable
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import panels_of

ALL = "all"
OnDone = Callable[[Done, int, int], None]
"""Called after each run with the run, the number of finished runs, and the number of all runs."""
Only = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What `reproduce` did."""

    ran: int = 0
    found: int = 0
    left: int = 0
    """Runs that were not started because time was up."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    page: Path | None = None


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the tables and figures with these names; `all` returns every one."""
    if not names:
        raise InputError(f"say what to make: {ALL}, or some of {', '.join(FIGURES)}")
    selected = list(FIGURES) if ALL in names else list(dict.fromkeys(names))
    return [FIGURES[name] for name in selected]


def wanted_cells(figure: Figure, size: Size, only: Only) -> list[Cell]:
    """Return the runs of a figure that `only` selects; a run without a selected setting stays."""
    return [cell for cell in unique(figure.cells(size)) if _is_among(cell, only)]


def _is_among(cell: Cell, only: Only) -> bool:
    return all(str(_settings(cell).get(name, values[0])) in values for name, values in only.items())


def _settings(cell: Cell) -> dict[str, Any]:
    """Return the settings that `--only` can select a run by."""
    return {**cell.settings, "kind": cell.kind}


def parse_only(texts: Sequence[str], cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Parse setting=value,value; raise an `InputError` for what no run has.

    >>> parse_only(["shards=1,4"], [Cell("train", {"shards": 4})])
    {'shards': ['1', '4']}
    """
    only: dict[str, list[str]] = {}
    settings = sorted({name for cell in cells for name in _settings(cell)})
    for text in texts:
        name, _, listed = text.partition("=")
        check_choice("setting in --only", name, settings)
        only[name] = [*only.get(name, []), *filter(None, listed.split(","))]
        if not only[name]:
            raise InputError(f"--only needs values: {name}=…,…")
    chosen = [cell for cell in cells if _is_among(cell, only)]
    if not all(any(name in _settings(cell) for cell in chosen) for name in only):
        raise InputError(f"--only leaves nothing to run: {' '.join(texts)}")
    return only


def reproduce(
    figures: Sequence[Figure],
    size: Size,
    resources: Resources,
    out: Path,
    *,
    only: Only | None = None,
    on_done: OnDone | None = None,
    minutes: float | None = None,
) -> Report:
    """Make the missing runs of these figures, and write their results.

    Parameters
    ----------
    figures
        The tables and figures.
    size
        How large the runs are.
    resources
        Where they run.
    out
        The folder of the results.
    only
        The values of settings to run; others are left out.
    on_done
        Called after each run.
    minutes
        Start no run after so many minutes.

    Raises
    ------
    InputError
        If data or a package is missing, or the folder cannot be written.
    """
    only = only or {}
    if minutes is not None and not minutes >= 0:
        raise InputError(f"--minutes must be 0 or more, not {minutes}")
    cells = {figure.name: wanted_cells(figure, size, only) for figure in figures}
    check_writable(out / "cells" / "x.json")
    archive = Archive(out)
    needed = unique(cell for cells_of_figure in cells.values() for cell in cells_of_figure)
    missing = [cell for cell in needed if cell not in archive]
    trained = [cell for cell in missing if kinds.TRAINS[cell.kind]]
    if trained and minutes != 0:  # check before the first run starts
        datasets = {cell.settings["dataset"] for cell in trained}
        check_trainable(resources.device, digits=any(name.startswith("digits") for name in datasets))
        check_there(datasets, resources.root)
    ran, found, failed = 0, len(needed) - len(missing), list[Exception]()
    until = None if minutes is None else time.monotonic() + 60 * minutes
    for done in _run(missing, resources, until, failed.append) if minutes != 0 else ():
        archive.add(done)
        ran += 1
        if on_done:
            on_done(done, found + ran, len(needed))
    written = {figure.name: write_figure(figure, archive, cells[figure.name]) for figure in figures}
    results = {name: result for name, result in written.items() if result}
    page = write_page(out, list(FIGURES))
    if failed:
        raise failed[0]
    return Report(ran, found, len(missing) - ran, results, page)


def rewrite(figures: Sequence[Figure], out: Path, others: Sequence[Path] = ()) -> Report:
    """Write results, plots and page again from the runs in a folder, and in others. Nothing is run."""
    archive = Archive(out)
    taken: dict[str, list[Cell]] = {figure.name: [] for figure in figures}
    for other in map(Archive, others):
        runs = {figure.name: other.of_result(figure.name) for figure in figures}
        if not any(runs.values()):
            raise InputError(f"--take: there are no such results in {str(other.folder)!r}")
        for name, runs_of_figure in runs.items():
            taken[name] += [run.cell for run in runs_of_figure]
            for run in runs_of_figure:
                if run.cell not in archive:
                    archive.add(run)
    available = [figure for figure in figures if taken[figure.name] or archive.of_result(figure.name)]
    if not available:
        raise InputError(f"--report: there are no results in {str(out)!r} (give their folder with --out)")
    results = {figure.name: write_figure(figure, archive, taken[figure.name]) for figure in available}
    return Report(results=results, page=write_page(out, list(FIGURES)))


def write_figure(figure: Figure, archive: Archive, needed: Sequence[Cell]) -> dict[str, Any]:
    """Write the result of a figure from all its runs: those of this call and those of others.

    Other calls may have added runs since this one started; they stay in the result.

    Returns
    -------
    dict
        The table, claims and notes; empty if there is no run.
    """
    with archive.alone():
        return _written(figure, archive, needed)


def _written(figure: Figure, archive: Archive, needed: Sequence[Cell]) -> dict[str, Any]:
    runs = {run.cell.key: run for run in archive.of_result(figure.name)}
    runs |= {cell.key: archive[cell] for cell in needed if cell in archive}
    done = list(runs.values())
    if not done:
        return {}
    sources: list[dict[str, Any]] = []
    cells = []
    for run in done:
        if run.source not in sources:
            sources.append(run.source)
        cells.append({**run.as_dict(), "source": sources.index(run.source)})
    summary = figure.summarise(done).as_dict()
    reported = figure.reported
    result = {"name": figure.name, "title": figure.title, "where": reported.where, "says": reported.says}
    newest = max(sources, key=lambda source: str(source["date"]))
    record = {**newest, "result": {**result, "summary": summary, "sources": sources, "cells": cells}}
    write_text(archive.folder / f"{figure.name}.json", _text(record))
    if can_draw() and summary["panels"]:
        draw(panels_of(summary["panels"]), archive.folder / f"{figure.name}.png")
    return {name: summary[name] for name in ("columns", "rows", "claims", "notes")}


def _text(record: dict[str, Any]) -> str:
    """Return a result as JSON with one line for each run: thousands of numbers are small and can be compared."""
    result = record["result"]
    head = json.dumps({**record, "result": {**result, "cells": []}}, indent=1, ensure_ascii=False)
    before, _, after = head.rpartition("[]")  # the runs are the last part of a result
    return (
        before
        + "[\n"
        + ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in result["cells"])
        + "]"
        + after
        + "\n"
    )


def run_cells(cells: Sequence[Cell], resources: Resources, progress: Progress) -> list[Done]:
    """Make runs, keep nothing, and return them in order.

    Parameters
    ----------
    cells
        The runs to make.
    resources
        Where they run.
    progress
        Called after each run with the number of finished runs and of all.

    Raises
    ------
    CauseError
        If a run failed.
    """
    failed: list[Exception] = []
    runs: dict[str, Done] = {}
    for done in _run(unique(cells), resources, None, failed.append):
        runs[done.cell.key] = done
        progress(len(runs), len(cells))
    if failed:
        raise failed[0]
    return [runs[cell.key] for cell in cells]


def run_cell(cell: Cell, resources: Resources) -> Done:
    """Make one run in this process."""
    started = time.perf_counter()
    result = kinds.run(cell.kind, cell.settings, resources)
    return Done(cell, result, time.perf_counter() - started, {})


def _run(
    missing: Sequence[Cell], resources: Resources, until: float | None, failed: Callable[[Exception], None]
) -> Iterator[Done]:
    """Run simulations several at once, then measurements one by one, then the other trainings, until time is up.

    On a cluster, simulations and trainings run on its nodes.

    An error is passed to `failed`, and the other runs go on.
    """
    source = provenance()
    if resources.device.startswith("cuda") and any(kinds.TRAINS[cell.kind] for cell in missing):
        import torch

        source["machine"]["card"] = torch.cuda.get_device_name(resources.device)
    cluster = resources.cluster
    if cluster is not None:
        there = {**source, "machine": {**source["machine"], "ray_nodes": cluster.nodes}}
    light = [cell for cell in missing if not kinds.TRAINS[cell.kind]]
    alone = [cell for cell in missing if kinds.measures(cell.kind, cell.settings)]
    heavy = sorted((c for c in missing if c not in light and c not in alone), key=_longest_first)
    try:
        for cells, at_once in ((light, resources.workers), (alone, 1), (heavy, resources.together)):
            on_cluster = cluster is not None and cells is not alone  # what is measured is measured on this machine
            if cluster is not None and on_cluster:
                ran = cluster.run(cells, resources, until)
            elif min(at_once, len(cells)) > 1:
                ran = _several(cells, resources, at_once, until)
            else:
                ran = _one_by_one(cells, resources, until)
            try:
                for done in ran:
                    yield Done(done.cell, done.result, done.seconds, there if on_cluster else source)
            except Exception as error:
                failed(error)
    finally:
        resources.close()


def _longest_first(cell: Cell) -> tuple[str, int]:
    """Sort by data set, since each process reads it, and by length: many shards are many trainings."""
    return cell.settings["dataset"], -100 if cell.kind == "prune" else -cell.settings["shards"]


def _one_by_one(cells: Sequence[Cell], resources: Resources, until: float | None) -> Iterator[Done]:
    failed: Exception | None = None
    for cell in cells:
        if _is_over(until):
            break
        try:
            yield run_cell(cell, resources)
        except Exception as error:
            failed = failed or error
    if failed:
        raise failed


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() > until


def _several(cells: Sequence[Cell], resources: Resources, at_once: int, until: float | None) -> Iterator[Done]:
    """Make runs in several processes. If one fails, the others go on, and the error is raised at the end.

    A run is submitted only when a process is free: when time is up, those under way end and are kept.
    """
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(at_once, len(cells)), spawn, initializer=_end_with_parent)
    failed: Exception | None = None
    plain = Resources(resources.root, resources.device, 1, resources.together)
    left, under_way = list(cells), set[Future[Done]]()
    try:
        while True:
            while left and len(under_way) < at_once and not _is_over(until):
                under_way.add(pool.submit(run_cell, left.pop(0), plain))
            if not under_way:
                break
            ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                try:
                    yield future.result()
                except BrokenExecutor:
                    left = []
                    failed = LearnerError(
                        f"one of {at_once} processes was ended from outside, perhaps for want of memory: what had "
                        "ended is kept; run fewer at once"
                    )
                except Exception as error:
                    failed = failed or error
    finally:
        if under_way:  # stopped: the interpreter would wait for these runs
            for process in list((pool._processes or {}).values()):
                process.kill()
        pool.shutdown(wait=not under_way, cancel_futures=True)
    if failed:
        raise failed


def _end_with_parent() -> None:
    """End this process of the pool when its parent is killed, so that it does not keep a card busy."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
