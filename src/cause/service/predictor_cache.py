"""A cache of decoded heads. A cached head is used only while the device says that it is a head."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause, Voter
from cause.engine.ensemble import why_nobody_votes
from cause.engine.host_settings import own_error_modes
from cause.engine.learner import Predictor
from cause.engine.samples import SegmentKey
from cause.engine.voting import VOTES, Labels
from cause.errors import CauseError


class NoVotersError(CauseError):
    """Raised by a prediction when no shard has a trained head: nothing was learned yet, or all of it was forgotten."""


@dataclass(frozen=True)
class Prediction:
    """What the heads predict for some inputs."""

    labels: Labels
    """By vote, one for each input."""
    probabilities: NDArray[np.floating]
    """Of each head; the axes are voter, sample, class."""
    voters: tuple[Voter, ...]


class PredictorCache:
    """Predicts with decoded heads, which it keeps by identity.

    An identity covers all that a sub-model was trained from, so a sub-model that was trained again without some samples
    has another one.

    The device is asked for its voters before a prediction and again after it. If a head that was used is no longer one,
    because its samples were forgotten or because there is a newer one, the prediction is repeated: no prediction that
    is returned after an erasure took effect comes from a sub-model that saw the erased samples.
    """

    def __init__(self, device: Cause) -> None:
        self._device = device
        self._predictors: dict[tuple[SegmentKey, bytes], Predictor] = {}
        self._lock = threading.Lock()

    def predict(self, x: NDArray[Any]) -> Prediction:
        """Return the labels that the heads vote for, and the probabilities of each head.

        Raises
        ------
        NoVotersError
            If there is no head.
        """
        while True:
            voters = self._device.voters()
            if not voters:
                why = why_nobody_votes(self._device.held, "an operator starts one with POST /v1/repairs")
                raise NoVotersError(f"nobody can vote: {why}")
            with own_error_modes():  # as in `Cause.predict`; inputs far from all that was learned overflow
                predictors = self._load(voters)
                if predictors is None:
                    continue
                probabilities = np.nan_to_num(np.stack([predictor(x) for predictor in predictors]))
            serving = self._serving()
            if all((voter.sub_model.key, voter.sub_model.identity) in serving for voter in voters):
                weights = np.asarray([voter.weight for voter in voters], dtype=np.float64)
                labels = VOTES[self._device.system.vote](probabilities, weights)
                return Prediction(labels, probabilities, tuple(voters))

    def _load(self, voters: list[Voter]) -> list[Predictor] | None:
        """Return the predictor of each voter; None if the sub-model of one was deleted meanwhile."""
        predictors = []
        try:
            for voter in voters:
                name = voter.sub_model.key, voter.sub_model.identity
                predictor = self._predictors.get(name)
                if predictor is None:
                    blob = self._device.load(voter.sub_model)
                    if blob is None:
                        return None
                    predictor = self._predictors[name] = self._decode(blob)
                predictors.append(predictor)
            return predictors
        finally:
            self.purge()  # a sub-model may have been forgotten while it was decoded

    def _decode(self, blob: bytes) -> Predictor:
        learner = self._device.learner
        return learner.predictor(learner.decode(blob))

    def _serving(self) -> set[tuple[SegmentKey, bytes]]:
        return {(voter.sub_model.key, voter.sub_model.identity) for voter in self._device.voters()}

    def purge(self) -> None:
        """Drop the decoded sub-models that are no longer heads."""
        serving = self._serving()
        with self._lock:
            for name in self._predictors.keys() - serving:
                self._predictors.pop(name, None)
