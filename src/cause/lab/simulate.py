"""Simulation: a trace runs through a system that counts samples instead of training, which takes seconds."""

from dataclasses import asdict, dataclass
from typing import Any

from cause.device.device import Cause
from cause.engine.composition import with_pruning_decided
from cause.engine.presets import ADDITIVE, System, paper_sub_model_bytes
from cause.engine.progress import Progress
from cause.errors import InputError
from cause.lab.trace import Trace
from cause.learners import CountingLearner
from cause.learners.counting_sums import CountingSums

MOST_SAMPLES = 50_000_000  # a round of that size takes about 2 GB while it is partitioned


@dataclass(frozen=True)
class Setting:
    """The device that a system runs on."""

    shards: int = 4
    memory: str | int = "2GB"
    slots: int | None = None
    sub_model_bytes: int | None = None
    backbone: str = "resnet34"
    classes: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation."""

    system: str
    rsn: int
    rsn_per_round: list[int]
    requests: int
    replays: int
    floor_rsn: int
    stored: list[list[int]]

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return asdict(self)


def simulate(
    trace: Trace, name: str, system: System, setting: Setting | None = None, progress: Progress | None = None
) -> Simulation:
    """Run a trace through a system and count the retrained samples.

    The floor is what the same system would retrain with an unlimited memory. Which samples are retained, and where,
    does not depend on the memory, so one pass gives both.

    Parameters
    ----------
    trace
        The uploads and requests.
    name
        What the result calls the system.
    system
        The system.
    setting
        The device; by default the paper's.
    progress
        Called after each round.

    Raises
    ------
    InputError
        If the device cannot be made, or the trace is too large for the system.

    Examples
    --------
    >>> from cause.engine.presets import PRESETS
    >>> from cause.lab.trace import parse_trace
    >>> trace = parse_trace(['{"round": 1, "add": {"user": "u7", "count": 31}}',
    ...                      '{"round": 1, "forget": {"user": "u7", "of_round": 1, "count": 5}}'])
    >>> simulate(trace, "cause", PRESETS["cause"]).rsn
    26
    """
    ran = run(trace, system, setting or Setting(), progress)
    stored = ran.device.memory.stored()
    return Simulation(
        system=name,
        rsn=sum(ran.rsn_per_round),
        rsn_per_round=ran.rsn_per_round,
        requests=trace.requests,
        replays=ran.replays,
        floor_rsn=ran.floor_rsn,
        stored=[list(key) if system.slices > 1 else list(key[:2]) for key in stored],
    )


@dataclass(frozen=True)
class Run:
    """One pass over a trace, and the device after it."""

    device: Cause
    rsn_per_round: list[int]
    floor_rsn: int
    replays: int


def device_for(trace: Trace, system: System, setting: Setting) -> Cause:
    """Return the device that is to run a trace; raise an `InputError` if it cannot."""
    if system.looks_at_samples and trace.samples > MOST_SAMPLES:
        raise InputError(
            f"{trace.samples:,} samples are too many to be handled one by one, which partition {system.partition!r}, "
            f"slices and rehearsal need: at most {MOST_SAMPLES:,}"
        )
    additive = system.law == ADDITIVE
    shards = trace.given_shards if system.partition == "given" else 1 if additive else setting.shards

    def size(composed: System) -> int:
        return setting.sub_model_bytes or paper_sub_model_bytes(composed, setting.backbone)

    system = with_pruning_decided(system, size, shards, setting.memory, setting.slots)
    return Cause(
        learner=CountingSums(size(system)) if additive else CountingLearner(size(system)),
        system=system,
        shards=shards,
        memory=setting.memory,
        slots=setting.slots,
        classes=setting.classes,
        seed=setting.seed,
    )


def run(trace: Trace, system: System, setting: Setting, progress: Progress | None = None) -> Run:
    """Run a trace on a new device: learn every round and serve its requests."""
    device = device_for(trace, system, setting)
    rsn_per_round: list[int] = []
    floor_rsn = replays = 0
    for round_ in trace.rounds:
        device.learn(round_.uploads())
        served = device.serve(round_.forgets) if round_.forgets else []
        rsn_per_round.append(sum(result.rsn for result in served))
        shards = [shard for result in served for shard in result.shards]
        floor_rsn += sum(shard.floor for shard in shards)
        replays += len(shards)
        if progress:
            progress(round_.number, len(trace.rounds))
    return Run(device, rsn_per_round, floor_rsn, replays)
