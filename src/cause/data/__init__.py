"""Real data: readers of official formats, one a file."""

from cause.data.dataset import Dataset
from cause.data.front import KNOWN, find, load

__all__ = ["KNOWN", "Dataset", "find", "load"]
