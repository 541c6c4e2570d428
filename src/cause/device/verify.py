"""Proof by replay: train again from the retained data alone, and compare the bits of every stored sub-model."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cause.device.replay_work import Replayed, replay_on
from cause.engine.chain import Chain
from cause.engine.executor import Executor, Task, train_segment
from cause.engine.progress import Progress, silent
from cause.engine.samples import SegmentKey
from cause.errors import ChangedError
from cause.executors.spawning import context_for, needs_guard, refers_to_script

if TYPE_CHECKING:
    from cause.device.core import DeviceCore


@dataclass(frozen=True)
class Verification:
    """The result of a replay."""

    identical: list[SegmentKey] = field(default_factory=list)
    mismatched: list[SegmentKey] = field(default_factory=list)
    unverifiable: list[SegmentKey] = field(default_factory=list)
    """Sub-models of another environment than any that replays, where the bits differ: they cannot be compared here."""
    wrong: list[str] = field(default_factory=list)
    """Commitments of a receipt that do not hold."""
    superseded: list[str] = field(default_factory=list)
    """Commitments of a receipt that cannot be checked any more, because what they commit to has changed."""

    @property
    def holds(self) -> bool:
        """Whether no sub-model differs and no commitment is wrong."""
        return not self.mismatched and not self.wrong

    @property
    def sub_models(self) -> int:
        """How many sub-models were examined."""
        return len(self.identical) + len(self.mismatched) + len(self.unverifiable)


def replay(chain: Chain) -> Verification:
    """Train a shard from scratch, and compare each sub-model with the stored one.

    Nothing is trained of a shard that belongs to another environment than that of this process.
    """
    result, learner, blob = Verification(), chain.learner, None
    if chain.environment != learner.environment:
        result.unverifiable.extend(lesson.segment for lesson, _, stored in chain.lessons if stored is not None)
        return result
    for lesson, seed, stored in chain.lessons:
        if stored is not None and stored[0] != learner.environment:
            result.unverifiable.append(lesson.segment)
            blob = stored[1]  # what follows was trained from it, perhaps here
            continue
        blob = train_segment(learner, blob, Task(lesson, seed), silent)
        if stored is not None:
            (result.identical if blob == stored[1] else result.mismatched).append(lesson.segment)
    return result


def verify(
    device: "DeviceCore",
    *,
    shards: Collection[int] | None = None,
    processes: int = 1,
    progress: Progress | None = None,
    began: Callable[[ProcessPoolExecutor], None] | None = None,
    executor: Executor | None = None,
) -> Verification:
    """Replay shards in fresh processes, and compare with the stored sub-models.

    Parameters
    ----------
    device
        The device.
    shards
        The shards to replay; all if it is None.
    processes
        How many processes replay; 0 replays in this one.
    progress
        Called after each shard, with how many are done and how many there are.
    began
        Called with the pool of processes, for a caller that may have to end them.
    executor
        Replays instead of processes of this machine, such as a `RayExecutor`; it must not be training anything else.
        A shard of another environment is replayed if the executor has workers of that one.

    Raises
    ------
    ChangedError
        If samples were forgotten or damage was noticed during the replay, here or by the process that writes.

    Examples
    --------
    >>> from cause.learners import CountingLearner
    >>> from cause.engine.samples import Part, TraceUpload
    >>> from cause.device.device import Cause
    >>> device = Cause(learner=CountingLearner(), shards=1, slots=4)
    >>> report = device.learn([TraceUpload("alice", 1, (Part(30),))])
    >>> verify(device, processes=0).identical
    [SegmentKey(shard=0, round=1, slice=0)]
    """
    device.state.refresh_if_reader()
    since, reloads = device.changes, device.state.reader_refreshes
    total, pool = Verification(), None
    chains: Sequence[Chain] = ()
    try:
        chains = device.chains(shards)
        reloads = device.state.reader_refreshes
        results: Iterator[Verification | Replayed] = map(replay, chains)
        if executor is not None and device.engine.training.in_fresh_processes:
            results = replay_on(executor, device, chains, since)
        elif processes and device.engine.training.in_fresh_processes:
            pool = ProcessPoolExecutor(min(processes, max(1, len(chains))), context_for(device.learner))
            results = pool.map(replay, chains)
            if began is not None:
                began(pool)
        for done, result in enumerate(results, start=1):
            total.identical.extend(result.identical)
            total.mismatched.extend(result.mismatched)
            total.unverifiable.extend(result.unverifiable)
            if progress:
                progress(done, len(chains))
    except Exception as error:  # also if samples were deleted while they were read
        _refuse_what_changed(device, chains, since)
        if device.state.refresh_if_reader() or device.state.reader_refreshes != reloads:
            raise ChangedError("another process changed the home during the replay: verify again") from None
        if isinstance(error, BrokenProcessPool) and refers_to_script(device.learner):
            raise needs_guard() from None
        raise
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
    _refuse_what_changed(device, chains, since)
    return total


def _refuse_what_changed(device: "DeviceCore", chains: Sequence[Chain], since: int) -> None:
    """Raise ChangedError if a shard has changed since: its comparison means nothing."""
    changed = [chain.shard for chain in chains if not device.current(chain.shard, since)]
    if changed:
        shards = ", ".join(map(str, changed))
        raise ChangedError(
            f"something of shard {shards} was forgotten or found damaged during the replay: verify again"
        )
