"""Plots of results. matplotlib is imported only when something is drawn."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cause.common.files import write_bytes
from cause.lab.ablation import VARIANTS
from cause.lab.balance import Spread
from cause.lab.compare import Row

if TYPE_CHECKING:
    from cause.lab.demo import Outcome  # imports torch

COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7", "#999999", "#009E73", "#F0E442")  # Okabe and Ito


def _figure(width: float, height: float, panels: int = 1) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    return figure, axes[0]


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


def plot_compare(rows: Sequence[Row], sweep: str | None, path: Path) -> None:
    """Draw a comparison: bars and rounds for one setting, or lines over a sweep."""
    systems = list(dict.fromkeys(row.system for row in rows))
    if sweep is None:
        figure, (bars, lines) = _figure(11, 4.2, panels=2)
        for index, row in enumerate(rows):
            bars.barh(row.system, row.rsn.value, xerr=row.rsn.half_width or 0, color=colour_of(index), capsize=3)
            bars.plot([row.floor_rsn.value] * 2, [index - 0.4, index + 0.4], color="black", linewidth=1.5)
            lines.plot(
                range(1, len(row.rsn_per_round) + 1), row.rsn_per_round, color=colour_of(index), label=row.system
            )
        bars.invert_yaxis()
        in_thousands(bars.xaxis)
        bars.set(xlabel="retrained samples (black: floor of an unlimited memory)")
        lines.set(xlabel="round", ylabel="retrained samples in the round", yscale="symlog")
        in_thousands(lines.yaxis)
        lines.legend(frameon=False, fontsize=8)
    else:
        figure, (axis,) = _figure(7, 4.5)
        for index, system in enumerate(systems):
            rows_of_system = [row for row in rows if row.system == system]
            at = [str(row.at) for row in rows_of_system]
            spread = [row.rsn.half_width or 0 for row in rows_of_system]
            axis.errorbar(
                at,
                [row.rsn.value for row in rows_of_system],
                yerr=spread,
                color=colour_of(index),
                marker="o",
                capsize=3,
                label=system,
            )
        axis.set(xlabel=sweep, ylabel="retrained samples", yscale="log" if all(r.rsn.value for r in rows) else "linear")
        in_thousands(axis.yaxis)
        axis.legend(frameon=False, fontsize=8)
    save(figure, path)


def plot_ablation(rows: Sequence[Row], titles: Sequence[tuple[int | None, str]], path: Path) -> None:
    """Draw an ablation: a panel for each memory."""
    names = {system: shown for shown, system in VARIANTS}
    figure, axes = _figure(13, 5.5, panels=len(titles))
    for axis, (at, title) in zip(axes, titles, strict=True):
        rows_at = [row for row in rows if row.at == at]
        for row in rows_at:
            colour = COLOURS[0] if row.system == "cause" else COLOURS[2] if row.system == "sisa" else COLOURS[1]
            axis.barh(names[row.system], row.rsn.value, xerr=row.rsn.half_width or 0, color=colour, capsize=2)
        axis.invert_yaxis()
        axis.set(title=title, xlabel="retrained samples")
        in_thousands(axis.xaxis)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    save(figure, path)


def plot_balance(spreads: Sequence[Spread], path: Path) -> None:
    """Draw the spread of shard sizes over the number of shards."""
    figure, (axis,) = _figure(7, 4.2)
    for index, (when, strategy) in enumerate(dict.fromkeys((spread.when, spread.strategy) for spread in spreads)):
        of_strategy = [spread for spread in spreads if (spread.when, spread.strategy) == (when, strategy)]
        axis.errorbar(
            [spread.shards for spread in of_strategy],
            [100 * spread.spread.value for spread in of_strategy],
            yerr=[100 * (spread.spread.half_width or 0) for spread in of_strategy],
            color=colour_of(index),
            marker="o",
            capsize=3,
            label=f"{strategy}, {when}",
        )
    axis.set(xlabel="shards", ylabel="spread of shard sizes, % of the mean")
    axis.legend(frameon=False)
    save(figure, path)


def plot_demo(outcomes: "Sequence[Outcome]", path: Path) -> None:
    """Draw the demo: accuracy, retrained samples, and the time spent on requests."""
    panels: tuple[tuple[str, list[float]], ...] = (
        ("accuracy of the vote", [outcome.accuracy for outcome in outcomes]),
        ("retrained samples", [outcome.rsn for outcome in outcomes]),
        ("seconds spent on requests", [outcome.forget_s for outcome in outcomes]),
    )
    figure, axes = _figure(11, 3.2, panels=len(panels))
    for axis, (title, values) in zip(axes, panels, strict=True):
        axis.barh([outcome.system for outcome in outcomes], values, color=[colour_of(i) for i in range(len(values))])
        axis.invert_yaxis()
        axis.set(xlabel=title)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    save(figure, path)
