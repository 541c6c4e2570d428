"""`cause trace`."""

from cause.cli import homes as h
from cause.cli import trace_output


def trace(home: h.HomeFolder, out: trace_output.Out = None, json: trace_output.AsJson = False) -> None:
    """Write a home's history as a trace with shards (JSON lines): pseudonyms and counts, no names and no samples."""
    from cause.common.files import check_writable, refuse_same

    trace_output.check_options(out, json=json)
    if out is not None:
        check_writable(out)
        refuse_same(out, h.key_files(home))
    with h.opened_home(home) as opened_home:
        from cause.lab.home_trace import history

        home_trace = history(opened_home)
    trace_output.deliver(home_trace, out, json=json)
