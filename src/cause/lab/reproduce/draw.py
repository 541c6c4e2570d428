"""Drawing panels. The paper's points are hollow, on dotted lines."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cause.lab.plots import colour_of, in_thousands, save
from cause.lab.reproduce.summary import Panel

MOST_COLUMNS = 3


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
    few = len(ticks) <= 12 or panel.bars
    side_by_side = few and not panel.to_scale
    for number, line in enumerate(panel.series):
        at = [ticks.index(x) for x in line.x] if side_by_side else line.x
        look: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "none"} if line.paper else {}
        label = f"{line.name} (paper)" if line.paper else line.name
        colour = colour_of(names.index(line.name))
        if panel.bars:
            wide = 0.8 / len(panel.series)
            left = [place - 0.4 + (number + 0.5) * wide for place in at]
            hollow = {"fill": False, "edgecolor": colour} if line.paper else {"color": colour}
            axis.bar(left, line.y, wide, yerr=line.error, label=label, **hollow)
            continue
        axis.errorbar(
            at, line.y, yerr=line.error, color=colour, marker="o" if few else None, capsize=3, label=label, **look
        )
    if side_by_side:
        axis.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
    axis.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axis.set_title(panel.title, fontsize=10)
    _scale(axis, panel)
    if panel.series and not (panel.bars and len(panel.series) == 1):
        axis.legend(frameon=False, fontsize=7)


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
