"""The command line: `cause`."""

from cause.cli.app import main

__all__ = ["main"]
