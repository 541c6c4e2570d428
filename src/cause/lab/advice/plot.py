"""Accuracy against retrained samples."""

from pathlib import Path

from cause.lab.advice.advise import Advice
from cause.lab.reproduce.draw import colour_of, save


def plot(advice: Advice, path: Path) -> None:
    """Draw one point for each measured candidate, numbered as in the legend; the recommended one is ringed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    kinds = list(dict.fromkeys(row.kind for row in advice.rows))
    name = None if advice.chosen is None else advice.chosen.name
    for number, row in enumerate(advice.rows, start=1):
        colour = colour_of(kinds.index(row.kind))
        at = (row.rsn, 100 * row.accuracy)
        axis.errorbar(*at, yerr=100 * row.half_width, fmt="o", color=colour, label=f"{number} {row.name}")
        axis.annotate(str(number), at, xytext=(5, 3), textcoords="offset points", fontsize=8)
        if row.name == name:
            axis.plot(*at, marker="o", markersize=14, fillstyle="none", color="black", linestyle="none")
    axis.set_xscale("symlog", linthresh=1_000)
    axis.set_xlim(left=-200)
    axis.set_xlabel("retrained samples (RSN), simulated over all rounds")
    axis.set_ylabel("accuracy on held-out samples, %")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)
