"""Predictions that wait together are made together, by one thread. Nobody waits for company.

What waits is bounded in bytes. A batch is small, so that many inputs of one request are answered in several: half of
each is the oldest request's, the rest goes to the shortest. So a short request waits for one batch, and no request for
ever.
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
from cause.service.memory_budget import Room, Share
from cause.service.predictor_cache import Answer, Heads
from cause.service.problems import ProblemError

MOST = 512
"""Samples predicted at once."""
MOST_BYTES = 8 << 20
"""And of their inputs; a single one may have more."""
TRIES = 20
"""How often a request of several batches begins again, because others vote than at its beginning."""


@dataclass(frozen=True)
class Predicted:
    """An answer, and the memory that it and its inputs are counted with: let it go when the answer is sent."""

    answer: Answer
    share: Share


@dataclass(eq=False)
class _Asked:
    x: NDArray[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Answer]"
    todo: deque[tuple[int, int]] = field(default_factory=deque)
    parts: dict[tuple[int, int], Answer] = field(default_factory=dict)
    tries: int = 0

    @property
    def left(self) -> int:
        return sum(stop - start for start, stop in self.todo)

    def answered(self, span: tuple[int, int], answer: Answer) -> None:
        """A part. All of them must come from the same voters: whoever serves at the end saw nothing erased before."""
        if self.parts and _who(next(iter(self.parts.values()))) != _who(answer):
            self.tries += 1
            self.todo.extend(sorted(self.parts))
            self.parts.clear()
        self.parts[span] = answer

    def whole(self) -> Answer:
        parts = [self.parts[span] for span in sorted(self.parts)]
        if len(parts) == 1:
            return parts[0]
        labels = np.concatenate([part.labels for part in parts])
        return Answer(labels, np.concatenate([part.probabilities for part in parts], axis=1), parts[0].voters)


@dataclass(frozen=True)
class _Piece:
    asked: _Asked
    span: tuple[int, int]

    @property
    def x(self) -> NDArray[Any]:
        return self.asked.x[slice(*self.span)]


class Batches:
    """A thread that predicts."""

    def __init__(self, heads: Heads, waiting_bytes: int, answer_bytes: int) -> None:
        """`answer_bytes` is what the answer for one sample takes, from all heads and as text."""
        self._heads, self._answer_bytes = heads, answer_bytes
        self._room = Room(waiting_bytes)
        self._waiting: list[_Asked] = []  # the oldest first
        self._ended, self._changed = False, threading.Condition()
        self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
        self._thread.start()

    async def predict(self, x: NDArray[Any], who: str) -> Predicted:
        """What the heads say to these inputs; a 503 when too much waits already, of all or of who asks."""
        share = self._room.share(who)
        if not share.hold(x.nbytes + len(x) * self._answer_bytes):
            raise ProblemError(503, "too many inputs wait for their prediction: ask again", {"Retry-After": "1"})
        try:
            loop = asyncio.get_running_loop()
            asked = _Asked(x, loop, loop.create_future(), deque([(0, len(x))]))
            with self._changed:
                self._waiting.append(asked)
                self._changed.notify()
            return Predicted(await asked.future, share)
        except BaseException:
            share.let_go()
            raise

    def close(self) -> None:
        """What waits is answered first."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while pieces := self._next():
            groups: dict[tuple[Any, ...], list[_Piece]] = {}
            for piece in pieces:
                groups.setdefault((piece.asked.x.dtype, piece.asked.x.shape[1:]), []).append(piece)
            try:
                for group in groups.values():
                    self._answer(group)
                self._settle({piece.asked for piece in pieces})
            except Exception as error:  # this thread goes on, whatever happens: nobody else predicts
                for asked in {piece.asked for piece in pieces}:
                    self._end(asked, error)
            pieces = groups = {}  # type: ignore[assignment]  # nobody's inputs are kept while it waits

    def _next(self) -> list[_Piece]:
        """The next batch; empty at the end."""
        with self._changed:
            while True:
                self._waiting = [asked for asked in self._waiting if not asked.future.done()]  # the client went away
                if self._waiting or self._ended:
                    return batch(self._waiting)
                self._changed.wait()

    def _answer(self, group: list[_Piece]) -> None:
        try:
            answer = self._heads.predict(np.concatenate([each.x for each in group]) if len(group) > 1 else group[0].x)
        except Exception as error:
            if len(group) > 1 and isinstance(error, CauseError):
                for each in group:  # one of them may be the reason
                    self._answer([each])
                return
            for asked in {each.asked for each in group}:
                self._end(asked, error)
            return
        start = 0
        for each in group:
            own = slice(start, start + each.span[1] - each.span[0])
            start = own.stop
            each.asked.answered(each.span, Answer(answer.labels[own], answer.probabilities[:, own], answer.voters))

    def _settle(self, asked: Iterable[_Asked]) -> None:
        for each in asked:
            if each.tries > TRIES:
                told = "the heads change faster than so many inputs are predicted: send fewer at once"
                self._end(each, ProblemError(503, told, {"Retry-After": "5"}))
            elif not each.todo and each.parts:
                self._end(each, each.whole())

    def _end(self, asked: _Asked, told: Answer | Exception) -> None:
        with self._changed:
            if asked not in self._waiting:
                return  # another part of it failed before
            self._waiting.remove(asked)

        def settle() -> None:
            if asked.future.done():
                return
            if isinstance(told, Answer):
                asked.future.set_result(told)
            else:
                asked.future.set_exception(told)

        with contextlib.suppress(RuntimeError):  # the service has stopped
            asked.loop.call_soon_threadsafe(settle)


def batch(waiting: list[_Asked]) -> list[_Piece]:
    """A batch of what waits, which is marked as taken."""
    pieces: list[_Piece] = []
    samples, size = MOST, MOST_BYTES

    def take(asked: _Asked, most: int, most_bytes: int) -> None:
        nonlocal samples, size
        row = max(1, asked.x[:1].nbytes)
        while asked.todo:
            start, stop = asked.todo.popleft()
            fits = max(min(most_bytes, size) // row, 0 if pieces else 1)
            count = min(stop - start, most, samples, fits)
            if count < stop - start:
                asked.todo.appendleft((start + count, stop))
            if count <= 0:
                return
            pieces.append(_Piece(asked, (start, start + count)))
            samples, most = samples - count, most - count
            size, most_bytes = size - count * row, most_bytes - count * row

    if waiting:
        oldest, *others = waiting
        share = 2 if others else 1
        take(oldest, MOST // share, MOST_BYTES // share)
        for other in sorted(others, key=lambda asked: asked.left):
            if not samples:
                break
            take(other, samples, size)
        take(oldest, samples, size)
    return pieces


def _who(answer: Answer) -> list[tuple[Any, ...]]:
    return [(voter.sub_model.key, voter.sub_model.identity, voter.weight) for voter in answer.voters]
