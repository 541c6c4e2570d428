"""RSN against the memory."""

from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell
from cause.lab.reproduce.figures.base import Figure
from cause.lab.reproduce.figures.sweeps import sweep_summary, swept
from cause.lab.reproduce.readings import with_reading
from cause.lab.reproduce.size import Size

MEMORIES = ("0.5GB", "1GB", "2GB", "3GB", "4GB")


def cells(size: Size) -> list[Cell]:
    """Return the runs: memories from 0.5 to 4 GB."""
    return swept(size, "memory", MEMORIES)


FIGURE = with_reading(
    Figure("rsn-memory", "RSN against the memory", paper.MEMORY, cells, sweep_summary("memory", "memory", paper.MEMORY))
)
