"""RSN against ρ."""

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.figures.sweeps import sweep_summary, swept
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import Size

RHOS = (0.1, 0.2, 0.3, 0.4, 0.5)


def cells(size: Size) -> list[Cell]:
    """Return the runs: ρ from 0.1 to 0.5."""
    return swept(size, "rho", RHOS)


FIGURE = with_reading(Figure("rsn-rho", "RSN against ρ", paper.RHO, cells, sweep_summary("rho", "ρ", paper.RHO)))
