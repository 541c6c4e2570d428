"""Runs what is missing, keeps each run as it ends, and makes the results of all that is there."""

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
from cause.errors import InputError, LearnerError
from cause.lab.provenance import provenance
from cause.lab.reproduce import kinds
from cause.lab.reproduce.archive import Archive
from cause.lab.reproduce.cell import Cell, Done, unique
from cause.lab.reproduce.data import check_there
from cause.lab.reproduce.draw import can_draw, draw
from cause.lab.reproduce.figures import FIGURES, Figure
from cause.lab.reproduce.page import write_page
from cause.lab.reproduce.place import Place, check_trainable
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import panels_of

ALL = "all"
Told = Callable[[Done, int, int], None]
"""Called with a run that has ended, how many have, and how many there are."""
Only = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What was done."""

    ran: int = 0
    found: int = 0
    left: int = 0
    """Not begun, because time was up."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    page: Path | None = None


def chosen(names: Sequence[str]) -> list[Figure]:
    """The tables and figures by name; `all` of them."""
    if not names:
        raise InputError(f"say what to make: {ALL}, or some of {', '.join(FIGURES)}")
    wanted = list(FIGURES) if ALL in names else list(dict.fromkeys(names))
    return [FIGURES[name] for name in wanted]


def wanted_cells(figure: Figure, size: Size, only: Only) -> list[Cell]:
    """The runs of a figure whose settings are among those asked for; a run without such a setting stays."""
    return [cell for cell in unique(figure.cells(size)) if _is_among(cell, only)]


def _is_among(cell: Cell, only: Only) -> bool:
    return all(str(_settings(cell).get(name, values[0])) in values for name, values in only.items())


def _settings(cell: Cell) -> dict[str, Any]:
    """What a cell can be chosen by."""
    return {**cell.settings, "kind": cell.kind}


