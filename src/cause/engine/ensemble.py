"""Predictions of the heads. One head is decoded at a time; a damaged one is replaced by the one before it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.engine.host_settings import own_error_modes
from cause.engine.law import Law
from cause.engine.learner import Learner
from cause.engine.memory import SubModel
from cause.engine.results import Voter
from cause.engine.state import State
from cause.errors import DamageError, NoVotersError


def voters(state: State) -> list[Voter]:
    """Return the sub-models that vote at this moment, with their weights."""
    with state.lock:
        return [Voter(head, state.weight(head)) for head in state.heads().values()]


def head_bytes(state: State, sub_model: SubModel) -> bytes | None:
    """Return the bytes of a sub-model that votes; None if it votes no more, or was damaged and removed."""
    with state.lock:
        if state.memory.head(sub_model.key.shard) != sub_model:
            return None
        try:
            return state.load(sub_model.key)
        except DamageError:
            return None


def no_voters_reason(state: State, repair: str = "run `cause repair` or call `repair()`") -> str:
    """Return the reason for an error message; `repair` says how its reader starts a repair."""
    if state.ledger.shards():
        return f"every sub-model is lost, damaged or waits for its repair: {repair}"
    return "no shard has learned anything, or all of it was forgotten"


def votes(state: State, law: Law, learner: Learner, x: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
    """Let every head predict.

    Parameters
    ----------
    state
        Ledger and memory.
    law
        Makes a predictor of a head.
    learner
        Predicts.
    x
        Inputs.

    Returns
    -------
    tuple
        The weight of each head (its retained samples), and the probabilities: head × sample × class.

    Raises
    ------
    NoVotersError
        If there is no head.
    """
    weights, probabilities = [], []
    for shard in state.heads():
        vote = _vote_of(state, law, learner, shard, x)
        if vote is not None:
            weights.append(vote[0])
            probabilities.append(vote[1])
    if not weights:
        raise NoVotersError(f"no shard can vote: {no_voters_reason(state)}")
    return np.asarray(weights, dtype=np.float64), np.stack(probabilities)


def _vote_of(state: State, law: Law, learner: Learner, shard: int, x: Any) -> tuple[int, NDArray[np.floating]] | None:
    """Return weight and probabilities of a shard's head. Only this head is decoded: a small board has little memory."""
    while True:
        with state.lock:
            head = state.memory.head(shard)
            if head is None:
                return None
            weight = state.weight(head)
            try:
                with own_error_modes():
                    predictor = law.predictor(learner, head)
            except DamageError:
                continue  # with the one before it
        with own_error_modes():
            return weight, predictor(x)
