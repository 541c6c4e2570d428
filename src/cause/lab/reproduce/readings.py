"""The paper's reading of its own workload and systems, beside ours.

The paper leaves open when users ask, and for what. Two readings reproduce its numbers in size: that of Figure 11, which
follows from the table of requests that its authors published (ten new users in each round, one of whom asks at once for
everything), and one in which requests prefer the recent past, P(age a) ∝ 0.2^a. The factor is the one fitted number. In
both, data is i.i.d., the number of shards is fixed, Algorithm 2 runs as printed, and the other systems store sub-models
until their memory is full and never replace one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Summary

PAPER = "paper"
NAME = "the paper's reading"
FIXED = "cause-no-sc-printed"
PRINTED: dict[str, str] = {
    # the paper's name: our composition
    "cause": FIXED,
    "cause-no-sc": FIXED,
    "cause with shards in turn": "cause-printed",
    "sisa": "sisa-printed",
    "arcane": "arcane-printed",
    "omp-70": "omp-70-printed",
    "omp-95": "omp-95-printed",
    "cause-u": f"{FIXED}:partition=uniform",
    "cause-c": f"{FIXED}:partition=by-class",
    "cause:policy=fibor": FIXED,
    "cause:policy=random": "cause-no-sc:policy=random",
    "cause:policy=fifo": "cause-no-sc:policy=fifo",
    "cause:policy=unlimited": "cause-no-sc:policy=unlimited",
}


@dataclass(frozen=True)
class Reading:
    """What a reading sets in every simulation."""

    workload: Mapping[str, Any]
    systems: Mapping[str, str]

    def cells(self, cells: Sequence[Cell], more: Sequence[str] = ()) -> list[Cell]:
        """Return simulations in this reading: the same points, with the systems that it knows.

        Parameters
        ----------
        cells
            The simulations of our reading; others are left out.
        more
            Names of further systems, each at the points of CAUSE's simulations.
        """
        read = []
        for cell in cells:
            named = str(cell.settings.get("system"))
            if cell.kind != "count" or named not in self.systems:
                continue
            for name in (named, *(more if named == "cause" else ())):
                marks = {"system": self.systems[name], "reading": PAPER, "named": name}
                read.append(Cell("count", {**cell.settings, **self.workload, **marks}))
        return read


RECENT = Reading({"ages": "recent:0.2", "labels": "iid"}, PRINTED)
ONE_ASKS = Reading({"arrivals": "cohorts", "ages": "current", "scope": "user", "labels": "iid"}, PRINTED)
"""Figure 11: of ten new users one asks, in the same round, for everything."""


def split(done: Sequence[Done]) -> tuple[list[Done], list[Done]]:
    """Return the runs of our reading, and those of the paper's under the paper's names."""
    ours, theirs = [], []
    for run in done:
        if run.cell.settings.get("reading") != PAPER:
            ours.append(run)
        else:
            cell = Cell(run.cell.kind, {**run.cell.settings, "system": run["named"]})
            theirs.append(replace(run, cell=cell))
    return ours, theirs


def with_reading(figure: Figure, reading: Reading = RECENT, more: Sequence[str] = ()) -> Figure:
    """Return a figure that shows its simulations in both readings.

    Parameters
    ----------
    figure
        The figure in our reading.
    reading
        The paper's reading of it.
    more
        Further systems that only the paper's reading has.
    """

    def cells(size: Size) -> list[Cell]:
        planned = figure.cells(size)
        return [*planned, *reading.cells(planned, more)]

    def summarise(done: Sequence[Done]) -> Summary:
        ours, theirs = split(done)
        if not theirs:
            return figure.summarise(ours)
        also_used = [run for run in ours if run.cell.kind == "cost"]  # energies of both come from the same measurements
        read = figure.summarise([*theirs, *also_used])
        return joined(figure.summarise(ours) if ours else Summary(read.columns, [], [], []), read)

    return replace(figure, cells=cells, summarise=summarise)


def joined(ours: Summary, read: Summary) -> Summary:
    """Return one summary of two: claims with both results, rows and plots of one below those of the other."""
    by_claim = {claim.claim: claim for claim in read.claims}
    claims = [_with(claim, by_claim.pop(claim.claim, None)) for claim in ours.claims]
    claims += [_with(replace(claim, ours="–", value=None, sentence=""), claim) for claim in by_claim.values()]
    panels = [*ours.panels, *(replace(panel, title=_titled(panel)) for panel in read.panels)]
    seen = {tuple(row) for row in ours.rows}
    named = [[f"{row[0]}, {NAME}", *row[1:]] for row in read.rows if tuple(row) not in seen]
    columns, rows = _side_by_side((ours.columns, ours.rows), (read.columns, named))
    notes = [*ours.notes, *(f"{NAME.capitalize()}: {note}" for note in read.notes if note not in ours.notes)]
    return Summary(columns, rows, panels, claims, notes)


Table = tuple[list[str], list[list[str]]]


def _side_by_side(one: Table, other: Table) -> Table:
    """Return one table of two; where only some runs of a figure were made, they may have different columns."""
    if one[0] == other[0]:
        return one[0], [*one[1], *other[1]]
    columns = list(dict.fromkeys([*one[0], *other[0]]))
    rows = [dict(zip(names, row, strict=True)) for names, lines in (one, other) for row in lines]
    return columns, [[row.get(column, "–") for column in columns] for row in rows]


def _titled(panel: Panel) -> str:
    return f"{panel.title}, {NAME}" if panel.title else NAME


def _with(claim: Claim, read: Claim | None) -> Claim:
    """Return a claim with the result of the paper's reading, and how far it is from the paper's number."""
    if read is None:
        return claim
    sentence = claim.sentence
    if read.target and read.value is not None:
        sentence = f"{sentence} In {NAME} {100 * (read.value / read.target - 1):+.1f} %.".strip()
    elif not sentence:
        sentence = read.sentence
    return replace(claim, reading=read.ours, sentence=sentence)
