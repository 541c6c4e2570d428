"""The clean room of a case, made from raw retained data alone, and the comparison with it.

It shares with the device the code that trains and stores, and nothing else: no ledger, no memory, no learner, no
positions. It keeps every sub-model, so that each one that the device stores has its counterpart.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.executor import Executor
from cause.engine.learner import Learner
from cause.engine.partition import Arrivals, Assignment, Partitioner
from cause.engine.presets import ADDITIVE, FIXED, IN_TURN, LOWEST, System
from cause.engine.samples import SegmentKey
from tests.clean_room import trained_on
from tests.exactness.observer import Kept

SubModels = dict[SegmentKey, tuple[bytes, bytes]]
"""Identity and digest of the bytes, of each sub-model."""


class Homes(Partitioner):
    """Assigns each sample to the shard in which the device under test holds it, by its contents."""

    def __init__(self, rounds: Sequence[Sequence[Kept]]) -> None:
        self._homes = {
            (user, t, x.tobytes(), int(y)): int(shard)
            for t, uploads in enumerate(rounds, start=1)
            for user, inputs, labels, shards in uploads
            for x, y, shard in zip(inputs, labels, shards, strict=True)
        }

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        assigned: dict[str, Assignment] = {}
        for user, upload in arrivals.uploads.items():
            assert isinstance(upload, ArrayUpload)
            samples = zip(*upload.arrays(upload.positions), strict=True)
            assigned[user] = np.array([self._homes[user, arrivals.round, x.tobytes(), int(y)] for x, y in samples])
        return assigned


def clean_room(
    learner: Learner,
    system: System,
    rounds: Sequence[Sequence[Kept]],
    *,
    shards: int,
    classes: int,
    seed: int,
    executor: Executor | None = None,
) -> SubModels:
    """Return all sub-models of a device trained without the forgotten samples, with the same shard for each sample.

    Under the additive law it is a device from scratch: there is one sum, and no shard that a sample could be in.
    """
    settings = {"shards": shards, "classes": classes, "seed": seed, "executor": executor}
    unlimited = replace(system, policy="unlimited")
    if system.active == IN_TURN:  # a shard's number among the active ones is not its own
        unlimited = replace(unlimited, active=LOWEST, gamma=FIXED)
    homes = None if learner.law == ADDITIVE else Homes(rounds)
    return sub_models_of(trained_on(uploads_of(rounds), learner, unlimited, partition=homes, **settings))


def uploads_of(rounds: Sequence[Sequence[Kept]]) -> list[list[ArrayUpload]]:
    """Return the rounds as uploads, for `learn`."""
    return [
        [ArrayUpload(user, t, inputs, labels) for user, inputs, labels, _ in uploads]
        for t, uploads in enumerate(rounds, start=1)
    ]


def sub_models_of(device: Cause) -> SubModels:
    """Return identity and digest of every sub-model that a device has stored."""
    return {
        key: (device.memory[key].identity, hashlib.sha256(device.memory.shelf.get(key)).digest())
        for key in device.memory.stored()
    }


def mismatches(device: SubModels, clean: SubModels) -> list[str]:
    """Return what differs: a sub-model that should not be there, another identity, other bits, another head."""
    wrong = []
    for key, (identity, bits) in device.items():
        if key not in clean:
            wrong.append(f"{key} should not be there")
            continue
        if clean[key][0] != identity:
            wrong.append(f"{key}: another identity")
        if clean[key][1] != bits:
            wrong.append(f"{key}: other bits")
    if _heads(device) != _heads(clean):
        wrong.append(f"the heads are {_heads(device)}, not {_heads(clean)}")
    return wrong


def _heads(stored: SubModels) -> list[str]:
    newest = {key.shard: key for key in sorted(stored)}
    return [str(newest[shard]) for shard in sorted(newest)]
