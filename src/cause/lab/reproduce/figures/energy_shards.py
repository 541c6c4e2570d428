"""Energy against the number of shards."""

from collections.abc import Sequence

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.figures.energy import energy_cells, energy_summary
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import SHARDS, Size
from cause.lab.reproduce.summary import Summary


def cells(size: Size) -> list[Cell]:
    """Return the runs at ρ = 0.3, as in the paper."""
    return energy_cells(size, "shards", size.shards, {"rho": 0.3})


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise the energy at the most shards, as in the paper."""
    return energy_summary(done, "shards", "S", paper.ENERGY_SHARDS.values["share"], last=SHARDS[-1])


FIGURE = with_reading(
    Figure("energy-shards", "Energy against the number of shards", paper.ENERGY_SHARDS, cells, summarise)
)
