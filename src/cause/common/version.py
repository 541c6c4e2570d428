"""The version of this software, as receipts, results and `/v1/status` name it."""

__version__ = "0.2.0"
