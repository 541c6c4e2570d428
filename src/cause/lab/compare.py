"""Comparison of several systems on the same traces, over a sweep of shards, memory, slots, ρ or ages."""

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

SWEEPS: Registry[type] = Registry("sweep", {"shards": int, "memory": str, "slots": int, "rho": float, "ages": str})
DRAWN = {"rho": "ρ is", "ages": "the ages are"}
"""The sweeps that change the workload, not the device."""


@dataclass(frozen=True)
class Sweep:
    """One setting and the values that it takes.

    >>> Sweep.parse("shards=1,4")
    Sweep(name='shards', values=(1, 4))
    """

    name: str
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Parse name=value,value,…; raise an `InputError` if it is not that."""
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
    """One simulation to run: a system, the point of the sweep, a seed, a source and the device's setting."""

    system: str
    at: Any
    seed: int
    source: Workload | Trace
    setting: Setting

    def run(self) -> Simulation:
        """Run the simulation."""
        trace = self.source.trace() if isinstance(self.source, Workload) else self.source
        return simulate(trace, *parse_system(self.system), replace(self.setting, seed=self.seed))


def jobs(
    systems: Sequence[str], source: Workload | Trace, setting: Setting, seeds: int, sweep: Sweep | None = None
) -> list[Job]:
    """Return every simulation of a comparison. All are checked, so that none fails after others have run.

    Parameters
    ----------
    systems
        The names of the systems.
    source
        A trace, or a workload that is drawn for each seed.
    setting
        The device.
    seeds
        How many seeds, from 0.
    sweep
        The setting to vary; None for a single point.

    Raises
    ------
    InputError
        If a system, a setting or the sweep is wrong.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"the number of seeds must be from 1 to {MOST_SEEDS:,}, not {seeds}")
    if sweep and sweep.name in DRAWN and isinstance(source, Trace):
        raise InputError(f"{DRAWN[sweep.name]} a property of a drawn workload: a trace cannot be swept over it")
    planned = []
    for at in sweep.values if sweep else (None,):
        setting_at, source_at = setting, source
        if sweep and sweep.name in DRAWN and isinstance(source_at, Workload):
            source_at = replace(source_at, **{sweep.name: at})
        elif sweep and sweep.name == "memory":
            setting_at = replace(setting, memory=at, slots=None)
        elif sweep:
            setting_at = replace(setting, **{sweep.name: at})
        for name in systems:
            _check(name, source, setting_at, sweep)
            for seed in range(seeds):
                source_of_seed = replace(source_at, seed=seed) if isinstance(source_at, Workload) else source_at
                planned.append(Job(name, at, seed, source_of_seed, setting_at))
    return planned


def _check(name: str, source: Workload | Trace, setting: Setting, sweep: Sweep | None) -> None:
    """Raise an `InputError` for an unknown name, or a memory that cannot hold the heads."""
    _, system = parse_system(name)
    if system.partition == "given" and sweep and sweep.name == "shards":
        raise InputError(f"{name} takes the number of shards from the trace: it cannot be swept")
    device_for(source if isinstance(source, Trace) else Trace([]), system, setting)


def run_jobs(planned: Sequence[Job], processes: int, progress: Progress) -> Iterator[tuple[Job, Simulation]]:
    """Run simulations in several processes; yield each with its result, in order."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise InputError(f"the number of processes must be from 1 to {MOST_PROCESSES}, not {processes}")
    if processes == 1 or len(planned) == 1:
        for done, job in enumerate(planned, start=1):
            yield job, job.run()
            progress(done, len(planned))
        return
    pool = ProcessPoolExecutor(min(processes, len(planned)))
    try:
        for done, (job, ran) in enumerate(zip(planned, pool.map(Job.run, planned), strict=True), start=1):
            yield job, ran
            progress(done, len(planned))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Row:
    """One system at one point of the sweep: means over all seeds."""

    system: str
    at: Any
    rsn: Mean
    floor_rsn: Mean
    requests: Mean
    replays: Mean
    rsn_per_round: list[float]
    rsn_by_seed: list[int]


def compare(planned: Sequence[Job], processes: int, progress: Progress) -> list[Row]:
    """Run simulations and return a row for each system and point, averaged over the seeds."""
    runs_by_point: dict[tuple[Any, str], list[Simulation]] = {}
    for job, ran in run_jobs(planned, processes, progress):
        runs_by_point.setdefault((job.at, job.system), []).append(ran)
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
        for (at, system), runs in runs_by_point.items()
    ]


def ratio(row: Row, rows: Sequence[Row], against: str) -> float | None:
    """Return a row's RSN as a share of another system's at the same point; None if that is missing or 0."""
    other = next((candidate for candidate in rows if candidate.at == row.at and candidate.system == against), None)
    return row.rsn.value / other.rsn.value if other and other.rsn.value else None


def as_dict(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows for JSON."""
    return [asdict(row) for row in rows]
