"""Drawing panels. The paper's points are hollow, on dotted lines."""

import io
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cause.common.files import write_bytes
from cause.lab.reproduce.summary import Panel, Series

COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7", "#999999", "#009E73", "#F0E442")  # Okabe and Ito
MOST_COLUMNS = 3
LONGEST_TICK = 12
"""Bars with longer names lie, since these would overlap."""


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels side by side, in rows, and write them to a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(MOST_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5 * columns, 3.8 * rows), layout="constrained", squeeze=False)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.series))
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel, names)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file in the format of its suffix, and close it."""
    from matplotlib import pyplot as plt

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, format=path.suffix[1:].lower())
    plt.close(figure)
    write_bytes(path, drawn.getvalue())


def in_thousands(axis: Any) -> None:
    """Label an axis in thousands: 5k."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,g}k"))


def colour_of(index: int) -> str:
    """Return the colour of a line by its number."""
    return COLOURS[index % len(COLOURS)]


def ticks_of(panel: Panel) -> list[Any]:
    """Return the ticks of the x axis: numbers sorted, names in the order of the lines.

    >>> from cause.lab.reproduce.summary import Series
    >>> ticks_of(Panel("", "", "", [Series("ours", [70], [0.5]), Series("theirs", [10, 70], [0.5, 0.6])]))
    [10, 70]
    """
    ticks = list(dict.fromkeys(x for line in panel.series for x in line.x))
    return ticks if any(isinstance(tick, str) for tick in ticks) else sorted(ticks)


def _panel(axis: Any, panel: Panel, names: Sequence[str]) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    ticks = ticks_of(panel)
    if panel.bars and any(len(str(tick)) > LONGEST_TICK for tick in ticks):
        _lying_bars(axis, panel, ticks, names)
        return
    few = len(ticks) <= 12 or panel.bars
    side_by_side = few and not panel.to_scale
    for number, line in enumerate(panel.series):
        at = [ticks.index(x) for x in line.x] if side_by_side else line.x
        look: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "none"} if line.paper else {}
        colour = colour_of(names.index(line.name))
        if panel.bars:
            places, width = _places(at, number, len(panel.series))
            axis.bar(places, line.y, width, yerr=line.error, label=_label(line), **_fill(line, colour))
            continue
        axis.errorbar(
            at,
            line.y,
            yerr=line.error,
            color=colour,
            marker="o" if few else None,
            capsize=3,
            label=_label(line),
            **look,
        )
    if side_by_side:
        axis.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
    axis.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axis.set_title(panel.title, fontsize=10)
    _scale(axis, panel)
    if panel.series and not (panel.bars and len(panel.series) == 1):
        axis.legend(frameon=False, fontsize=7)


def _lying_bars(axis: Any, panel: Panel, ticks: Sequence[Any], names: Sequence[str]) -> None:
    """Draw bars from left to right, since their names are too long to stand side by side."""
    for number, line in enumerate(panel.series):
        places, width = _places([ticks.index(x) for x in line.x], number, len(panel.series))
        colour = colour_of(names.index(line.name))
        axis.barh(places, line.y, width, xerr=line.error, label=_label(line), **_fill(line, colour))
    axis.set_yticks(range(len(ticks)), [str(tick) for tick in ticks], fontsize=7)
    axis.invert_yaxis()
    axis.set(xlabel=panel.ylabel, ylabel=panel.xlabel)
    axis.set_title(panel.title, fontsize=10)
    if max((y for line in panel.series for y in line.y), default=0) > 5000:
        in_thousands(axis.xaxis)
    if len(panel.series) > 1:
        axis.legend(frameon=False, fontsize=7)


def _places(at: Sequence[int], number: int, series: int) -> tuple[list[float], float]:
    """Return where the bars of one series stand among the others, and how wide they are."""
    width = 0.8 / series
    return [place - 0.4 + (number + 0.5) * width for place in at], width


def _label(line: Series) -> str:
    return f"{line.name} (paper)" if line.paper else line.name


def _fill(line: Series, colour: str) -> dict[str, Any]:
    return {"fill": False, "edgecolor": colour} if line.paper else {"color": colour}


def _scale(axis: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    heights = [y for line in panel.series for y in line.y] or [0]
    if panel.log and min(heights) > 0:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(heights) < 1e4 * min(heights) else (1,)))
        axis.yaxis.set_minor_locator(NullLocator())
    elif panel.to_scale and min(heights) >= 0:
        axis.set_ylim(bottom=0)
    if max(heights) > 5000:
        in_thousands(axis.yaxis)
