"""The commands together, and how they fail: one line, exit code 2, no traceback."""

import sys
from typing import Annotated, Never

import typer

from cause import __version__
from cause.cli import ablate, balance, compare, doctor, simulate, systems, workload
from cause.errors import CauseError

app = typer.Typer(
    name="cause",
    help="Exact machine unlearning on resource-constrained devices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("simulate")(simulate.simulate)
app.command("compare")(compare.compare)
app.command("ablate")(ablate.ablate)
app.command("balance")(balance.balance)
app.command("workload")(workload.workload)
app.command("systems")(systems.systems)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
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
    """Run the command line."""
    try:
        sys.exit(app(args, standalone_mode=False) or 0)
    except CauseError as error:
        _fail(str(error))
    except typer.Abort:
        _fail("stopped", 130)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader left; there is nobody to tell
        sys.exit(1)
    except Exception as problem:
        # What typer says of wrong options; its base class is not public. Anything else is a defect: show it whole.
        told = getattr(problem, "format_message", None)
        if told is None:
            raise
        _fail(" ".join(told().split()))


def _fail(message: str, code: int = 2) -> Never:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