def parse_only(texts: Sequence[str], cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Read setting=value,value; what no run has is a mistake.

    >>> parse_only(["shards=1,4"], [Cell("train", {"shards": 4})])
    {'shards': ['1', '4']}
    """
    only: dict[str, list[str]] = {}
    known = sorted({name for cell in cells for name in _settings(cell)})
    for text in texts:
        name, _, listed = text.partition("=")
        check_choice("setting in --only", name, known)
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
    place: Place,
    out: Path,
    *,
    only: Only | None = None,
    told: Told | None = None,
    minutes: float | None = None,
) -> Report:
    """Run what these figures lack, and make their results."""
    only = only or {}
    if minutes is not None and not minutes >= 0:
        raise InputError(f"--minutes must be 0 or more, not {minutes}")
    cells = {figure.name: wanted_cells(figure, size, only) for figure in figures}
    check_writable(out / "cells" / "x.json")
    archive = Archive(out)
    wanted = unique(cell for own in cells.values() for cell in own)
    missing = [cell for cell in wanted if cell not in archive]
    trained = [cell for cell in missing if kinds.TRAINS[cell.kind]]
    if trained and minutes != 0:  # nothing begins that cannot end
        datasets = {cell.settings["dataset"] for cell in trained}
        check_trainable(place.device, digits=any(name.startswith("digits") for name in datasets))
        check_there(datasets, place.root)
    ran, found, failed = 0, len(wanted) - len(missing), list[Exception]()
    until = None if minutes is None else time.monotonic() + 60 * minutes
    for done in _run(missing, place, until, failed.append) if minutes != 0 else ():
        archive.add(done)
        ran += 1
        if told:
            told(done, found + ran, len(wanted))
    written = {figure.name: write_figure(figure, archive, cells[figure.name]) for figure in figures}
    results = {name: result for name, result in written.items() if result}
    page = write_page(out, list(FIGURES))
    if failed:
        raise failed[0]
    return Report(ran, found, len(missing) - ran, results, page)


def rewrite(figures: Sequence[Figure], out: Path, others: Sequence[Path] = ()) -> Report:
    """Make results, pictures and page anew from what is in the folder, and in others. Runs nothing."""
    archive = Archive(out)
    taken: dict[str, list[Cell]] = {figure.name: [] for figure in figures}
    for other in map(Archive, others):
        found = {figure.name: other.of_result(figure.name) for figure in figures}
        if not any(found.values()):
            raise InputError(f"--take: there are no such results in {str(other.folder)!r}")
        for name, done in found.items():
            taken[name] += [each.cell for each in done]
            for each in done:
                if each.cell not in archive:
                    archive.add(each)
    there = [figure for figure in figures if taken[figure.name] or archive.of_result(figure.name)]
    if not there:
        raise InputError(f"--report: there are no results in {str(out)!r} (give their folder with --out)")
    results = {figure.name: write_figure(figure, archive, taken[figure.name]) for figure in there}
    return Report(results=results, page=write_page(out, list(FIGURES)))


def write_figure(figure: Figure, archive: Archive, wanted: Sequence[Cell]) -> dict[str, Any]:
    """A figure's result, from all of its runs that are there: those wanted now, and those of other calls.

    Other calls may have ended since this one began: what they added to the result stays in it.
    """
    with archive.alone():
        return _written(figure, archive, wanted)


def _written(figure: Figure, archive: Archive, wanted: Sequence[Cell]) -> dict[str, Any]:
    made = {each.cell.key: each for each in archive.of_result(figure.name)}
    made |= {cell.key: archive[cell] for cell in wanted if cell in archive}
    done = list(made.values())
    if not done:
        return {}
    sources: list[dict[str, Any]] = []
    kept = []
    for each in done:
        if each.source not in sources:
            sources.append(each.source)
        kept.append({**each.as_dict(), "source": sources.index(each.source)})
    summary = figure.summarise(done).as_dict()
    reported = figure.reported
    result = {"name": figure.name, "title": figure.title, "where": reported.where, "says": reported.says}
    newest = max(sources, key=lambda source: str(source["date"]))
    record = {**newest, "result": {**result, "summary": summary, "sources": sources, "cells": kept}}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_text(archive.folder / f"{figure.name}.json", text)
    if can_draw() and summary["panels"]:
        draw(panels_of(summary["panels"]), archive.folder / f"{figure.name}.png")
    return {name: summary[name] for name in ("columns", "rows", "claims", "notes")}


def run_cell(cell: Cell, place: Place) -> Done:
    """Make one run, here."""
    started = time.perf_counter()
    result = kinds.run(cell.kind, cell.settings, place)
    return Done(cell, result, time.perf_counter() - started, {})


def _run(
    missing: Sequence[Cell], place: Place, until: float | None, failed: Callable[[Exception], None]
) -> Iterator[Done]:
    """Simulations several at once, what is measured alone, then the other trainings; none is begun when time is up.

    What fails is told, and does not keep the others from their end.
    """
    source = provenance()
    if place.device.startswith("cuda") and any(kinds.TRAINS[cell.kind] for cell in missing):
        import torch

        source["machine"]["card"] = torch.cuda.get_device_name(place.device)
    light = [cell for cell in missing if not kinds.TRAINS[cell.kind]]
    alone = [cell for cell in missing if kinds.measures(cell.kind, cell.settings)]
    heavy = sorted((c for c in missing if c not in light and c not in alone), key=_longest_first)
    try:
        for cells, at_once in ((light, place.workers), (alone, 1), (heavy, place.together)):
            several = min(at_once, len(cells)) > 1
            ran = _several(cells, place, at_once, until) if several else _one_by_one(cells, place, until)
            try:
                for done in ran:
                    yield Done(done.cell, done.result, done.seconds, source)
            except Exception as error:
                failed(error)
    finally:
        place.close()


def _longest_first(cell: Cell) -> tuple[str, int]:
    """A data set after the other, since each process reads it; many shards are many trainings."""
    return cell.settings["dataset"], -100 if cell.kind == "prune" else -cell.settings["shards"]


def _one_by_one(cells: Sequence[Cell], place: Place, until: float | None) -> Iterator[Done]:
    failed: Exception | None = None
    for cell in cells:
        if _is_over(until):
            break
        try:
            yield run_cell(cell, place)
        except Exception as error:
            failed = failed or error
    if failed:
        raise failed


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() > until


def _several(cells: Sequence[Cell], place: Place, at_once: int, until: float | None) -> Iterator[Done]:
    """In processes of their own. One that fails does not keep the others from their end.

    None is handed out before a process is free for it: when time is up, those under way end and are kept.
    """
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(at_once, len(cells)), spawn, initializer=_end_with_parent)
    failed: Exception | None = None
    plain, left, under_way = Place(place.root, place.device, 1, place.together), list(cells), set[Future[Done]]()
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
        if under_way:  # stopped: without this the interpreter would wait for runs that nobody keeps
            for process in list((pool._processes or {}).values()):
                process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
    if failed:
        raise failed


def _end_with_parent() -> None:
    """In a process of the pool: when the one that asked was killed, do not keep a card busy for nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
