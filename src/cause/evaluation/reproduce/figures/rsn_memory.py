"""RSN against the memory."""

from cause.evaluation.reproduce import paper
from cause.evaluation.reproduce.cell import Cell
from cause.evaluation.reproduce.figures.base import Figure
from cause.evaluation.reproduce.figures.sweeps import sweep_summary, swept
from cause.evaluation.reproduce.size import Size

MEMORIES = ("0.5GB", "1GB", "2GB", "3GB", "4GB")


def cells(size: Size) -> list[Cell]:
    """From 0.5 to 4 GB."""
    return swept(size, "memory", MEMORIES)


FIGURE = Figure(
    "rsn-memory", "RSN against the memory", paper.MEMORY, cells, sweep_summary("memory", "memory", paper.MEMORY)
)
