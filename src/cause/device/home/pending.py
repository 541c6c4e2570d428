"""The requests of a home: accepting them, reading those that wait, and marking them as repaired."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from secrets import token_hex

from cause.device.receipts.receipts import Receipts, nonce_digest
from cause.device.store.clock import Clock
from cause.device.store.directory import Directory
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import padded
from cause.device.store.tables import Tables
from cause.device.store.tables.requests import SealedRequest
from cause.engine.requests import Request

REQUEST_BYTES = 256
"""A request is padded to a multiple of this, so that its length does not tell that of a name."""


class Pending:
    """The requests of a home.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory
        The names of the users.
    receipts
        Signs receipts.
    clock
        Dates requests.
    """

    def __init__(
        self, store: SealedStore, tables: Tables, directory: Directory, receipts: Receipts, clock: Clock
    ) -> None:
        self._store, self._tables, self._directory = store, tables, directory
        self._receipts, self._clock = receipts, clock

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None, deadline_s: float) -> list[str]:
        """Record requests durably, each sealed under a key of its own, and return their ids.

        Parameters
        ----------
        requests
            What to forget.
        ids
            Their ids, each 32 hexadecimal digits; drawn at random unless they are given.
        deadline_s
            Within how many seconds they must be repaired.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. None of the requests is recorded then.
        """
        store, vault = self._store, self._store.vault
        ids = [token_hex(16) for _ in requests] if ids is None else list(ids)
        names = [bytes.fromhex(id_) for id_ in ids]
        # a call that failed below is repeated with the same id, and its key is in the vault already
        new = [name for name in names if name not in vault]
        vault.add_keys(new)
        store.garbage.add_uncertain(new)  # until the tables name them
        now = self._clock.now()
        with self._tables.database.transaction():
            for id_, name, request in zip(ids, names, requests, strict=True):
                plain = padded(json.dumps(asdict(request)).encode(), REQUEST_BYTES, b" ")
                sealed = SealedRequest(id_, name, vault.seal(name, plain, b"request" + name))
                self._tables.requests.add(sealed, now, now + deadline_s, nonce_digest(request.nonce))
        store.garbage.difference_update(names)
        return ids

    def expired(self, retain: tuple[int | None, float | None]) -> list[Request]:
        """Return requests for all samples that are older than so many rounds or seconds, one for each user."""
        rounds, seconds = retain
        samples = self._tables.samples
        if rounds is not None:
            uploads = samples.uploads_upto_round(float(samples.last_round() - rounds))
        elif seconds is not None and self._clock.doubt() is None:
            uploads = samples.uploads_before(self._clock.now() - seconds)
        else:
            return []
        rounds_of: dict[str, list[int]] = {}
        for pseudonym, round_ in uploads:
            rounds_of.setdefault(self._directory.name(pseudonym), []).append(round_)
        return [Request(user, tuple(sorted(old)), exact=True, expiry=True) for user, old in sorted(rounds_of.items())]

    def accepted(self) -> list[tuple[str, Request]]:
        """Return the requests that were accepted and have not taken effect, with their ids, oldest first."""
        return [(request.id, self._unsealed(request)) for request in self._tables.requests.unserved()]

    def requests(self, ids: Sequence[str]) -> list[Request]:
        """Return the requests with these ids that have not taken effect."""
        return [self._unsealed(request) for request in self._tables.requests.sealed(ids)]

    def _unsealed(self, request: SealedRequest) -> Request:
        payload = json.loads(self._store.vault.open_sealed(request.key, request.sealed, b"request" + request.key))
        rounds = None if payload["rounds"] is None else tuple(payload["rounds"])
        samples = None if payload["samples"] is None else tuple((int(t), int(at)) for t, at in payload["samples"])
        handles = None if payload.get("handles") is None else tuple(payload["handles"])
        exact = bool(payload.get("exact", False))
        nonce, expiry = payload.get("nonce"), bool(payload.get("expiry", False))
        return Request(payload["user"], rounds, payload["count"], samples, handles, nonce, exact, expiry)

    def failed(self, errors: Mapping[int, str]) -> None:
        """Record which shards' training fails, with the type of their last error; the others do not fail."""
        if self._tables.requests.failing() != dict(errors):
            with self._tables.database.transaction():
                self._tables.requests.set_failing(errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        """Record the end of a training after which only these shards wait: requests that touched none are repaired."""
        self._receipts.issue()  # an erasure that an error stopped: its keys are destroyed before it counts as repaired
        with self._tables.database.transaction():
            now = self._clock.now()
            self._tables.requests.clear_behind(behind)
            self._tables.requests.mark_behind(behind, now)
            self._tables.requests.mark_repaired(set(behind), now)
            self._receipts.sign_repairs()
