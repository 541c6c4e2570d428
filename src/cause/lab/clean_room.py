"""The clean room: a second device that receives the same rounds without what was forgotten."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from cause.device.device import Cause
from cause.device.verify import Verification
from cause.engine.learner import Learner
from cause.engine.partition import Arrivals, Assignment, Partitioner
from cause.engine.samples import SegmentKey, Upload


class Recorded(Partitioner):
    """The shards that another device gave to its retained samples."""

    def __init__(self, device: Cause) -> None:
        self._ledger = device.ledger

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        assigned: dict[str, Assignment] = {}
        for user, upload in arrivals.uploads.items():
            pieces = self._ledger.pieces_of(user, arrivals.round)
            homes = {int(position): key.shard for key, held in pieces for position in held}
            assigned[user] = np.array([homes[int(position)] for position in upload.positions])
        return assigned


def clean_room(device: Cause, learner: Learner, rounds: Iterable[Iterable[Upload]], seed: int) -> Cause:
    """A device that never met the forgotten samples, given the partition, with room for every sub-model.

    `rounds` are the uploads as the device received them; the clean room receives those of them that are retained.
    """
    system = replace(device.system, policy="unlimited")
    shards = device.controller.shards
    clean = Cause(learner=learner, system=system, shards=shards, classes=device.classes, seed=seed)
    clean.engine.partition = Recorded(device)
    for t, uploads in enumerate(rounds, start=1):
        kept = []
        for upload in uploads:
            held = [int(p) for _, positions in device.ledger.pieces_of(upload.user, t) for p in positions]
            if held:
                kept.append(upload.keeping(np.array(sorted(held), dtype=np.int64)))
        clean.learn(kept)
    return clean


def compare(device: Cause, clean: Cause) -> Verification:
    """Every stored sub-model of a device beside the clean room's: identity and bits."""
    found = Verification()
    for key in device.memory.stored():
        (found.identical if _same(device, clean, key) else found.mismatched).append(key)
    return found


def _same(device: Cause, clean: Cause, key: SegmentKey) -> bool:
    if key not in clean.memory.stored_of(key.shard):
        return False
    same_identity = device.memory[key].identity == clean.memory[key].identity
    return same_identity and device.memory.shelf.get(key) == clean.memory.shelf.get(key)
