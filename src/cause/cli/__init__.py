"""The command line: `cause`."""

import sys
from typing import Never

__all__ = ["main"]


def main(args: list[str] | None = None) -> Never:
    """Import the commands and run one; Ctrl-C during the import is one line, too.

    Parameters
    ----------
    args
        The arguments; by default those of the process.
    """
    try:
        from cause.cli import app
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(130)
    app.main(args)
