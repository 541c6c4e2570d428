"""Erasures over HTTP, one after the other. Served together, each receipt would show how much the others erased."""

import threading
from collections.abc import Sequence
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
        return self.erase_all([request], [id_])

    def erase_all(self, requests: Sequence[Request], ids: Sequence[str]) -> bool:
        """Serve requests of different users, each under an id and with receipts of its own.

        All of them are accepted in one transaction, so that no crash leaves some out; then they take effect one after
        the other.

        Returns
        -------
        False if requests with these ids were accepted before: nothing is done then.

        Raises
        ------
        RequestError
            If one names samples that are not there. Nothing was changed then.
        """
        with self._lock:
            new = [(request, id_) for request, id_ in zip(requests, ids, strict=True) if not self._is_recorded(id_)]
            if not new:
                return False
            to_serve, new_ids = [request for request, _ in new], [id_ for _, id_ in new]
            try:
                self._device.serve(to_serve, repair="later", together=False, ids=new_ids, lenient=True)
            except RequestError:
                raise
            except Exception:
                if not self._was_accepted(new_ids[0]):
                    raise
                with suppress(Exception):  # they are durable and will be served; until then their state is `accepted`
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
