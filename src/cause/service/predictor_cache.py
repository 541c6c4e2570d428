"""A cache of decoded heads. A cached head is used only while the device says that it is a head."""

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause, Voter
from cause.engine.ensemble import no_voters_reason
from cause.engine.host_settings import own_error_modes
from cause.engine.learner import Learner, Predictor
from cause.engine.presets import ADDITIVE
from cause.engine.samples import SegmentKey
from cause.engine.voting import VOTES, Labels
from cause.errors import NoVotersError
from cause.service.problems import ProblemError

Name = tuple[SegmentKey, bytes]
"""A head: its key and its identity."""


@dataclass(frozen=True)
class Prediction:
    """What the heads predict for some inputs."""

    labels: Labels
    """By vote, one for each input."""
    probabilities: NDArray[np.floating]
    """Of each head; the axes are voter, sample, class."""
    voters: tuple[Voter, ...]


class Solving:
    """The solution of an additive head, in a thread of its own.

    Parameters
    ----------
    learner
        Solves.
    blob
        The bytes of the state.
    """

    def __init__(self, learner: Learner, blob: bytes) -> None:
        self._learner, self._blob = learner, blob
        self._predictor: Predictor | None = None
        self._error: Exception | None = None
        self.started, self._done = time.monotonic(), threading.Event()
        threading.Thread(target=self._run, name="solving", daemon=True).start()

    def _run(self) -> None:
        try:
            with own_error_modes():
                self._predictor = self._learner.predictor(self._learner.decode(self._blob))
        except Exception as error:  # raised where the prediction waits
            self._error = error
        finally:
            self._blob = b""
            self._done.set()

    def wait(self, seconds: float | None) -> Predictor | None:
        """Return the solution; None if it takes longer than this."""
        if not self._done.wait(seconds):
            return None
        if self._error is not None:
            raise self._error
        return self._predictor


class PredictorCache:
    """Predicts with decoded heads, which it keeps by identity.

    An identity covers all that a sub-model was trained from, so a sub-model that was trained again without some samples
    has another one.

    The device is asked for its voters before a prediction and again after it. If a head that was used is no longer one,
    because its samples were forgotten or because there is a newer one, the prediction is repeated: no prediction that
    is returned after an erasure took effect comes from a sub-model that saw the erased samples.

    Parameters
    ----------
    device
        The device.
    patience_s
        How long a prediction waits for the solution of an additive head that has changed; None: as long as it takes.
        After that it is refused, and the solution goes on.
    """

    def __init__(self, device: Cause, patience_s: float | None = None) -> None:
        self._device, self._patience_s = device, patience_s
        self._predictors: dict[Name, Predictor] = {}
        self._solving: dict[Name, Solving] = {}
        self._last_s = 0.0  # how long the last solution took
        self._lock = threading.Lock()

    def predict(self, x: NDArray[Any]) -> Prediction:
        """Return the labels that the heads vote for, and the probabilities of each head.

        Raises
        ------
        NoVotersError
            If there is no head.
        ProblemError
            503 with Retry-After if an additive head takes longer to solve than predictions wait.
        """
        while True:
            voters = self._device.voters()
            if not voters:
                why = no_voters_reason(self._device.state, "an operator starts one with POST /v1/repairs")
                raise NoVotersError(f"no shard can vote: {why}")
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
                    predictor = self._made(name, voter)
                    if predictor is None:
                        return None
                    self._predictors[name] = predictor
                predictors.append(predictor)
            return predictors
        finally:
            self.purge()  # a sub-model may have been forgotten while it was decoded

    def _made(self, name: Name, voter: Voter) -> Predictor | None:
        """Return the predictor of a head that is not cached; None if the head was deleted meanwhile."""
        learner, job = self._device.learner, self._solving.get(name)
        if job is None:
            blob = self._device.load(voter.sub_model)
            if blob is None:
                return None
            if learner.law != ADDITIVE or self._patience_s is None:
                return learner.predictor(learner.decode(blob))
            job = self._solving[name] = Solving(learner, blob)
        found = job.wait(self._patience_s)
        took = time.monotonic() - job.started
        if found is None:
            left = max(1, math.ceil(self._last_s - took))
            raise ProblemError(503, "the head is being solved anew: ask again", {"Retry-After": str(left)})
        self._last_s = took
        self._solving.pop(name, None)
        return found

    def _serving(self) -> set[Name]:
        return {(voter.sub_model.key, voter.sub_model.identity) for voter in self._device.voters()}

    def purge(self) -> None:
        """Drop the decoded sub-models that are no longer heads."""
        serving = self._serving()
        with self._lock:
            for name in self._predictors.keys() - serving:
                self._predictors.pop(name, None)
            for name in self._solving.keys() - serving:
                self._solving.pop(name, None)  # its thread ends, and nobody asks for what it found
