"""`cause workload`."""

from pathlib import Path
from typing import Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, print_json, progress_bar


def workload(
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; without it, standard output.")] = None,
    users: o.Users = None,
    rounds: o.Rounds = None,
    samples: o.Samples = None,
    rho: o.Rho = None,
    alpha: o.Alpha = None,
    ages: o.Ages = None,
    scope: o.Scope = None,
    arrivals: o.Arrivals = None,
    labels: o.Labels = None,
    classes: o.Classes = 10,
    seed: o.Seed = 0,
    json: Annotated[
        bool, typer.Option("--json", help="With --out: print one JSON object that says what was written.")
    ] = False,
) -> None:
    """Draw the paper's synthetic workload and write it as a trace (JSON lines)."""
    from cause.errors import InputError
    from cause.lab.trace import write_trace

    if json and out is None:
        raise InputError("--json tells what was written to a file: give --out too (a trace itself is JSON lines)")
    check_files(None, out)
    drawn = o.drawn_of(
        classes,
        seed,
        users=users,
        rounds=rounds,
        samples=samples,
        rho=rho,
        alpha=alpha,
        ages=ages,
        scope=scope,
        arrivals=arrivals,
        labels=labels,
    )
    with progress_bar("drawing a workload") as progress:
        trace = drawn.trace(progress)
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
