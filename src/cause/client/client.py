"""The client of the HTTP service: one method for each route."""

import io
import json
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    UserUpload,
    Verification,
    from_json,
)
from cause.client.status import Status
from cause.common.names import normal_name
from cause.errors import CauseError, InputError

NPZ = "application/x-npz"
SMALL = 64
"""Up to so many inputs are sent as JSON, which is faster to encode; more are sent as npz."""


class ServiceError(CauseError):
    """The service answered with an error.

    Parameters
    ----------
    status
        The HTTP status.
    kind
        The kind of problem, as `not-found`.
    detail
        One sentence that says what was wrong.
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status, self.kind, self.detail = status, kind, detail


class Client:
    """Calls one service with one token.

    Every method raises `ServiceError` when the service refuses, and an error of httpx when it cannot be reached.
    Uploads, rounds and erasures take an idempotency `key`: a call that is repeated with the same key is done once, so a
    call whose response was lost can be repeated safely.

    Parameters
    ----------
    url
        Where the service listens, as `http://127.0.0.1:8470`.
    token
        The secret that `cause token create` printed.
    timeout_s
        Seconds that a call may take.
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
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, verify=verify, transport=transport, trust_env=False
        )

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
        path = _path_of(normal_name(user), "/samples")
        return from_json(Upload, self._send("POST", path, content=_npz(x=x, y=y), kind=NPZ, key=key))

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
        names = np.array([normal_name(str(user)) for user in users])
        body = self._send("POST", "/v1/samples", content=_npz(x=x, y=y, users=names), kind=NPZ, key=key)
        return from_json(Uploads, body | {"uploads": [from_json(UserUpload, upload) for upload in body["uploads"]]})

    def close_round(self, *, key: str | None = None, empty: bool = False) -> Round:
        """Close a round of all staged samples. Its training follows in the background.

        Parameters
        ----------
        key
            An idempotency key.
        empty
            Close a round even if nothing is staged; otherwise the service refuses that (409). Every sample gets a round
            older, and retention by rounds may delete some.
        """
        return from_json(Round, self._send("POST", "/v1/rounds", json={"empty": True} if empty else None, key=key))

    def round(self, number: int) -> Round:
        """Return a round and the state of its training."""
        return from_json(Round, self._send("GET", f"/v1/rounds/{number:d}"))

    def predict(self, x: ArrayLike, *, probabilities: bool = False) -> Predictions:
        """Predict the label of each input; with `probabilities`, also return those of each class."""
        inputs = np.asarray(x)
        path = "/v1/predictions" + ("?probabilities=true" if probabilities else "")
        if len(inputs) <= SMALL and inputs.dtype in (np.float32, np.uint8):
            body = {"inputs": inputs.reshape(len(inputs), -1).tolist(), "dtype": inputs.dtype.name}
            content, kind = json.dumps(body).encode(), "application/json"
        else:
            content, kind = _npz(x=inputs), NPZ
        return from_json(Predictions, self._send("POST", path, content=content, kind=kind))

    def evaluate(self, x: ArrayLike, y: ArrayLike) -> Evaluation:
        """Measure the accuracy on labelled samples. The service keeps the result only."""
        return from_json(Evaluation, self._send("POST", "/v1/evaluations", content=_npz(x=x, y=y), kind=NPZ))

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
        if matching is not None:
            if handles is not None:
                raise InputError("name samples by their handles, or by the rows that they match, not by both")
            handles = self.match(user, *matching).handles
            if not handles:
                raise InputError("none of these rows equals a sample that is held of the user: nothing to forget")
        body = _erasure(rounds, count, samples, handles) | ({} if nonce is None else {"nonce": nonce})
        return from_json(Request, self._send("POST", _path_of(user, "/erasures"), json=body, key=key))

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
        plan: dict[str, Any] = self._send(
            "POST", _path_of(user, "/erasures/plan"), json=_erasure(rounds, count, samples, handles)
        )
        return plan

    def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """Return which samples of a user equal these rows, and how many rows equal none. The rows are not kept."""
        body = _npz(x=x) if y is None else _npz(x=x, y=y)
        return from_json(Matched, self._send("POST", _path_of(user, "/samples/matching"), content=body, kind=NPZ))

    def request(self, id_: str) -> Request:
        """Return a request and its state."""
        return from_json(Request, self._send("GET", f"/v1/requests/{_quoted(id_)}"))

    def requests(self, *, state: str | None = None) -> Iterator[Request]:
        """Yield all requests, or those in a state (accepted, in_effect, repaired), the newest first."""
        query = "" if state is None else f"&state={_quoted(state)}"
        return (from_json(Request, item) for item in self._pages("/v1/requests", query))

    def receipts(self, request: str) -> list[Bundle]:
        """Return the receipts of a request, with their proofs."""
        body = self._send("GET", f"/v1/requests/{_quoted(request)}/receipts")
        return [from_json(Bundle, bundle) for bundle in body["receipts"]]

    def verify(self, receipt: int | None = None, *, wait_s: float = 600.0) -> Verification:
        """Verify a receipt, or all stored sub-models, by replay on the device.

        Parameters
        ----------
        receipt
            The receipt's number; None verifies all stored sub-models.
        wait_s
            How long to wait for the result.

        Returns
        -------
        The verification; its state is still `running` if it took longer than `wait_s`.
        """
        path = "/v1/verifications" if receipt is None else f"/v1/receipts/{receipt:d}/verification"
        verification, end = from_json(Verification, self._send("POST", path)), time.monotonic() + wait_s
        while verification.state == "running" and time.monotonic() < end:
            time.sleep(0.1)
            verification = from_json(Verification, self._send("GET", f"/v1/verifications/{verification.id}"))
        return verification

    def log(self) -> Log:
        """Return the log's signed head."""
        return from_json(Log, self._send("GET", "/v1/log"))

    # Looking

    def status(self) -> Status:
        """Return the state of the device: what serves, waits, is overdue, or will be deleted because of its age.

        Returns
        -------
        The JSON object as the service sent it; a type checker knows its keys: `status()["requests"]["overdue"]`.
        """
        status: Status = self._send("GET", "/v1/status")
        return status

    def user(self, user: str) -> dict[str, Any]:
        """Return what is held of a user."""
        held: dict[str, Any] = self._send("GET", _path_of(user))
        return held

    def samples(self, user: str, *, round: int | None = None) -> Iterator[HeldSample]:  # noqa: A002
        """Yield the samples of a user, all or those of one round, the newest first."""
        query = "" if round is None else f"&round={round:d}"
        return (from_json(HeldSample, item) for item in self._pages(_path_of(user, "/samples"), query))

    def shards(self) -> list[dict[str, Any]]:
        """Return all shards with their segments."""
        shards: list[dict[str, Any]] = self._send("GET", "/v1/shards")["shards"]
        return shards

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """Yield events as they happen, until the service or the caller ends it.

        Parameters
        ----------
        after
            The id of the last event that was seen: the service first sends the later ones that it still has.
        """
        query = "" if after is None else f"?after={after:d}"
        with self._http.stream("GET", f"/v1/events{query}", timeout=httpx.Timeout(30.0, read=60.0)) as response:
            if response.status_code != 200:
                response.read()
                raise _service_error(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    id_ = fields.get("id")
                    yield Event(None if id_ is None else int(id_), fields["event"], json.loads(fields["data"]))
                    fields = {}
                else:
                    fields = {}

    def _pages(self, path: str, query: str = "") -> Iterator[dict[str, Any]]:
        before: int | None = None
        first = f"{path}{'&' if '?' in path else '?'}limit=100"
        while True:
            page = self._send("GET", f"{first}{query}" + ("" if before is None else f"&before={before}"))
            yield from page["items"]
            before = page["next"]
            if before is None:
                return

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        json: Any = None,
        kind: str | None = None,
        key: str | None = None,
    ) -> Any:
        headers = {name: value for name, value in (("Content-Type", kind), ("Idempotency-Key", key)) if value}
        response = self._http.request(method, path, content=content, json=json, headers=headers)
        if response.status_code >= 400:
            raise _service_error(response)
        return response.json()


def _service_error(response: httpx.Response) -> ServiceError:
    try:
        problem = response.json()
        return ServiceError(response.status_code, problem["type"].rpartition(":")[2], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(response.status_code, "unknown", response.reason_phrase)


def _erasure(
    rounds: Sequence[int] | None,
    count: int | None,
    samples: Sequence[tuple[int, int]] | None,
    handles: Sequence[str] | None,
) -> dict[str, Any]:
    body = {
        "rounds": None if rounds is None else list(rounds),
        "count": count,
        "samples": None if samples is None else [list(pair) for pair in samples],
        "handles": None if handles is None else list(handles),
    }
    return {name: value for name, value in body.items() if value is not None}


def _path_of(user: str, part: str = "") -> str:
    """Return the path of a user's data. An id that proxies or URL libraries change in a path goes into the query."""
    if user in (".", "..") or "/" in user or "\\" in user:
        return f"/v1/user{part}?user={_quoted(user)}"
    return f"/v1/users/{_quoted(user)}{part}"


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _npz(**arrays: ArrayLike) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(value) for name, value in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()
