"""The clean room: a device trained on the same rounds without the forgotten samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause
from cause.device.verify import Verification
from cause.engine.executor import Executor
from cause.engine.learner import Learner
from cause.engine.partition import Arrivals, Assignment, Partitioner
from cause.engine.samples import SegmentKey, Upload, arrays_of
from cause.engine.summing import SummingLearner

Arrays = tuple[NDArray[Any], NDArray[np.int64]]
"""Inputs and labels."""


class Recorded(Partitioner):
    """Assigns samples to the shards in which another device holds them."""

    def __init__(self, device: Cause) -> None:
        self._ledger, self._controller = device.ledger, device.controller

    def assign(self, arrivals: Arrivals) -> Mapping[str, Assignment]:
        """Return for each sample its shard in the other device, as a number among the active shards of the round."""
        assigned: dict[str, Assignment] = {}
        number_of = {shard: number for number, shard in enumerate(self._controller.active(arrivals.round))}
        for user, upload in arrivals.uploads.items():
            pieces = self._ledger.pieces_of(user, arrivals.round)
            shard_of = {int(position): number_of[key.shard] for key, held in pieces for position in held}
            assigned[user] = np.array([shard_of[int(position)] for position in upload.positions])
        return assigned


def clean_room(
    device: Cause,
    learner: Learner,
    rounds: Iterable[Iterable[Upload]],
    seed: int,
    executor: Executor | None = None,
) -> Cause:
    """Return a device trained without the forgotten samples, with the same partition and an unlimited memory.

    Shards with a recorded environment are trained in it, too: the executor must offer it.

    Parameters
    ----------
    device
        The device to compare with.
    learner
        A new learner of the same recipe.
    rounds
        The uploads as the device received them; only their retained samples are learned.
    seed
        The root seed of the device.
    executor
        Trains the clean room; this process does by default.
    """
    system = replace(device.system, policy="unlimited")
    shards = device.controller.shards
    classes = device.classes
    clean = Cause(learner=learner, system=system, shards=shards, classes=classes, seed=seed, executor=executor)
    clean.engine.partition = Recorded(device)
    clean.memory.environments.update(device.memory.environments)
    for t, uploads in enumerate(rounds, start=1):
        kept = []
        for upload in uploads:
            held = [int(p) for _, positions in device.ledger.pieces_of(upload.user, t) for p in positions]
            if held:
                kept.append(upload.keeping(np.array(sorted(held), dtype=np.int64)))
        clean.learn(kept)
    return clean


def equals_scratch(device: Cause, learner: SummingLearner, rounds: Iterable[Iterable[Upload]]) -> bool:
    """Return whether the state of a device with an additive learner is that of a device without its history.

    The other device is made from scratch, is given the retained samples alone, all in one round and in the reverse
    order, and shares neither partition nor seed: sums depend on none of them.

    Parameters
    ----------
    device
        The device to compare.
    learner
        A new learner of the same recipe.
    rounds
        The uploads as the device received them.
    """
    retained: dict[str, list[Arrays]] = {}
    for t, uploads in enumerate(rounds, start=1):
        for upload in uploads:
            held = [int(p) for _, positions in device.ledger.pieces_of(upload.user, t) for p in positions]
            if held:
                retained.setdefault(upload.user, []).append(arrays_of(upload, np.array(sorted(held), dtype=np.int64)))
    scratch = Cause(learner=learner, classes=device.classes)
    if retained:
        scratch.learn({user: _reversed(parts) for user, parts in reversed(retained.items())})
    ours, theirs = (one.memory.head(0) for one in (device, scratch))
    if ours is None or theirs is None:
        return ours is theirs
    return device.memory.shelf.get(ours.key) == scratch.memory.shelf.get(theirs.key)


def _reversed(parts: Sequence[Arrays]) -> Arrays:
    x, y = (np.concatenate(arrays)[::-1] for arrays in zip(*parts, strict=True))
    return x, y


def compare(device: Cause, clean: Cause) -> Verification:
    """Compare every stored sub-model of a device with the clean room's, by identity and bits."""
    verification = Verification()
    for key in device.memory.stored():
        (verification.identical if _same(device, clean, key) else verification.mismatched).append(key)
    return verification


def _same(device: Cause, clean: Cause, key: SegmentKey) -> bool:
    if key not in clean.memory.stored_of(key.shard):
        return False
    same_identity = device.memory[key].identity == clean.memory[key].identity
    return same_identity and device.memory.shelf.get(key) == clean.memory.shelf.get(key)
