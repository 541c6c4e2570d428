"""Readers of data sets in their official formats, and of files that users upload; one format a file."""

from cause.data.dataset import Dataset
from cause.data.loading import KNOWN, find, load

__all__ = ["KNOWN", "Dataset", "find", "load"]
