"""Predictions that wait together are made together, by one thread. Nobody waits for company."""

import asyncio
import contextlib
import queue
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import CauseError
from cause.serve.heads import Answer, Heads

MOST = 512
"""Samples predicted at once, if more than one request waits."""


@dataclass(frozen=True)
class _Asked:
    x: NDArray[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Answer]"


class Batches:
    """A thread that predicts."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
        self._thread.start()

    async def predict(self, x: NDArray[Any]) -> Answer:
        """What the heads say to these inputs."""
        loop = asyncio.get_running_loop()
        asked = _Asked(x, loop, loop.create_future())
        self._waiting.put(asked)
        return await asked.future

    def close(self) -> None:
        """What waits is answered first."""
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            asked, ended = self._gathered(first)
            groups: dict[tuple[Any, ...], list[_Asked]] = {}
            for each in asked:
                groups.setdefault((each.x.dtype, each.x.shape[1:]), []).append(each)
            for group in groups.values():
                self._answer(group)
            if ended:
                return

    def _gathered(self, first: _Asked) -> tuple[list[_Asked], bool]:
        asked, samples = [first], len(first.x)
        while samples < MOST:
            try:
                each = self._waiting.get_nowait()
            except queue.Empty:
                break
            if each is None:
                return asked, True
            asked.append(each)
            samples += len(each.x)
        return asked, False

    def _answer(self, group: list[_Asked]) -> None:
        try:
            answer = self._heads.predict(np.concatenate([each.x for each in group]) if len(group) > 1 else group[0].x)
        except Exception as error:
            if len(group) > 1 and isinstance(error, CauseError):
                for each in group:  # one of them may be the reason
                    self._answer([each])
                return
            for each in group:
                _settle(each, None, error)
            return
        start = 0
        for each in group:
            own = slice(start, start + len(each.x))
            start += len(each.x)
            _settle(each, Answer(answer.labels[own], answer.probabilities[:, own], answer.voters), None)


def _settle(asked: _Asked, answer: Answer | None, error: BaseException | None) -> None:
    def settle() -> None:
        if asked.future.done():
            return  # the client went away
        if error is not None:
            asked.future.set_exception(error)
        elif answer is not None:
            asked.future.set_result(answer)

    with contextlib.suppress(RuntimeError):  # the service has stopped
        asked.loop.call_soon_threadsafe(settle)
