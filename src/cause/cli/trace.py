"""`cause trace`."""

from pathlib import Path
from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli.output import print_json
from cause.errors import InputError


def trace(
    home: h.HomeFolder,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; without it, standard output.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="With --out: print one JSON object that says what was written.")
    ] = False,
) -> None:
    """Write a home's history as a trace with shards (JSON lines): pseudonyms and counts, no names and no samples."""
    from cause.common.files import check_writable, refuse_same
    from cause.lab.trace import write_trace

    if json and out is None:
        raise InputError("--json tells what was written to a file: give --out too (a trace itself is JSON lines)")
    if out is not None:
        check_writable(out)
        refuse_same(out, h.key_files(home))
    with h.opened_home(home) as opened_home:
        from cause.lab.home_trace import history

        trace_ = history(opened_home)
    if out is None:
        for line in trace_.lines():
            print(line)
        return
    write_trace(trace_, out)
    summary = {"file": str(out), "rounds": len(trace_.rounds), "samples": trace_.samples, "requests": trace_.requests}
    if json:
        print_json(summary)
    else:
        print("wrote {file}: {rounds} rounds, {samples:,} samples, {requests:,} requests".format(**summary))
