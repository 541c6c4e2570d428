"""Erasures that wait together take effect together: one thread, one set of syncs for all of them."""

import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from cause.errors import RequestError
from cause.requests import Request
from cause.serve.heads import Heads
from cause.system import Cause

MOST = 64


@dataclass(frozen=True)
class _Asked:
    request: Request
    id: str
    future: "Future[bool]"


class Erasures:
    """Each answer comes when the request is in effect, or accepted for good: a crash or an error no longer stops it."""

    def __init__(self, device: Cause, heads: Heads) -> None:
        self._device, self._heads = device, heads
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="erasures", daemon=True)
        self._thread.start()

    def erase(self, request: Request, id_: str) -> bool:
        """Serve a request; False if one with this id was accepted before."""
        asked = _Asked(request, id_, Future())
        self._waiting.put(asked)
        return asked.future.result()

    def close(self) -> None:
        """What waits is served first."""
        self._waiting.put(None)
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            asked, ended = [first], False
            while len(asked) < MOST and not ended:
                try:
                    each = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if each is None:
                    ended = True
                else:
                    asked.append(each)
            self._serve(asked)
            if ended:
                return

    def _serve(self, asked: list[_Asked]) -> None:
        new: list[_Asked] = []
        try:
            for each in asked:
                if self._known(each.id) or any(each.id == other.id for other in new):
                    each.future.set_result(False)
                else:
                    new.append(each)
            if new:
                self._device.erase([each.request for each in new], [each.id for each in new])
                self._heads.purge()
            for each in new:
                each.future.set_result(True)
        except RequestError as error:
            if len(new) == 1:
                new[0].future.set_exception(error)
            else:
                for each in new:
                    self._serve([each])
        except Exception as error:
            for each in new:
                if self._known_or_not(each.id):
                    each.future.set_result(True)
                else:
                    each.future.set_exception(error)

    def _known(self, id_: str) -> bool:
        assert self._device.home is not None
        return self._device.home.database.row("SELECT 1 FROM requests WHERE id=?", [id_]) is not None

    def _known_or_not(self, id_: str) -> bool:
        """After an error: accepted or not? What cannot be looked up was not promised."""
        try:
            return self._known(id_)
        except Exception:
            return False
