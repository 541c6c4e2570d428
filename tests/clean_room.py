"""Runs of a trace that record what is retained, and the clean room to compare them with."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cause.common import positions as pos
from cause.device.device import Cause
from cause.engine.learner import LearnerLike
from cause.engine.partition import Partitioner
from cause.engine.presets import System
from cause.engine.requests import Request
from cause.engine.samples import Part, SegmentKey, TraceUpload
from cause.lab.trace import Trace
from tests.small_learners import RememberingLearner, Sample, ids


@dataclass
class Room:
    """A device after a trace, with what an observer wrote down beside it."""

    device: Cause
    uploads: dict[tuple[str, int], TraceUpload]
    homes: dict[Sample, int]  # the shard of every sample ever uploaded
    retained: set[Sample]  # by plain set arithmetic, without the ledger
    rsn_per_round: list[int]


def live(
    trace: Trace,
    system: System,
    *,
    shards=4,
    slots=8,
    learner=None,
    seed=0,
    classes=4,
    after=None,
    data=None,
    executor=None,
) -> Room:
    """Run a trace; `after(room, forgotten)` is called after every round and every answer."""
    learner = learner or RememberingLearner()
    device = Cause(
        learner=learner, system=system, shards=shards, slots=slots, seed=seed, classes=classes, executor=executor
    )
    room = Room(device, {}, {}, set(), [])
    for round_ in trace.rounds:
        uploads = round_.uploads()
        device.learn(map(data, uploads) if data else uploads)
        for upload in uploads:
            room.uploads[upload.user, upload.round] = upload
            room.retained |= {(upload.user, upload.round, int(p)) for p in upload.positions}
            for key, held in device.ledger.pieces_of(upload.user, upload.round):
                room.homes |= {(upload.user, upload.round, int(p)): key.shard for p in held}
        if after:
            after(room, [])
        room.rsn_per_round.append(0)
        batches = [round_.forgets] if system.requests == "coalesced" else [[each] for each in round_.forgets]
        for batch in filter(None, batches):
            for request in batch:
                room.retained -= meant(request, room.retained)
            forgotten = device.serve(batch)
            room.rsn_per_round[-1] += sum(each.rsn for each in forgotten)
            if after:
                after(room, forgotten)
    return room


def meant(request: Request, retained: set[Sample]) -> set[Sample]:
    """The samples a request means."""
    mine = {s for s in retained if s[0] == request.user}
    if request.samples is not None:
        return {s for s in mine if s[1:] in request.samples}
    if request.rounds is not None:
        mine = {s for s in mine if s[1] in request.rounds}
    return mine if request.count is None else set(sorted(mine)[: request.count])


def trained_on(
    rounds: Iterable[Any],
    learner: LearnerLike,
    system: System | str,
    *,
    partition: Partitioner | None = None,
    **settings,
) -> Cause:
    """The clean room of every test: a device in memory that is given these rounds, and nothing else.

    Parameters
    ----------
    rounds
        For each round what remains of its uploads, as `Cause.learn` takes it. A round of which nothing remains counts.
    partition
        Where samples go, if not as the system says.
    """
    device = Cause(learner=learner, system=system, **settings)
    if partition is not None:
        device.engine.partition = partition
    for uploads in rounds:
        device.learn(uploads, empty=True)
    return device


def clean_room(
    room: Room, trace: Trace, system: System, *, given=True, learner=None, slots=8, seed=0, classes=4, data=None
) -> Cause:
    """A device that receives the same rounds without what was forgotten; with `given`, in the same shards."""
    shards = room.device.controller.shards
    if given:
        system, shards = replace(system, partition="given"), room.device.controller.most
    rounds = []
    for round_ in trace.rounds:
        arriving = []
        for upload in round_.uploads():
            kept = [p for u, t, p in room.retained if (u, t) == (upload.user, upload.round)]
            if kept:
                parts = _with_shards(upload, room.homes) if given else upload.parts
                named = TraceUpload(upload.user, upload.round, parts)
                arriving.append((data(named) if data else named).keeping(pos.from_values(kept)))
        rounds.append(arriving)
    learner = learner or RememberingLearner()
    return trained_on(rounds, learner, system, shards=shards, slots=slots, seed=seed, classes=classes)


def _with_shards(upload: TraceUpload, homes: dict[Sample, int]) -> tuple[Part, ...]:
    return tuple(Part(1, None, homes[upload.user, upload.round, int(p)]) for p in upload.positions)


def differences(a: Cause, b: Cause) -> list[str]:
    """What two devices disagree on: retained data, heads, and every sub-model that both hold."""
    problems = []
    for shard in sorted(set(a.ledger.shards()) | set(b.ledger.shards())):
        mine, theirs = (
            {segment.key: segment.manifest for segment in device.ledger.lineage(shard)} for device in (a, b)
        )
        if mine != theirs:
            problems.append(f"shard {shard}: other data")
    if a.heads() != b.heads():
        problems.append("other heads")
    for key in set(a.memory.stored()) & set(b.memory.stored()):
        if a.memory[key].identity != b.memory[key].identity:
            problems.append(f"sub-model {key}: other identity")
        if a.memory.shelf.get(key) != b.memory.shelf.get(key):
            problems.append(f"sub-model {key}: other bytes")
    return problems


def seen(device: Cause, key: SegmentKey) -> set[Sample]:
    """What a stored sub-model of a remembering learner has seen."""
    return set(device.learner.decode(device.memory.shelf.get(key)))


def check_invariants(room: Room) -> None:
    """What must be true at any moment between two calls."""
    device = room.device
    held = [
        sample
        for shard in device.ledger.shards()
        for segment in device.ledger.lineage(shard)
        for sample in ids(segment.pieces)
    ]
    assert len(held) == len(set(held)), "a sample is in two places"
    assert set(held) == room.retained, "the ledger's retained samples are not those that should be"
    for shard in device.ledger.shards():
        of_shard = {s for s in room.retained if room.homes[s] == shard}
        segments = list(device.ledger.lineage(shard))
        assert device.ledger.lineage(shard).samples == len(of_shard)
        head = device.memory.head(shard)
        assert (head.key if head else None) == (segments[-1].key if segments else None), "no head, or an old one"
    for key in device.memory.stored():
        upto = {s for segment in device.ledger.lineage(key.shard) if segment.key <= key for s in ids(segment.pieces)}
        assert seen(device, key) == upto, f"{key} has not seen exactly what is retained up to it"
    assert device.memory.used_bytes == sum(device.memory[key].size_bytes for key in device.memory.stored())
    assert device.memory.used_bytes <= device.memory.budget_bytes
    assert len(device.memory) - len(device.memory.apart()) <= device.memory.slots
