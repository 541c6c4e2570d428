"""The heads vote: each is decoded for itself, and a damaged one gives way to the one before it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.learner import Learner
from cause.engine.memory import SubModel
from cause.engine.results import Voter
from cause.engine.state import State
from cause.errors import CauseError, DamageError


def voters(held: State) -> list[Voter]:
    """The sub-models that vote at this moment."""
    with held.lock:
        return [Voter(head, held.weight(head)) for head in held.heads().values()]


def loaded(held: State, sub_model: SubModel) -> bytes | None:
    """The bytes of a sub-model that votes; None if it does no longer, or is damaged and so dropped."""
    with held.lock:
        if held.memory.head(sub_model.key.shard) != sub_model:
            return None
        try:
            return held.load(sub_model.key)
        except DamageError:
            return None


def why_nobody_votes(held: State, repair: str = "run `cause repair` or call `repair()`") -> str:
    """In words, for an error; `repair` says how the reader of the message starts one."""
    if held.ledger.shards():
        return f"every sub-model is lost, damaged or waits for its repair: {repair}"
    return "no shard has learned anything, or all of it was forgotten"


def votes(held: State, learner: Learner, x: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
    """Each head's weight (the samples behind it), and what it says: voter × sample × class."""
    weights, probabilities = [], []
    for shard in held.heads():
        found = _vote_of(held, learner, shard, x)
        if found is not None:
            weights.append(found[0])
            probabilities.append(found[1])
    if not weights:
        raise CauseError(f"nobody can vote: {why_nobody_votes(held)}")
    return np.asarray(weights, dtype=np.float64), np.stack(probabilities)


def _vote_of(held: State, learner: Learner, shard: int, x: Any) -> tuple[int, NDArray[np.floating]] | None:
    """Of one head, which is decoded for it alone: a small board need not hold all of them at once."""
    while True:
        with held.lock:
            head = held.memory.head(shard)
            if head is None:
                return None
            weight = held.weight(head)
            try:
                blob = held.load(head.key)
            except DamageError:
                continue  # the one before it serves
        return weight, learner.predict(learner.decode(blob), x)
