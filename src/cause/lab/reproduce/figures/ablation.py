"""CAUSE with one part exchanged at a time, with plenty of memory and with little: `cause ablate`."""

from collections.abc import Sequence
from dataclasses import replace

from cause.errors import InputError
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, largest
from cause.lab.reproduce.figures.comparison import comparison_cells, rows_of, share_of
from cause.lab.reproduce.simulations import Row
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, percent
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

VARIANTS: tuple[tuple[str, str], ...] = (
    # label in the table, system
    ("CAUSE (the paper's)", "cause"),
    ("· without shard controller", "cause-no-sc"),
    ("· partition uniform", "cause-u"),
    ("· partition by class", "cause-c"),
    ("· policy random", "cause:policy=random"),
    ("· policy fifo", "cause:policy=fifo"),
    ("· policy static", "cause:policy=static"),
    ("· policy latest", "cause:policy=latest"),
    ("· policy cost (ours)", "cause:policy=cost"),
    ("· policy adaptive (ours)", "cause:policy=adaptive"),
    ("· memory unlimited (floor)", "cause:policy=unlimited"),
    ("· requests coalesced (ours)", "cause:requests=coalesced"),
    ("No SC · policy cost", "cause-no-sc:policy=cost"),
    ("No SC · policy adaptive", "cause-no-sc:policy=adaptive"),
    ("No SC · memory unlimited (floor)", "cause-no-sc:policy=unlimited"),
    ("No SC · requests coalesced", "cause-no-sc:requests=coalesced"),
    ("No SC · partition balanced (ours)", "cause-no-sc:partition=balanced"),
    ("frugal: all of ours", "frugal"),
    ("frugal · memory unlimited (floor)", "frugal:policy=unlimited"),
    ("SISA", "sisa"),
)
TIGHT_SLOTS = (16, 8)
NOTE = "Rows with · change one part of CAUSE. Sub-models are counted in slots: 2 GB are 67 of CAUSE's."


def ablation_cells(workload: Workload, setting: Setting, seeds: int) -> list[Cell]:
    """Return the simulations of every variant, at the memory of the setting and at 16 and 8 slots.

    Raises
    ------
    InputError
        If the fewest slots cannot hold the heads, or there are too few or too many seeds.
    """
    if setting.shards > min(TIGHT_SLOTS):
        raise InputError(
            f"the ablation looks at memories of {' and '.join(map(str, TIGHT_SLOTS))} slots: they hold the heads of at "
            f"most {min(TIGHT_SLOTS)} shards, not {setting.shards}"
        )
    systems = [system for _, system in VARIANTS]
    return [
        cell
        for slots in (None, *TIGHT_SLOTS)
        for cell in comparison_cells(systems, workload, replace(setting, slots=slots), seeds)
    ]


def columns_of(memory: str | int) -> list[tuple[int | None, str]]:
    """Return the columns of the table: the number of slots (None: the memory), and the title."""
    return [(None, f"{memory} (default)"), *((slots, f"{slots} slots") for slots in TIGHT_SLOTS)]


def table_of(rows: Sequence[Row], memory: str | int) -> tuple[list[str], list[list[str]]]:
    """Return the columns and lines of the table that the command prints."""
    by_point, titles = {(row.system, row.at): row for row in rows}, columns_of(memory)
    lines = []
    for shown, system in VARIANTS:
        line = [shown]
        for at, _ in titles:
            row = by_point.get((system, at))
            share = share_of(row, rows, "cause") if row else None
            line += [f"{row.rsn:,.0f}" if row else "–", "–" if share is None else f"{share:.0%}"]
        lines.append(line)
    return ["", *(name for _, title in titles for name in (title, "of CAUSE's"))], lines


def panels_of(rows: Sequence[Row], memory: str | int) -> list[Panel]:
    """Return the plots: bars for each memory."""
    names = {system: shown for shown, system in VARIANTS}
    panels = []
    for at, title in columns_of(memory):
        own = [row for row in rows if row.at == at]
        errors = [row.rsn.half_width or 0.0 for row in own]
        bars = Series("RSN", [names[row.system] for row in own], [row.rsn.value for row in own], errors)
        panels.append(Panel(title, "", "retrained samples", [bars], bars=True))
    return panels


def cells(size: Size) -> list[Cell]:
    """Return the runs: every variant at three memories."""
    return [size.counting(system, slots=slots) for slots in (None, *TIGHT_SLOTS) for _, system in VARIANTS]


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise what each part of CAUSE saves."""
    counted = largest(of_kind(done, "count"))
    rows, memory = rows_of(counted, "slots"), counted[0]["memory"]
    columns, lines = table_of(rows, memory)
    claims = []
    for shown, system in VARIANTS[1:]:
        for row in rows:
            share = share_of(row, rows, "cause") if row.system == system and row.at == min(TIGHT_SLOTS) else None
            if share is not None:
                sentence = f"{row.rsn:,.0f} retrained samples."
                what = f"RSN at {row.at} slots as a share of CAUSE's: {shown.removeprefix('· ')}"
                claims.append(Claim(what, "–", percent(share), counted_size(counted), sentence))
    return Summary(columns, lines, panels_of(rows, memory), claims, [NOTE])


FIGURE = Figure("ablation", "CAUSE with one part exchanged", paper.ABLATION, cells, summarise)
