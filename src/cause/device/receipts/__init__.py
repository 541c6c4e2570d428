"""Signed receipts of erasures, in a log."""
