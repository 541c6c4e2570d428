"""The client of the HTTP service: one method for each route."""

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.client import calls
from cause.client.calls import (
    EVENTS_TIMEOUT,
    LOOK_S,
    WAIT_S,
    Call,
    EventParser,
    ServiceError,
    retry_pause_s,
    service_error,
)
from cause.client.shapes import (
    Bundle,
    Evaluation,
    Event,
    HeldSample,
    Log,
    Matched,
    Predictions,
    Request,
    Round,
    Upload,
    Uploads,
    Verification,
    from_json,
)
from cause.client.status import Status

__all__ = ["Client", "ServiceError"]

T = TypeVar("T")


class Client:
    """Calls one service with one token.

    Every method raises `ServiceError` when the service refuses, and an error of httpx when it cannot be reached.
    Uploads, rounds and erasures take an idempotency `key`: a call that is repeated with the same key is done once, so a
    call whose response was lost can be repeated safely. Without one, a random key is sent. When the service is busy
    (429 or 503), the call is sent again with the same key.

    Parameters
    ----------
    url
        Where the service listens, as `http://127.0.0.1:8470`.
    token
        The secret that `cause token create` printed.
    timeout_s
        Seconds that a call may take.
    retries
        How often a call is sent again when the service is busy, after the pause that it asks for (at most 10 seconds).
    verify
        How TLS certificates are checked, as in `httpx.Client`.
    transport
        A transport of httpx, for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 30.0,
        retries: int = 3,
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.Client(transport=transport, **calls.connection(url, token, timeout_s, verify))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Samples in, labels out

    def upload(self, user: str, x: ArrayLike, y: ArrayLike, *, key: str | None = None) -> Upload:
        """Stage samples of a user for the next round.

        Parameters
        ----------
        user
            The user's id.
        x
            Inputs, one row a sample.
        y
            Labels.
        key
            An idempotency key.

        Returns
        -------
        The upload, with a handle for each row in the order of `x`.
        """
        return self._do(calls.upload(user, x, y, key))

    def upload_all(
        self, x: ArrayLike, y: ArrayLike, users: Sequence[str] | NDArray[np.str_], *, key: str | None = None
    ) -> Uploads:
        """Stage samples of several users for the next round: all of them or none.

        The token needs the scope `operator` or `ingest`.

        Parameters
        ----------
        x
            Inputs, one row a sample.
        y
            Labels.
        users
            The user of each row.
        key
            An idempotency key.
        """
        return self._do(calls.upload_all(x, y, users, key))

    def close_round(self, *, key: str | None = None, empty: bool = False, wait: bool = False) -> Round:
        """Close a round of all staged samples. Its training follows in the background.

        Parameters
        ----------
        key
            An idempotency key.
        empty
            Close a round even if nothing is staged; otherwise the service refuses that (409). Every sample gets a round
            older, and retention by rounds may delete some.
        wait
            Return when the round is trained, after 10 minutes at the latest: its `state` says which. A round whose
            shards wait for a repair is not waited for.
        """
        round_ = self._do(calls.close_round(key, empty))
        end = time.monotonic() + WAIT_S
        while wait and round_.state == "training" and time.monotonic() < end:
            time.sleep(LOOK_S)
            round_ = self.round(round_.round)
        return round_

    def round(self, number: int) -> Round:
        """Return a round and the state of its training."""
        return self._do(calls.round_(number))

    def predict(self, x: ArrayLike, *, probabilities: bool = False) -> Predictions:
        """Predict the label of each input; with `probabilities`, also return those of each class."""
        return self._do(calls.predict(x, probabilities))

    def evaluate(self, x: ArrayLike, y: ArrayLike) -> Evaluation:
        """Measure the accuracy on labelled samples. The service keeps the result only."""
        return self._do(calls.evaluate(x, y))

    # Forgetting, and the evidence of it

    def erase(
        self,
        user: str,
        *,
        rounds: Sequence[int] | None = None,
        count: int | None = None,
        samples: Sequence[tuple[int, int]] | None = None,
        handles: Sequence[str] | None = None,
        matching: "tuple[ArrayLike, ArrayLike | None] | None" = None,
        nonce: str | None = None,
        key: str | None = None,
    ) -> Request:
        """Forget everything of a user, some rounds, the lowest `count` samples of a round, or named samples.

        When it returns, nothing that is stored or served has seen the samples.

        Parameters
        ----------
        user
            The user's id.
        rounds
            Only samples of these rounds.
        count
            Only so many samples of one round: those with the lowest positions, which are random.
        samples
            Only these, as pairs of round and position. A position is a random number inside the device, not the row's
            number in the upload.
        handles
            Only these: the handles that `upload` returned and `samples` lists.
        matching
            Only samples that equal one of the rows (x, y), or (x, None) for any label.
        nonce
            A random text of up to 128 characters that the receipts commit to: `cause verify FILE --key … --nonce …`
            then accepts receipts of this request only.
        key
            An idempotency key.

        Raises
        ------
        InputError
            If both `handles` and `matching` are given, or no sample matches.
        """
        calls.refuse_both(handles, matching)
        matched = None if matching is None else self.match(user, *matching)
        body = calls.erasure(rounds, count, samples, calls.matched_handles(handles, matched), nonce)
        return self._do(calls.erase(user, body, key))

    def erase_all(self, erasures: Mapping[str, Mapping[str, Any]], *, key: str | None = None) -> dict[str, Request]:
        """Forget samples of several users: all of these erasures are accepted, or none.

        Parameters
        ----------
        erasures
            By user the parameters of `erase` as in JSON: `{}` for everything, `{"rounds": [1]}`, `{"handles": […]}` …
        key
            An idempotency key.

        Returns
        -------
        The request of each user, with receipts of its own.
        """
        return self._do(calls.erase_all(erasures, key))

    def plan(
        self,
        user: str,
        *,
        rounds: Sequence[int] | None = None,
        count: int | None = None,
        samples: Sequence[tuple[int, int]] | None = None,
        handles: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return what an erasure would delete and cost. Nothing is changed; the parameters are those of `erase`.

        A user's own token is answered with the keys `samples` and `staged` alone: the others depend on other users.
        """
        return self._do(calls.plan(user, calls.erasure(rounds, count, samples, handles)))

    def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """Return which samples of a user equal these rows, and how many rows equal none. The rows are not kept."""
        return self._do(calls.match(user, x, y))

    def request(self, id_: str) -> Request:
        """Return a request and its state."""
        return self._do(calls.request(id_))

    def repair(self, *, wait: bool = False, from_scratch: Sequence[int] = ()) -> list[int]:
        """Repair now, whatever the schedule says.

        Parameters
        ----------
        wait
            Return when no shard waits any more, after 10 minutes at the latest.
        from_scratch
            Shards whose sub-models are dropped and trained again in the environment of the device, whichever they had.
            They do not vote until then.

        Returns
        -------
        The shards that wait.
        """
        waiting, end = self._do(calls.repair(from_scratch)), time.monotonic() + WAIT_S
        while wait and waiting and time.monotonic() < end:
            time.sleep(LOOK_S)
            waiting = self.status()["repair"]["waiting"]
        return waiting

    def requests(
        self, *, state: str | None = None, prefix: str | None = None, since: str | None = None, until: str | None = None
    ) -> Iterator[Request]:
        """Yield requests, the newest first.

        Parameters
        ----------
        state
            Only those in this state: accepted, in_effect, repaired, open (not repaired) or overdue.
        prefix
            Only those whose id begins like this.
        since, until
            Only those received within these times: dates, or RFC 3339 times with a zone.
        """
        query = calls.request_filter(state, prefix, since, until)
        return (from_json(Request, item) for item in self._pages("/v1/requests", query))

    def receipts(self, request: str) -> list[Bundle]:
        """Return the receipts of a request, with their proofs."""
        return self._do(calls.receipts(request))

    def verify(self, receipt: int | None = None, *, wait: bool = True, wait_s: float = WAIT_S) -> Verification:
        """Verify a receipt, or all stored sub-models, by replay on the device.

        Parameters
        ----------
        receipt
            The receipt's number; None verifies all stored sub-models.
        wait
            Wait for the result; without it, `verification` returns it later.
        wait_s
            How long to wait at most, in seconds.

        Returns
        -------
        The verification; its state is still `running` if it took longer than `wait_s`.
        """
        verification, end = self._do(calls.verify(receipt)), time.monotonic() + wait_s
        while wait and verification.state == "running" and time.monotonic() < end:
            time.sleep(LOOK_S)
            verification = self.verification(verification.id)
        return verification

    def verification(self, id_: str) -> Verification:
        """Return a verification and its state."""
        return self._do(calls.verification(id_))

    def log(self) -> Log:
        """Return the log's signed head."""
        return self._do(calls.log())

    # Looking

    def status(self) -> Status:
        """Return the state of the device: what serves, waits, is overdue, or will be deleted because of its age.

        Returns
        -------
        The JSON object as the service sent it; a type checker knows its keys: `status()["requests"]["overdue"]`.
        """
        status: Status = self._do(calls.get("/v1/status"))
        return status

    def user(self, user: str) -> dict[str, Any]:
        """Return what is held of a user."""
        return self._do(calls.user(user))

    def samples(self, user: str, *, round: int | None = None) -> Iterator[HeldSample]:  # noqa: A002
        """Yield the samples of a user, all or those of one round, the newest first."""
        query = "" if round is None else f"&round={round:d}"
        return (from_json(HeldSample, item) for item in self._pages(calls.path_of(user, "/samples"), query))

    def shards(self) -> list[dict[str, Any]]:
        """Return all shards with their segments."""
        shards: list[dict[str, Any]] = self._do(calls.get("/v1/shards"))["shards"]
        return shards

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """Yield events as they happen, until the service or the caller ends it.

        Parameters
        ----------
        after
            The id of the last event that was seen: the service first sends the later ones that it still has.
        """
        with self._http.stream("GET", calls.events_path(after), timeout=EVENTS_TIMEOUT) as response:
            if response.status_code != 200:
                response.read()
                raise service_error(response)
            parser = EventParser()
            for line in response.iter_lines():
                event = parser.add(line)
                if event is not None:
                    yield event

    def _pages(self, path: str, query: str = "") -> Iterator[dict[str, Any]]:
        before: int | None = None
        while True:
            page = self._do(calls.page(path, query, before))
            yield from page["items"]
            before = page["next"]
            if before is None:
                return

    def _do(self, call: Call[T]) -> T:
        """Send a call, again while the service is busy, and return its result."""
        attempt = 0
        while True:
            response = self._http.request(call.method, call.path, content=call.content, headers=call.headers)
            pause = retry_pause_s(response, attempt, self._retries)
            if pause is None:
                return call.result(response)
            time.sleep(pause)
            attempt += 1
