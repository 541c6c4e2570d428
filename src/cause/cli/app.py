"""The command line `cause`: one line with exit code 2 instead of a traceback when a command fails."""

import io
import os
import signal
import sys
import warnings
from typing import Annotated, Never, TextIO

import typer

from cause.cli.commands import CommandGroup
from cause.cli.pending_effects import take_effects, with_effects
from cause.common.version import __version__
from cause.errors import CauseError

app = typer.Typer(
    name="cause",
    cls=CommandGroup,
    help="Exact machine unlearning on resource-constrained devices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        print(f"cause {__version__}")
        raise typer.Exit


@app.callback()
def _cause(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exact machine unlearning on resource-constrained devices."""


def main(args: list[str] | None = None) -> Never:
    """Run the command line and exit.

    Parameters
    ----------
    args
        The arguments; by default those of the process.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds the stack, which ends the worker processes
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not be able to show ρ or ×
    warnings.showwarning = _note
    try:
        take_effects()
        code = app(args, standalone_mode=False)
        if sys.stdout is not None:  # a process may be started without one
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except CauseError as error:
        _fail(str(error))
    except typer.Abort:
        _fail("stopped", 130)
    except KeyboardInterrupt as stop:
        _fail("; ".join(["stopped", *getattr(stop, "__notes__", ())]), 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has closed the pipe: discard what is buffered
        for effect in take_effects():
            print(f"note: {effect}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(with_effects(f"cannot write the output: {error.strerror}"))
    except Exception as problem:
        # An error of typer about wrong options; its base class is not public. Anything else is a defect: raise it.
        format_message = getattr(problem, "format_message", None)
        if format_message is None:
            raise
        if not format_message():
            sys.exit(0)  # `cause` without a command has printed its help
        _fail(" ".join(format_message().split()))


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in the code that a Python warning names."""
    print(f"note: {message}", file=file or sys.stderr)


def _fail(message: str, code: int = 2) -> Never:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
