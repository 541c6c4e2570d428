"""Options that several commands share, and the settings and workloads that they describe."""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.errors import InputError

if TYPE_CHECKING:
    from cause.lab.reproduce.on_cluster import Cluster
    from cause.lab.reproduce.resources import Resources
    from cause.lab.simulate import Setting
    from cause.lab.trace import Trace
    from cause.lab.workload import Workload


def _complete(module: str, table: str) -> Any:
    def names(incomplete: str) -> list[str]:
        from importlib import import_module

        return [name for name in getattr(import_module(module), table) if name.startswith(incomplete)]

    return names


_SYSTEMS = _complete("cause.engine.presets", "PRESETS")

SystemName = Annotated[
    str, typer.Option(help="A preset, or one with parts exchanged: cause:policy=cost.", autocompletion=_SYSTEMS)
]
SystemNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Presets, or presets with parts exchanged (cause:policy=cost,requests=coalesced). "
        "Default: the paper's five, cause-no-sc and frugal.",
        autocompletion=_SYSTEMS,
        show_default=False,
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(help="Exchange the partition.", autocompletion=_complete("cause.engine.partition", "PARTITIONERS")),
]
Policy = Annotated[
    str | None,
    typer.Option(help="Exchange the replacement policy.", autocompletion=_complete("cause.engine.memory", "POLICIES")),
]
Requests = Annotated[
    str | None,
    typer.Option(
        help="Serve waiting requests one-by-one or coalesced.",
        autocompletion=_complete("cause.engine.presets", "REQUESTS"),
    ),
]
Slices = Annotated[int | None, typer.Option(help="Segments a round (SISA's slices).")]
RehearsalShare = Annotated[
    float | None, typer.Option("--rehearsal", help="Earlier samples trained on once more, as a share of the new ones.")
]

TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", help="A trace (JSON lines; - is standard input); without it the paper's workload is drawn."
    ),
]
Shards = Annotated[
    int | None, typer.Option(help="S, the number of shards; 'given' takes it from the trace. [default: 4]")
]
MemorySize = Annotated[str | None, typer.Option("--memory", help="Budget for sub-models. [default: 2GB]")]
Slots = Annotated[int | None, typer.Option(help="Budget as a number of sub-models, instead of --memory.")]
SubModelSize = Annotated[
    str | None, typer.Option("--submodel-size", help="Size of one sub-model. [default: the paper's for the backbone]")
]
Backbone = Annotated[
    str,
    typer.Option(
        help="Whose sizes in the paper to take.", autocompletion=_complete("cause.engine.presets", "BACKBONES")
    ),
]
Users = Annotated[int | None, typer.Option(help="Users to draw. [default: 100]")]
Rounds = Annotated[int | None, typer.Option(help="Rounds to draw. [default: 10]")]
Samples = Annotated[int | None, typer.Option(help="Samples to draw. [default: 50000]")]
Rho = Annotated[float | None, typer.Option(help="ρ: how likely a user asks in a round. [default: 0.1]")]
Alpha = Annotated[float | None, typer.Option(help="α: how even a user's labels are. [default: 0.5]")]
First = Annotated[int | None, typer.Option(min=0, help="List from this number on.", show_default=False)]
Most = Annotated[
    int | None,
    typer.Option(min=1, help="List so many: by default the newest 50, with --json all.", show_default=False),
]
Ages = Annotated[
    str | None,
    typer.Option(
        help="Age of the data that requests name, in rounds: uniform, current, recent:FACTOR (P(age a) ∝ FACTOR^a, "
        "with 0 < FACTOR ≤ 1), weights:N,N,… by age, or trace:FILE as often as in that trace. [default: uniform]"
    ),
]
Scope = Annotated[
    str | None,
    typer.Option(
        help="What a request takes: a random part of a round, a whole round, or the whole user. [default: part]",
        autocompletion=_complete("cause.lab.workload", "SCOPES"),
    ),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        help="How users come: every-round (all upload in each) or cohorts (each uploads once). [default: every-round]",
        autocompletion=_complete("cause.lab.workload", "ARRIVALS"),
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Classes of a user's samples: dirichlet (see --alpha) or iid. [default: dirichlet]",
        autocompletion=_complete("cause.lab.workload", "LABELS"),
    ),
]
Classes = Annotated[int, typer.Option(help="Number of classes.")]
Seed = Annotated[int, typer.Option(help="Root seed.")]
Seeds = Annotated[int, typer.Option(help="How many seeds to average over, from 0.")]
Jobs = Annotated[int | None, typer.Option(help="Processes to run at once. [default: one a core]")]
RayRuns = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Run on the Ray cluster at this address: HOST:PORT, or auto."),
]
PerRun = Annotated[
    str | None,
    typer.Option("--per-worker", help="With --ray: what each run needs, as cpus=1,gpus=0.1. [default: cpus=1]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
OutFile = Annotated[
    Path | None, typer.Option("--out", help="Write the result with command, commit, machine and date (JSON).")
]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw the result (PNG).")]


def setting_of(
    shards: int | None,
    memory: str | None,
    slots: int | None,
    submodel_size: str | None,
    backbone: str,
    classes: int,
    seed: int,
) -> "Setting":
    """Return the setting of the device that the options describe.

    The parameters are the options of the same names; None takes the default.

    Raises
    ------
    InputError
        If an option is out of range, or both memory and slots are given.
    """
    from cause.common.units import parse_bytes
    from cause.engine.checks import check_classes
    from cause.engine.controller import ShardController
    from cause.engine.presets import BACKBONES
    from cause.lab.simulate import Setting

    if memory is not None and slots is not None:
        raise InputError("give either --memory or --slots, not both")
    if seed < 0:
        raise InputError(f"a seed must not be negative: {seed}")
    ShardController(4 if shards is None else shards)
    check_classes(classes)
    BACKBONES[backbone]
    size_bytes = None if submodel_size is None else parse_bytes(submodel_size)
    memory = "2GB" if memory is None else memory
    parse_bytes(memory)
    return Setting(4 if shards is None else shards, memory, slots, size_bytes, backbone, classes, seed)


def cluster_of(ray: str | None, per_worker: str | None) -> "Cluster | None":
    """Return the cluster that a command named; None to run on this machine."""
    if ray is None:
        if per_worker is not None:
            raise InputError("--per-worker says what a run on a cluster needs: name the cluster with --ray")
        return None
    from cause.executors.cluster.resources import parse_per_worker
    from cause.lab.reproduce.on_cluster import Cluster

    return Cluster(ray, {"cpus": 1.0} if per_worker is None else parse_per_worker(per_worker))


def resources_of(jobs: int | None, ray: str | None = None, per_worker: str | None = None) -> "Resources":
    """Return where simulations run: in so many processes at once, one a core without a number, or on a cluster."""
    if ray is not None and jobs is not None:
        raise InputError("--jobs is for this machine: on a cluster, --per-worker decides how many run at once")
    from cause.common.machine import cores
    from cause.lab.reproduce.resources import Resources, check_processes

    processes = cores() if jobs is None else jobs
    check_processes(processes)
    return Resources(workers=processes, cluster=cluster_of(ray, per_worker))


@contextmanager
def trace_file(source: "Trace | Workload", trace: Path | None) -> Iterator[Path | None]:
    """Yield the file of a trace for other processes to read: a copy where it came from standard input."""
    if trace is None or str(trace) != "-":
        yield trace
        return
    from tempfile import TemporaryDirectory

    from cause.lab.trace import Trace, write_trace

    assert isinstance(source, Trace)
    with TemporaryDirectory() as folder:
        write_trace(source, Path(folder) / "trace.jsonl")
        yield Path(folder) / "trace.jsonl"


def source_of(
    trace: Path | None, partitions: Collection[str], classes: int, seed: int, **drawn: float | str | None
) -> "Trace | Workload":
    """Return what to run: a trace, or a workload to draw.

    Parameters
    ----------
    trace
        The file of a trace; - is standard input; None draws a workload.
    partitions
        The partitions that the trace must be usable with.
    classes
        The number of classes.
    seed
        The seed of a workload.
    drawn
        The options of a workload; None takes the default.

    Raises
    ------
    InputError
        If the trace is wrong, if options of a workload are given with a trace, or if `given` is used without one.
    """
    if trace is not None:
        from cause.lab.trace import parse_trace, read_trace

        for name in (name for name, value in drawn.items() if value is not None):
            raise InputError(f"--{name} draws a workload, but --trace was given")
        if str(trace) == "-":
            lines = sys.stdin.buffer.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
            return parse_trace(lines, source="standard input", partitions=partitions, classes=classes)
        return read_trace(trace, partitions=partitions, classes=classes)
    if "given" in partitions:
        raise InputError("partition 'given' needs a --trace that names the shards")
    return drawn_of(classes, seed, **drawn)


def drawn_of(classes: int, seed: int, **drawn: float | str | None) -> "Workload":
    """Return the workload that the options describe; None takes the default.

    Raises
    ------
    InputError
        If an option is out of range, or options contradict each other.
    """
    from cause.lab.workload import DIRICHLET, IID, Workload

    if drawn.get("labels") == IID and drawn.get("alpha") is not None:
        raise InputError(f"--alpha shapes the labels of --labels {DIRICHLET}, but --labels {IID} was given")
    options: dict[str, Any] = {name: value for name, value in drawn.items() if value is not None}
    if "ages" in options:
        options["ages"] = ages_of(options["ages"])
    return Workload(seed=seed, classes=classes, **options)


def ages_of(text: str) -> str:
    """Return the option --ages with `trace:FILE` replaced by the weights that the trace has."""
    kind, _, path = text.partition(":")
    if kind != "trace":
        return text
    from cause.lab.ages import Ages as Distribution
    from cause.lab.trace import read_trace

    if not path:
        raise InputError("--ages trace:FILE needs the file of a trace")
    return str(Distribution.of_trace(read_trace(path)))
