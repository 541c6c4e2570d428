"""The life of a device under torture: it performs the calls of a trace, and reports each of them."""

import hashlib
import os
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cause.common.hashing import digest
from cause.device.device import Cause
from cause.device.home.home import Home
from cause.device.store.ingest import Ingest
from cause.device.store.shelf import HomeShelf
from cause.engine.samples import SegmentKey
from tests.device.homes import CLASSES, FEATURES, MASTER, adding, bayes, samples
from tests.small_learners import Sample
from tests.torture.calls import Call, Case, Forget, Learn, Reopen, Repair, Stage
from tests.torture.sample_ids import contents, translated

Report = Callable[[dict[str, Any]], None]
KEY = {"env": "CAUSE_TEST_KEY"}
NETWORK_BYTES = 900


@cache
def learner_of(kind: str):
    if kind == "bayes":
        return bayes()
    if kind == "additive":  # inputs are kept, so that samples can be identified
        return adding()
    from cause.learners.torch import TorchLearner

    # Each sample must leave its mark in the bits: Adam looks at little but signs, and bf16 rounds small steps away, so
    # that 19 samples may leave the bits of 20.
    return TorchLearner(
        "mlp",
        classes=CLASSES,
        shape=(FEATURES,),
        epochs=4,
        optimizer="sgd",
        lr=0.1,
        options=(("width", 8),),
        round_to=2,
    )


def open_device(folder: Path, case: Case) -> Cause:
    """The home in a folder; made, if it is not there."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    settings: dict[str, Any] = {"system": case.system, "shards": case.shards}
    # a network as small as this one takes more bytes than its numbers: what binds is the budget, not the slots
    settings |= (
        {"slots": case.slots} if case.learner in ("bayes", "additive") else {"memory": f"{NETWORK_BYTES * case.slots}B"}
    )
    return Cause(folder, learner=learner_of(case.learner), key=KEY, **settings)


def perform(device: Cause, call: Call) -> None:
    """Do one call; a reopening is the caller's."""
    if isinstance(call, Stage):
        device.stage(call.user, *samples(call.user, call.round, call.count), call=call.id)
    elif isinstance(call, Learn) and call.staged:
        assert device.ledger.round == call.round - 1
        for user, count in call.uploads:
            perform(device, Stage(call.round, user, count))
        device.close_round(empty=True)
        device.catch_up()
    elif isinstance(call, Learn):
        uploads = {user: samples(user, call.round, count) for user, count in call.uploads}
        assert device.ledger.round == call.round - 1
        device.learn(uploads, repair=call.repair, empty=True)
    elif isinstance(call, Forget):
        device.serve(translated(device.ledger, call.requests), repair=call.repair)
    elif isinstance(call, Repair):
        left = iter(range(call.segments)) if call.segments else None
        device.repair(stop=None if left is None else lambda: next(left, None) is None)


def live(folder: Path, case: Case, first: int, report: Report, opened: Callable[[], None] = lambda: None) -> Cause:
    """All calls from the first on; the report hears of each before and after."""
    device = open_device(folder, case)
    opened()
    for number, call in enumerate(case.calls[first:], start=first):
        report({"begun": number})
        if isinstance(call, Reopen):
            device.close()
            device = open_device(folder, case)
        else:
            perform(device, call)
        report({"done": number})
    return device


_listener: list[Report] = []
_patched: list[bool] = []


