"""Energy against ρ."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.figures.energy import energy_cells, energy_summary
from cause.lab.reproduce.figures.rsn_rho import RHOS
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Summary


def cells(size: Size) -> list[Cell]:
    """Return the runs at S = 8, as in the paper."""
    return energy_cells(size, "rho", RHOS if size.name != "quick" else RHOS[::2], {"shards": 8})


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the mean over ρ, as in the paper."""
    shares = {other: 1 - less for other, less in paper.ENERGY_RHO.values["less"].items()}
    return energy_summary(done, "rho", "ρ", shares)


FIGURE = with_reading(Figure("energy-rho", "Energy against ρ", paper.ENERGY_RHO, cells, summarise))
