"""Erasures over HTTP, one after the other. Served together, each receipt would show how much the others erased."""

import threading
from contextlib import suppress

from cause.device.device import Cause
from cause.engine.requests import Request
from cause.errors import RequestError
from cause.service.predictor_cache import PredictorCache


class Erasures:
    """Serves erasures: when `erase` returns, a request is in effect, or accepted so that no crash stops it."""

    def __init__(self, device: Cause, predictors: PredictorCache) -> None:
        self._device, self._predictors = device, predictors
        self._lock = threading.Lock()

    def erase(self, request: Request, id_: str) -> bool:
        """Serve a request under an id.

        Returns
        -------
        False if a request with this id was accepted before: nothing is done then.

        Raises
        ------
        RequestError
            If the request names samples that are not there.
        """
        with self._lock:
            if self._is_recorded(id_):
                return False
            try:
                self._device.serve([request], repair="later", together=False, ids=[id_], lenient=True)
            except RequestError:
                raise
            except Exception:
                if not self._was_accepted(id_):
                    raise
                with suppress(Exception):  # it is durable and will be served; until then its state is `accepted`
                    self._device.resume()
            self._predictors.purge()
            return True

    def close(self) -> None:
        """Wait for the erasure under way."""
        with self._lock:
            pass

    def _is_recorded(self, id_: str) -> bool:
        assert self._device.home is not None
        return self._device.home.queries.is_request(id_)

    def _was_accepted(self, id_: str) -> bool:
        """Return whether a request was accepted before an error; False if that cannot be looked up."""
        try:
            return self._is_recorded(id_)
        except Exception:
            return False
