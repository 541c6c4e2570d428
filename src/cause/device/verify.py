"""Proof by replay: train again from the retained data alone, and compare the bits of every stored sub-model."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cause.engine.chain import Chain
from cause.engine.executor import Task, train_segment
from cause.engine.progress import Progress, silent
from cause.engine.samples import SegmentKey
from cause.errors import ChangedError
from cause.executors.spawning import context_for, needs_guard, refers_to_script

if TYPE_CHECKING:
    from cause.device.device import Cause


@dataclass(frozen=True)
class Verification:
    """What a replay found."""

    identical: list[SegmentKey] = field(default_factory=list)
    mismatched: list[SegmentKey] = field(default_factory=list)
    unverifiable: list[SegmentKey] = field(default_factory=list)
    """Trained in another environment, where bits are others: neither right nor wrong here."""
    wrong: list[str] = field(default_factory=list)
    """What a receipt says and the home does not bear out."""
    superseded: list[str] = field(default_factory=list)
    """What a receipt says of something that has changed since, so that nobody can check it any more."""

    @property
    def holds(self) -> bool:
        """Nothing was found to be otherwise."""
        return not self.mismatched and not self.wrong

    @property
    def sub_models(self) -> int:
        """How many were looked at."""
        return len(self.identical) + len(self.mismatched) + len(self.unverifiable)


def replay(chain: Chain) -> Verification:
    """Train a shard from scratch and compare on the way."""
    found, learner, blob = Verification(), chain.learner, None
    for lesson, seed, stored in chain.lessons:
        if stored is not None and stored[0] != learner.environment:
            found.unverifiable.append(lesson.segment)
            blob = stored[1]  # what follows was trained from it, perhaps here
            continue
        blob = train_segment(learner, blob, Task(lesson, seed), silent)
        if stored is not None:
            (found.identical if blob == stored[1] else found.mismatched).append(lesson.segment)
    return found


def verify(
    device: "Cause",
    *,
    shards: Collection[int] | None = None,
    processes: int = 1,
    progress: Progress | None = None,
    began: Callable[[ProcessPoolExecutor], None] | None = None,
) -> Verification:
    """Replay every shard (or these) in fresh processes (none with `processes=0`: here) and compare.

    `began` is told of those processes: whoever may not wait for their end can end them.

    Raises
    ------
    ChangedError
        If something was forgotten or found damaged while it was replayed, here or by the process that writes.

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
    device.held.look()
    since, reloads = device.changes, device.held.reloads
    total, pool = Verification(), None
    chains: Sequence[Chain] = ()
    try:
        chains = device.chains(shards)
        reloads = device.held.reloads
        results: Iterator[Verification] = map(replay, chains)
        if processes:
            pool = ProcessPoolExecutor(min(processes, max(1, len(chains))), context_for(device.learner))
            results = pool.map(replay, chains)
            if began is not None:
                began(pool)
        for done, found in enumerate(results, start=1):
            total.identical.extend(found.identical)
            total.mismatched.extend(found.mismatched)
            total.unverifiable.extend(found.unverifiable)
            if progress:
                progress(done, len(chains))
    except Exception as error:  # also when samples went while they were read
        _refuse_what_changed(device, chains, since)
        if device.held.look() or device.held.reloads != reloads:
            raise ChangedError("another process changed the home during the replay: verify again") from None
        if isinstance(error, BrokenProcessPool) and refers_to_script(device.learner):
            raise needs_guard() from None
        raise
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
    _refuse_what_changed(device, chains, since)
    return total


def _refuse_what_changed(device: "Cause", chains: Sequence[Chain], since: int) -> None:
    """A mismatch of what is no longer there would be no mismatch."""
    changed = [chain.shard for chain in chains if not device.current(chain.shard, since)]
    if changed:
        told = ", ".join(map(str, changed))
        raise ChangedError(f"something of shard {told} was forgotten or found damaged during the replay: verify again")
