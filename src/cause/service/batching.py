"""Predictions in batches: requests that wait at the same time are predicted together, by one thread.

No request waits for others to arrive. The inputs that wait are limited in bytes. A batch is small, so a request with
many inputs takes several batches: half of each batch belongs to the oldest request, the rest to the shortest ones. So a
short request waits for one batch, and every request makes progress.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import CauseError
from cause.service.limits import MemoryBudget, Reservation
from cause.service.predictor_cache import Prediction, PredictorCache
from cause.service.problems import ProblemError

MOST_SAMPLES = 512
"""In one batch."""
MOST_BYTES = 8 << 20
"""Of the inputs in one batch; a single input may have more."""
TRIES = 20
"""How often a request of several batches starts again because the voters changed between two of them."""


@dataclass(frozen=True)
class ReservedPrediction:
    """A prediction and the memory that is reserved for it: release it when the response is sent."""

    prediction: Prediction
    reservation: Reservation


@dataclass(eq=False)
class _Job:
    """The inputs of one request, the spans of rows still to predict, and the predictions so far."""

    x: NDArray[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Prediction]"
    todo: deque[tuple[int, int]] = field(default_factory=deque)
    parts: dict[tuple[int, int], Prediction] = field(default_factory=dict)
    tries: int = 0

    @property
    def rows_left(self) -> int:
        return sum(stop - start for start, stop in self.todo)

    def add(self, span: tuple[int, int], part: Prediction) -> None:
        """Add a part. All parts must come from the same voters: those of the last part saw nothing that was erased."""
        if self.parts and _voters_of(next(iter(self.parts.values()))) != _voters_of(part):
            self.tries += 1
            self.todo.extend(sorted(self.parts))
            self.parts.clear()
        self.parts[span] = part

    def joined(self) -> Prediction:
        parts = [self.parts[span] for span in sorted(self.parts)]
        if len(parts) == 1:
            return parts[0]
        labels = np.concatenate([part.labels for part in parts])
        return Prediction(labels, np.concatenate([part.probabilities for part in parts], axis=1), parts[0].voters)


@dataclass(frozen=True)
class _Piece:
    """Rows of one job in one batch."""

    job: _Job
    span: tuple[int, int]

    @property
    def x(self) -> NDArray[Any]:
        return self.job.x[slice(*self.span)]


class PredictionBatcher:
    """A thread that predicts for all requests.

    Parameters
    ----------
    predictors
        Makes the predictions.
    waiting_bytes
        What all inputs that wait may take, with their predictions.
    bytes_per_prediction
        What the prediction for one sample takes, from all heads and as text.
    """

    def __init__(self, predictors: PredictorCache, waiting_bytes: int, bytes_per_prediction: int) -> None:
        self._predictors, self._bytes_per_prediction = predictors, bytes_per_prediction
        self._budget = MemoryBudget(waiting_bytes)
        self._jobs: list[_Job] = []  # the oldest first
        self._closing, self._changed = False, threading.Condition()
        self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
        self._thread.start()

    async def predict(self, x: NDArray[Any], token: str) -> ReservedPrediction:
        """Return the prediction for these inputs.

        Parameters
        ----------
        x
            Inputs, one row a sample.
        token
            The id of the client's token.

        Raises
        ------
        ProblemError
            503 if too many inputs wait, of all clients or of this one, or if the voters change too often.
        """
        reservation = self._budget.reserve(token)
        if not reservation.resize(x.nbytes + len(x) * self._bytes_per_prediction):
            limit = f"at most {self._budget.most_bytes:,} bytes (setting `waiting`)"
            detail = f"too many inputs wait for their prediction, {limit}: ask again"
            raise ProblemError(503, detail, {"Retry-After": "1"})
        try:
            loop = asyncio.get_running_loop()
            job = _Job(x, loop, loop.create_future(), deque([(0, len(x))]))
            with self._changed:
                self._jobs.append(job)
                self._changed.notify()
            return ReservedPrediction(await job.future, reservation)
        except BaseException:
            reservation.release()
            raise

    def close(self) -> None:
        """Finish the jobs that wait, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while pieces := self._next():
            groups: dict[tuple[Any, ...], list[_Piece]] = {}
            for piece in pieces:
                groups.setdefault((piece.job.x.dtype, piece.job.x.shape[1:]), []).append(piece)
            try:
                for group in groups.values():
                    self._predict(group)
                self._finish({piece.job for piece in pieces})
            except Exception as error:  # this thread must go on whatever happens: no other one predicts
                for job in {piece.job for piece in pieces}:
                    self._end(job, error)
            pieces = groups = {}  # type: ignore[assignment]  # keep no inputs while waiting

    def _next(self) -> list[_Piece]:
        """Return the next batch; an empty one at the end."""
        with self._changed:
            while True:
                self._jobs = [job for job in self._jobs if not job.future.done()]  # drop those whose client went away
                if self._jobs or self._closing:
                    return take_batch(self._jobs)
                self._changed.wait()

    def _predict(self, group: list[_Piece]) -> None:
        try:
            x = np.concatenate([piece.x for piece in group]) if len(group) > 1 else group[0].x
            prediction = self._predictors.predict(x)
        except Exception as error:
            if len(group) > 1 and isinstance(error, CauseError):
                for piece in group:  # the inputs of one request may be the reason
                    self._predict([piece])
                return
            for job in {piece.job for piece in group}:
                self._end(job, error)
            return
        start = 0
        for piece in group:
            rows = slice(start, start + piece.span[1] - piece.span[0])
            start = rows.stop
            part = Prediction(prediction.labels[rows], prediction.probabilities[:, rows], prediction.voters)
            piece.job.add(piece.span, part)

    def _finish(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            if job.tries > TRIES:
                detail = "the heads change faster than so many inputs are predicted: send fewer at once"
                self._end(job, ProblemError(503, detail, {"Retry-After": "5"}))
            elif not job.todo and job.parts:
                self._end(job, job.joined())

    def _end(self, job: _Job, result: Prediction | Exception) -> None:
        with self._changed:
            if job not in self._jobs:
                return  # another part of it failed before
            self._jobs.remove(job)

        def set_result() -> None:
            if job.future.done():
                return
            if isinstance(result, Prediction):
                job.future.set_result(result)
            else:
                job.future.set_exception(result)

        with contextlib.suppress(RuntimeError):  # the event loop is closed: the service has stopped
            job.loop.call_soon_threadsafe(set_result)


def take_batch(jobs: list[_Job]) -> list[_Piece]:
    """Return the next batch, and remove its rows from what the jobs still have to do."""
    pieces: list[_Piece] = []
    samples, size = MOST_SAMPLES, MOST_BYTES

    def take(job: _Job, most: int, most_bytes: int) -> None:
        nonlocal samples, size
        row_bytes = max(1, job.x[:1].nbytes)
        while job.todo:
            start, stop = job.todo.popleft()
            fits = max(min(most_bytes, size) // row_bytes, 0 if pieces else 1)
            count = min(stop - start, most, samples, fits)
            if count < stop - start:
                job.todo.appendleft((start + count, stop))
            if count <= 0:
                return
            pieces.append(_Piece(job, (start, start + count)))
            samples, most = samples - count, most - count
            size, most_bytes = size - count * row_bytes, most_bytes - count * row_bytes

    if jobs:
        oldest, *others = jobs
        divisor = 2 if others else 1
        take(oldest, MOST_SAMPLES // divisor, MOST_BYTES // divisor)
        for job in sorted(others, key=lambda job: job.rows_left):
            if not samples:
                break
            take(job, samples, size)
        take(oldest, samples, size)
    return pieces


def _voters_of(prediction: Prediction) -> list[tuple[Any, ...]]:
    return [(voter.sub_model.key, voter.sub_model.identity, voter.weight) for voter in prediction.voters]
