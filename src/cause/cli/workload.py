"""`cause workload`."""

from cause.cli import options as o
from cause.cli import trace_output
from cause.cli.output import check_files, progress_bar


def workload(
    out: trace_output.Out = None,
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
    json: trace_output.AsJson = False,
) -> None:
    """Draw the paper's synthetic workload and write it as a trace (JSON lines)."""
    trace_output.check_options(out, json=json)
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
    trace_output.deliver(trace, out, json=json)
