"""Replays shards on an executor, and so also on several machines, and compares the sub-models with the stored ones."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cause.engine.chain import Chain
from cause.engine.executor import Executor, ShardError, ShardWork, Task
from cause.engine.samples import SegmentKey
from cause.errors import ChangedError

if TYPE_CHECKING:
    from cause.device.core import DeviceCore


@dataclass(frozen=True)
class Run:
    """Segments of a shard that are trained one after the other, and what is stored of them."""

    parent: bytes | None
    """Where the first one starts from; None from scratch."""
    tasks: tuple[Task, ...]
    stored: tuple[bytes | None, ...]
    """The stored bytes of each segment's sub-model; None where none is stored."""


def runs_of(chain: Chain, environments: Collection[str]) -> tuple[list[Run], list[SegmentKey]]:
    """Return what a replay of a shard trains, and the segments that cannot be compared.

    A shard is replayed in its own environment if that is among `environments`, or else not at all. A sub-model that
    this device trained in an earlier environment of its own is not trained again; the segments after it start from its
    stored bytes, as they did when they were trained. Segments right before it that have nothing to compare with are
    left out.
    """
    if chain.environment not in environments:
        return [], [lesson.segment for lesson, _, stored in chain.lessons if stored is not None]
    runs, unverifiable = list[Run](), list[SegmentKey]()
    parent: bytes | None = None
    tasks, stored_bytes = list[Task](), list[bytes | None]()

    def end_run() -> None:
        while stored_bytes and stored_bytes[-1] is None:
            stored_bytes.pop()
        if stored_bytes:
            runs.append(Run(parent, tuple(tasks[: len(stored_bytes)]), tuple(stored_bytes)))
        tasks.clear()
        stored_bytes.clear()

    for lesson, seed, stored in chain.lessons:
        if stored is not None and stored[0] != chain.environment:
            end_run()
            unverifiable.append(lesson.segment)
            parent = stored[1]
            continue
        tasks.append(Task(lesson, seed, chain.environment))
        stored_bytes.append(None if stored is None else stored[1])
    end_run()
    return runs, unverifiable


@dataclass(frozen=True)
class Replayed:
    """The result of the replay of one shard."""

    identical: list[SegmentKey]
    mismatched: list[SegmentKey]
    unverifiable: list[SegmentKey]


def replay_on(executor: Executor, device: "DeviceCore", chains: Sequence[Chain], since: int) -> Iterator[Replayed]:
    """Train shards from scratch on an executor, and compare each sub-model with the stored one.

    Parameters
    ----------
    executor
        Where the shards are trained.
    device
        The device that they belong to.
    chains
        The shards.
    since
        The number of the device's changes when the chains were read.

    Yields
    ------
    Replayed
        The result of each chain, in order.

    Raises
    ------
    ChangedError
        If something of a shard was forgotten meanwhile.
    """
    learner = device.learner
    environments = executor.environments(learner)
    planned = [runs_of(chain, environments) for chain in chains]
    work = [
        ShardWork(chain.shard, _returning(run.parent), run.tasks, _current(device, chain.shard, since), sending)
        for chain, (runs, _) in zip(chains, planned, strict=True)
        for sending in (device.state.sending(chain.shard),)
        for run in runs
    ]
    with (
        device.engine.replaying(executor, [chain.shard for chain in chains]),
        closing(executor.train(learner, work, lambda *_: None)) as blobs,
    ):
        try:
            for chain, (runs, unverifiable) in zip(chains, planned, strict=True):
                result = Replayed([], [], unverifiable)
                for run in runs:
                    for task, stored in zip(run.tasks, run.stored, strict=True):
                        blob = next(blobs)
                        if blob is None:
                            raise ChangedError(
                                f"something of shard {chain.shard} was forgotten during the replay: verify again"
                            )
                        if stored is not None:
                            compared = result.identical if blob == stored else result.mismatched
                            compared.append(task.lesson.segment)
                yield result
        except ShardError as error:
            raise error.cause from error


def _returning(blob: bytes | None) -> Callable[[], bytes | None]:
    return lambda: blob


def _current(device: "DeviceCore", shard: int, since: int) -> Callable[[], bool]:
    return lambda: device.current(shard, since)
