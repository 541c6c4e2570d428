"""The heads, ready to vote. A decoded head serves only while the device says that it is one."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause, Voter
from cause.engine.ensemble import why_nobody_votes
from cause.engine.learner import Predictor
from cause.engine.samples import SegmentKey
from cause.engine.voting import VOTES, Labels
from cause.errors import CauseError


class NobodyVotesError(CauseError):
    """No shard has learned anything, or all of it was forgotten."""


@dataclass(frozen=True)
class Answer:
    """What the heads say."""

    labels: Labels
    probabilities: NDArray[np.floating]
    """Of each head: voter, sample, class."""
    voters: tuple[Voter, ...]


class Heads:
    """Keeps decoded heads by identity. An identity names all that a sub-model was made of, so one that was trained
    again without somebody's samples is another one.

    Who votes is asked of the device before a prediction and again after it. If a head that was used is a head no more,
    because what it saw was forgotten or because a newer one is there, the prediction is made anew: no answer that is
    given after a forgetting took effect comes from what saw the forgotten.
    """

    def __init__(self, device: Cause) -> None:
        self._device = device
        self._ready: dict[tuple[SegmentKey, bytes], Predictor] = {}
        self._lock = threading.Lock()

    def predict(self, x: NDArray[Any]) -> Answer:
        """Labels by vote, and what each head thinks."""
        while True:
            voters = self._device.voters()
            if not voters:
                why = why_nobody_votes(self._device.held, "an operator starts one with POST /v1/repairs")
                raise NobodyVotesError(f"nobody can vote: {why}")
            ready = self._predictors(voters)
            if ready is None:
                continue
            with np.errstate(all="ignore"):  # of inputs far from all that was learned; they have no likely class
                probabilities = np.nan_to_num(np.stack([predictor(x) for predictor in ready]))
            serving = {(voter.sub_model.key, voter.sub_model.identity) for voter in self._device.voters()}
            if all((voter.sub_model.key, voter.sub_model.identity) in serving for voter in voters):
                weights = np.asarray([voter.weight for voter in voters], dtype=np.float64)
                labels = VOTES[self._device.system.vote](probabilities, weights)
                return Answer(labels, probabilities, tuple(voters))

    def _predictors(self, voters: list[Voter]) -> list[Predictor] | None:
        """One for each voter; None if one of them went meanwhile."""
        found = []
        try:
            for voter in voters:
                name = voter.sub_model.key, voter.sub_model.identity
                predictor = self._ready.get(name)
                if predictor is None:
                    blob = self._device.load(voter.sub_model)
                    if blob is None:
                        return None
                    predictor = self._ready[name] = self._decoded(blob)
                found.append(predictor)
            return found
        finally:
            self.purge()  # one may have been forgotten while it was decoded

    def _decoded(self, blob: bytes) -> Predictor:
        learner = self._device.learner
        return learner.predictor(learner.decode(blob))

    def purge(self) -> None:
        """Let go of what votes no more."""
        serving = {(voter.sub_model.key, voter.sub_model.identity) for voter in self._device.voters()}
        with self._lock:
            for name in self._ready.keys() - serving:
                self._ready.pop(name, None)
