"""Several systems on the same traces, over a sweep of shards, memory, slots or ρ."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from cause.common.registry import Registry
from cause.common.statistics import Mean
from cause.engine.presets import parse_system
from cause.engine.progress import Progress
from cause.errors import InputError
from cause.lab.simulate import Setting, Simulation, device_for, simulate
from cause.lab.trace import Trace
from cause.lab.workload import Workload

DEFAULT_SYSTEMS = ("cause", "cause-no-sc", "sisa", "arcane", "omp-70", "omp-95", "frugal")
MOST_SEEDS = 10_000
MOST_PROCESSES = 256

SWEEPS: Registry[type] = Registry("sweep", {"shards": int, "memory": str, "slots": int, "rho": float})


@dataclass(frozen=True)
class Sweep:
    """One setting that takes several values.

    >>> Sweep.parse("shards=1,4")
    Sweep(name='shards', values=(1, 4))
    """

    name: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Read name=value,value,…"""
        name, _, listed = text.partition("=")
        kind = SWEEPS[name]
        try:
            values = tuple(dict.fromkeys(kind(value.strip()) for value in listed.split(",") if value.strip()))
        except ValueError:
            raise InputError(f"a sweep of {name} takes {kind.__name__} values, not {listed!r}") from None
        if not values:
            raise InputError(f"a sweep needs values: {name}=…,…")
        return cls(name, values)


@dataclass(frozen=True)
class Job:
    """One simulation to run."""

    system: str
    at: Any
    seed: int
    source: Workload | Trace
    setting: Setting

    def run(self) -> Simulation:
        """Run it."""
        trace = self.source.trace() if isinstance(self.source, Workload) else self.source
        return simulate(trace, *parse_system(self.system), replace(self.setting, seed=self.seed))


def jobs(
    systems: Sequence[str], source: Workload | Trace, setting: Setting, seeds: int, sweep: Sweep | None = None
) -> list[Job]:
    """Every simulation of a comparison, checked: nothing runs before all of them can."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"the number of seeds must be from 1 to {MOST_SEEDS:,}, not {seeds}")
    if sweep and sweep.name == "rho" and isinstance(source, Trace):
        raise InputError("ρ is a property of a drawn workload: a trace cannot be swept over it")
    wanted = []
    for at in sweep.values if sweep else (None,):
        here, drawn = setting, source
        if sweep and sweep.name == "rho" and isinstance(drawn, Workload):
            drawn = replace(drawn, rho=at)
        elif sweep and sweep.name == "memory":
            here = replace(setting, memory=at, slots=None)
        elif sweep:
            here = replace(setting, **{sweep.name: at})
        for name in systems:
            _check(name, source, here, sweep)
            for seed in range(seeds):
                own = replace(drawn, seed=seed) if isinstance(drawn, Workload) else drawn
                wanted.append(Job(name, at, seed, own, here))
    return wanted


def _check(name: str, source: Workload | Trace, setting: Setting, sweep: Sweep | None) -> None:
    """Fail now on what would fail later: an unknown name, a budget below the heads."""
    _, system = parse_system(name)
    if system.partition == "given" and sweep and sweep.name == "shards":
        raise InputError(f"{name} takes the number of shards from the trace: it cannot be swept")
    device_for(source if isinstance(source, Trace) else Trace([]), system, setting)


def run_jobs(wanted: Sequence[Job], processes: int, progress: Progress) -> Iterator[tuple[Job, Simulation]]:
    """Run them, several at once, in order."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise InputError(f"the number of processes must be from 1 to {MOST_PROCESSES}, not {processes}")
    if processes == 1 or len(wanted) == 1:
        for done, job in enumerate(wanted, start=1):
            yield job, job.run()
            progress(done, len(wanted))
        return
    pool = ProcessPoolExecutor(min(processes, len(wanted)))
    try:
        for done, (job, ran) in enumerate(zip(wanted, pool.map(Job.run, wanted), strict=True), start=1):
            yield job, ran
            progress(done, len(wanted))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Row:
    """One system at one point of the sweep, over all seeds."""

    system: str
    at: Any
    rsn: Mean
    floor_rsn: Mean
    requests: Mean
    replays: Mean
    rsn_per_round: list[float]
    rsn_by_seed: list[int]


def compare(wanted: Sequence[Job], processes: int, progress: Progress) -> list[Row]:
    """Run a comparison and average over its seeds."""
    found: dict[tuple[Any, str], list[Simulation]] = {}
    for job, ran in run_jobs(wanted, processes, progress):
        found.setdefault((job.at, job.system), []).append(ran)
    return [
        Row(
            system,
            at,
            Mean.of([ran.rsn for ran in runs]),
            Mean.of([ran.floor_rsn for ran in runs]),
            Mean.of([ran.requests for ran in runs]),
            Mean.of([ran.replays for ran in runs]),
            [sum(column) / len(runs) for column in zip(*(ran.rsn_per_round for ran in runs), strict=True)],
            [ran.rsn for ran in runs],
        )
        for (at, system), runs in found.items()
    ]


def ratio(row: Row, rows: Sequence[Row], against: str) -> float | None:
    """A row's RSN as a share of another system's at the same point."""
    other = next((each for each in rows if each.at == row.at and each.system == against), None)
    return row.rsn.value / other.rsn.value if other and other.rsn.value else None


def as_dict(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(row) for row in rows]
