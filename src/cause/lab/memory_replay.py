"""Replaying a memory alone: what a policy keeps decides neither which samples are retained nor where they are.

A device runs a trace once, without a limit on its memory, and everything that a memory depends on is written down: the
segments of each round and what each request deletes. Any policy and number of slots is then tried on the real memory,
without partitioning, planning or deleting anything. It gives the RSN of a simulation in a small part of its time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cause.engine.journal import Journal
from cause.engine.ledger import Ledger, Selection
from cause.engine.memory import Memory, Policy, PolicySetting, SubModel
from cause.engine.memory.sizing import ENDLESS
from cause.engine.plan import ShardPlan
from cause.engine.presets import System
from cause.engine.samples import SegmentKey
from cause.errors import InputError
from cause.lab.simulate import Setting, device_for
from cause.lab.trace import Trace

Sizes = list[tuple[SegmentKey, int]]


@dataclass(frozen=True)
class NewSegments:
    """A round: its number, and its segments with their samples, ascending."""

    round: int
    segments: Sizes


@dataclass(frozen=True)
class Deletion:
    """Requests that take effect together: the first touched segment of each shard, and what is left from there on."""

    left: dict[SegmentKey, Sizes]


@dataclass(frozen=True)
class Tape:
    """What the memory of a device depends on, in order."""

    heads: int
    """The number of shards that ever take data."""
    events: list[NewSegments | Deletion] = field(default_factory=list)

    @property
    def floor_rsn(self) -> int:
        """The RSN with a memory without limit."""
        return sum(
            count
            for event in self.events
            if isinstance(event, Deletion)
            for sizes in event.left.values()
            for _, count in sizes
        )


class _Recorder(Journal):
    """Writes down what each deletion leaves."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.ledger: Ledger | None = None

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        assert self.ledger is not None
        left = {}
        for plan in plans:
            segments = self.ledger.lineage(plan.shard)
            left[plan.first] = [(segment.key, segment.count) for segment in segments if segment.key >= plan.first]
        if left:
            self.tape.events.append(Deletion(left))
        return 0


def record(trace: Trace, system: System, setting: Setting) -> Tape:
    """Run a trace with an unlimited memory and return what any memory would depend on.

    Raises
    ------
    InputError
        If the system rehearses samples: then what a segment costs depends on earlier ones, which is not written down.
    """
    if system.rehearsal:
        raise InputError(f"a tape cannot be made of a system with rehearsal = {system.rehearsal:g}")
    device = device_for(trace, replace(system, policy="unlimited"), setting)
    tape = Tape(device.controller.most)
    recorder = _Recorder(tape)
    recorder.ledger, device.journal = device.ledger, recorder
    for round_ in trace.rounds:
        learned = device.learn(round_.uploads())
        sizes = [(key, device.ledger.lineage(key.shard)[key].count) for key in learned.trained]
        tape.events.append(NewSegments(round_.number, sorted(sizes)))
        if round_.forgets:
            device.serve(round_.forgets)
    return tape


class _Counts:
    """The retained samples of each segment, as the ledger would count them."""

    def __init__(self) -> None:
        self.round = 0
        self.sizes: dict[int, Sizes] = {}

    def samples_between(self, shard: int, after: SegmentKey | None, upto: SegmentKey) -> int:
        sizes = self.sizes.get(shard, [])
        return sum(count for key, count in sizes if (after is None or key > after) and key <= upto)

    def segments_of(self, shard: int) -> Sizes:
        return self.sizes.get(shard, [])

    def cut(self, first: SegmentKey, left: Sizes) -> None:
        """Replace a shard's segments from one on."""
        self.sizes[first.shard] = [*(pair for pair in self.sizes[first.shard] if pair[0] < first), *left]


def play(tape: Tape, policy: Callable[[PolicySetting], Policy], slots: int, key: bytes = b"") -> int:
    """Return the RSN of a memory on a tape.

    Parameters
    ----------
    tape
        What happened.
    policy
        Makes the policy.
    slots
        The number of slots.
    key
        The key of the policy's random choices.

    Raises
    ------
    BudgetError
        If the slots cannot hold the heads.
    """
    chosen = policy(PolicySetting(slots, key))
    counts = _Counts()
    memory = Memory(chosen, slots=slots, budget_bytes=ENDLESS, counts=counts)
    rsn = 0
    for event in tape.events:
        if isinstance(event, NewSegments):
            counts.round = event.round
            for segment, count in event.segments:
                counts.sizes.setdefault(segment.shard, []).append((segment, count))
            chosen.begin()
            for segment, _ in event.segments:
                memory.admit(SubModel(segment, b"", 1), b"")
        else:
            rsn += _replay(memory, counts, event.left)
    return rsn


def _replay(memory: Memory, counts: _Counts, left: Mapping[SegmentKey, Sizes]) -> int:
    """Delete, and train again what was dropped; return the RSN."""
    for first, sizes in left.items():
        counts.cut(first, sizes)
    for first in left:
        memory.drop_from(first)
    memory.policy.requested(list(left), memory)
    memory.policy.begin()
    rsn = 0
    for first in left:
        head = memory.head(first.shard)
        for segment, count in list(counts.segments_of(first.shard)):
            if head is None or segment > head.key:
                rsn += count
                memory.admit(SubModel(segment, b"", 1), b"")
    return rsn
