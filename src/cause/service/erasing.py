"""Erasures, one after the other. Served together, each answer and receipt would tell how much the others erased."""

import threading
from contextlib import suppress

from cause.device.device import Cause
from cause.engine.requests import Request
from cause.errors import RequestError
from cause.service.predictor_cache import Heads


class Erasures:
    """Each answer comes when the request is in effect, or accepted for good: a crash or an error no longer stops it."""

    def __init__(self, device: Cause, heads: Heads) -> None:
        self._device, self._heads = device, heads
        self._lock = threading.Lock()

    def erase(self, request: Request, id_: str) -> bool:
        """Serve a request; False if one with this id was accepted before."""
        with self._lock:
            if self._known(id_):
                return False
            try:
                self._device.serve([request], repair="later", together=False, ids=[id_], lenient=True)
            except RequestError:
                raise
            except Exception:
                if not self._accepted(id_):
                    raise
                with suppress(Exception):  # it will be served, whatever happens; until then it is only accepted
                    self._device.resume()
            self._heads.purge()
            return True

    def close(self) -> None:
        """Wait for the one under way."""
        with self._lock:
            pass

    def _known(self, id_: str) -> bool:
        assert self._device.home is not None
        return self._device.home.queries.is_request(id_)

    def _accepted(self, id_: str) -> bool:
        """After an error: what cannot be looked up was not promised."""
        try:
            return self._known(id_)
        except Exception:
            return False
