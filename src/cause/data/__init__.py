"""Real data: readers of official formats, one a file, and users who share it."""

from cause.data.dataset import Dataset
from cause.data.front import KNOWN, find, load
from cause.data.users import Shared, share_out

__all__ = ["KNOWN", "Dataset", "Shared", "find", "load", "share_out"]