def report_changes(report: Report) -> None:
    """Patch homes to report the requests they accept, and the samples of each sub-model and digest they will write.

    It patches the classes themselves, so call it in a short-lived process; a second call replaces the listener.
    """
    _listener[:] = [report]
    if len(_patched):
        return
    _patched.append(True)
    accept, put, load, put_later = Home.accept, HomeShelf.put, Home.load, HomeShelf.put_later
    record, effect, trained = Ingest.record, Home.effect, Home.trained

    def provide(mark, seen):
        _listener[0]({"digest": mark, "seen": packed(seen)})

    def reporting_record(self, round_, segments, intake):
        for pieces in segments.values():
            for piece in pieces:
                provide(digest(piece.upload.names(piece.positions)).hex(), contents([piece]))
        return record(self, round_, segments, intake)

    def reporting_effect(self, ids, selection, plans, dropped):
        for user, round_ in selection:
            for key, _ in self.ledger.pieces_of(user, round_):
                segment = self.ledger.lineage(key.shard)[key]
                provide(segment.piece_digest(user).hex(), contents([segment.piece(user)]))
        return effect(self, ids, selection, plans, dropped)

    def reporting_trained(self, segment, evicted=(), retrained=0):
        provide(self.memory[segment].identity.hex(), seen_by(self.ledger, segment))
        trained(self, segment, evicted, retrained)

    def reporting_accept(self, requests, ids=None):
        accepted = accept(self, requests, ids)
        _listener[0]({"accepted": accepted})
        return accepted

    def reporting_put(self, key, blob):
        provide(blob_name(blob), seen_by(self.home.ledger, key))
        put(self, key, blob)

    def reporting_put_later(self, key, encode):
        provide(blob_name(encode()), seen_by(self.home.ledger, key))
        put_later(self, key, encode)

    def load_and_be_known(self, memory):
        self.shelf.home = self
        load(self, memory)

    Home.accept, HomeShelf.put, Home.load = reporting_accept, reporting_put, load_and_be_known
    HomeShelf.put_later = reporting_put_later
    Ingest.record, Home.effect, Home.trained = reporting_record, reporting_effect, reporting_trained


def marks(device: Cause) -> dict[str, set[Sample]]:
    """Digests of all that a device holds, and of what samples they are."""
    memory, ledger = device.memory, device.ledger
    samples_by_mark = {memory[key].identity.hex(): seen_by(ledger, key) for key in memory.stored()}
    samples_by_mark |= {blob_name(memory.shelf.get(key)): seen_by(ledger, key) for key in memory.stored()}
    for segment in (segment for shard in ledger.shards() for segment in ledger.lineage(shard)):
        samples_by_mark |= {
            segment.piece_digest(piece.upload.user).hex(): contents([piece]) for piece in segment.pieces
        }
    return samples_by_mark


def seen_by(ledger: Any, key: SegmentKey) -> set[Sample]:
    """What a sub-model has seen that is trained on what is retained now."""
    return {s for segment in ledger.lineage(key.shard) if segment.key <= key for s in contents(segment.pieces)}


def blob_name(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def packed(seen: set[Sample]) -> list[list[Any]]:
    by_upload: dict[tuple[str, int], list[int]] = {}
    for user, round_, position in sorted(seen):
        by_upload.setdefault((user, round_), []).append(position)
    return [[user, round_, positions] for (user, round_), positions in by_upload.items()]


def unpacked(seen: Sequence[Sequence[Any]]) -> frozenset[Sample]:
    return frozenset((user, round_, position) for user, round_, positions in seen for position in positions)


def dump(device: Cause) -> dict[str, Any]:
    """What two devices are compared by: what is retained, the heads, and the bits of every sub-model."""
    ledger = device.ledger
    return {
        "round": ledger.round,
        "manifests": {str(s.key): s.manifest.hex() for shard in ledger.shards() for s in ledger.lineage(shard)},
        "heads": {str(shard): [str(head.key), head.identity.hex()] for shard, head in device.heads().items()},
        "blobs": {str(key): blob_name(device.memory.shelf.get(key)) for key in device.memory.stored()},
    }


def differences(mine: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """What the two dumps disagree on; which sub-models are kept beside the heads may differ."""
    problems = [f"other {part}" for part in ("round", "manifests", "heads") if mine[part] != reference[part]]
    common = set(mine["blobs"]) & set(reference["blobs"])
    other = [key for key in sorted(common) if mine["blobs"][key] != reference["blobs"][key]]
    return problems + [f"sub-model {key}: other bytes" for key in other]


def seeded(*parts: Any) -> random.Random:
    return random.Random(repr(parts))
