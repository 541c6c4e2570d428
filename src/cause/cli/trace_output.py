"""The output of commands that write a trace: its options, the check of them, and the writing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli.output import print_json
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.lab.trace import Trace

Out = Annotated[Path | None, typer.Option("--out", help="The file to write; without it, standard output.")]
AsJson = Annotated[bool, typer.Option("--json", help="With --out: print one JSON object that says what was written.")]


def check_options(out: Path | None, *, json: bool) -> None:
    """Raise an `InputError` for `--json` without `--out`: the trace itself is on standard output then."""
    if json and out is None:
        raise InputError("--json tells what was written to a file: give --out too (a trace itself is JSON lines)")


def deliver(trace: "Trace", out: Path | None, *, json: bool) -> None:
    """Print a trace, or write it to a file and print a summary."""
    from cause.lab.trace import write_trace

    if out is None:
        for line in trace.lines():
            print(line)
        return
    write_trace(trace, out)
    summary = {"file": str(out), "rounds": len(trace.rounds), "samples": trace.samples, "requests": trace.requests}
    if json:
        print_json(summary)
    else:
        print("wrote {file}: {rounds} rounds, {samples:,} samples, {requests:,} requests".format(**summary))
