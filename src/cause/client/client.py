"""The client: one method for each thing the service does."""

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
    shaped,
)
from cause.client.status import Status
from cause.common.names import normal_name
from cause.errors import CauseError, InputError

NPZ = "application/x-npz"
SMALL = 64
"""Up to so many inputs are sent as JSON, which is quicker to make; more as npz."""


class ServiceError(CauseError):
    """An answer that says why not."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status, self.kind, self.detail = status, kind, detail


class Client:
    """Talks to one service with one token.

    Uploads, rounds and erasures carry an idempotency key when `key` is given: the same key again leads to the same
    thing, so whoever is not sure that the answer came may simply ask again.
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
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Samples in, labels out

    def upload(self, user: str, x: ArrayLike, y: ArrayLike, *, key: str | None = None) -> Upload:
        """Stage samples of a user for the next round; the answer has a handle for each row, in the order of `x`."""
        name = normal_name(user)
        told = self._send("POST", f"/v1/users/{_quoted(name)}/samples", content=_npz(x=x, y=y), kind=NPZ, key=key)
        return shaped(Upload, told)

    def upload_all(
        self, x: ArrayLike, y: ArrayLike, users: Sequence[str] | NDArray[np.str_], *, key: str | None = None
    ) -> Uploads:
        """Stage samples of several users for the next round, all or none; `users` says whose each row is.

        It needs a token of an operator, or one for ingest.
        """
        names = np.array([normal_name(str(user)) for user in users])
        told = self._send("POST", "/v1/samples", content=_npz(x=x, y=y, users=names), kind=NPZ, key=key)
        return shaped(Uploads, told | {"uploads": [shaped(UserUpload, each) for each in told["uploads"]]})

    def close_round(self, *, key: str | None = None, empty: bool = False) -> Round:
        """Let all that is staged become a round.

        When nothing is staged the service refuses (409), unless `empty` is true: an empty round counts, too, so every
        sample gets a round older, and retention by rounds may delete some.
        """
        return shaped(Round, self._send("POST", "/v1/rounds", json={"empty": True} if empty else None, key=key))

    def round(self, number: int) -> Round:
        return shaped(Round, self._send("GET", f"/v1/rounds/{number:d}"))

    def predict(self, x: ArrayLike, *, probabilities: bool = False) -> Predictions:
        """The label that the heads agree on, for each input."""
        inputs = np.asarray(x)
        path = "/v1/predictions" + ("?probabilities=true" if probabilities else "")
        if len(inputs) <= SMALL and inputs.dtype in (np.float32, np.uint8):
            body = {"inputs": inputs.reshape(len(inputs), -1).tolist(), "dtype": inputs.dtype.name}
            told = self._send("POST", path, content=json.dumps(body).encode(), kind="application/json")
        else:
            told = self._send("POST", path, content=_npz(x=inputs), kind=NPZ)
        return shaped(Predictions, told)

    def evaluate(self, x: ArrayLike, y: ArrayLike) -> Evaluation:
        """How many labelled samples are answered right."""
        return shaped(Evaluation, self._send("POST", "/v1/evaluations", content=_npz(x=x, y=y), kind=NPZ))

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
        """Forget a user's everything, some rounds, the lowest `count` samples of a round, or named samples.

        A row is named by the handle that its upload answered with, and `samples` lists; or `matching` gives (x, y), or
        (x, None), and all samples go that equal one of these rows (`match` tells how many equal none). `samples` takes
        pairs of round and position: a position is a random number inside the device, not the row's number in the
        upload.

        The receipts commit to a `nonce`, a random text of up to 128 characters: `cause verify FILE --key … --nonce …`
        then tells a receipt of this request from one of another.
        """
        if matching is not None:
            if handles is not None:
                raise InputError("name samples by their handles, or by the rows that they match, not by both")
            handles = self.match(user, *matching).handles
            if not handles:
                raise InputError("none of these rows equals a sample that is held of the user: nothing to forget")
        body = _erasure(rounds, count, samples, handles) | ({} if nonce is None else {"nonce": nonce})
        return shaped(Request, self._send("POST", f"/v1/users/{_quoted(user)}/erasures", json=body, key=key))

    def plan(
        self,
        user: str,
        *,
        rounds: Sequence[int] | None = None,
        count: int | None = None,
        samples: Sequence[tuple[int, int]] | None = None,
        handles: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """What an erasure would touch and cost."""
        told: dict[str, Any] = self._send(
            "POST", f"/v1/users/{_quoted(user)}/erasures/plan", json=_erasure(rounds, count, samples, handles)
        )
        return told

    def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """Which samples of a user equal these rows, and how many rows equal none. The service keeps none of them."""
        body = _npz(x=x) if y is None else _npz(x=x, y=y)
        path = f"/v1/users/{_quoted(user)}/samples/matching"
        return shaped(Matched, self._send("POST", path, content=body, kind=NPZ))

    def request(self, id_: str) -> Request:
        """How far a request is."""
        return shaped(Request, self._send("GET", f"/v1/requests/{_quoted(id_)}"))

    def requests(self, *, state: str | None = None) -> Iterator[Request]:
        """All requests, newest first."""
        query = "" if state is None else f"&state={_quoted(state)}"
        return (shaped(Request, each) for each in self._pages("/v1/requests", query))

    def receipts(self, request: str) -> list[Bundle]:
        """The receipts of a request, with their proofs."""
        told = self._send("GET", f"/v1/requests/{_quoted(request)}/receipts")
        return [shaped(Bundle, each) for each in told["receipts"]]

    def verify(self, receipt: int | None = None, *, wait_s: float = 600.0) -> Verification:
        """Let the device replay, and wait for what it finds."""
        path = "/v1/verifications" if receipt is None else f"/v1/receipts/{receipt:d}/verification"
        found, end = shaped(Verification, self._send("POST", path)), time.monotonic() + wait_s
        while found.state == "running" and time.monotonic() < end:
            time.sleep(0.1)
            found = shaped(Verification, self._send("GET", f"/v1/verifications/{found.id}"))
        return found

    def log(self) -> Log:
        """The log's signed head."""
        return shaped(Log, self._send("GET", "/v1/log"))

    # Looking

    def status(self) -> Status:
        """The device at a glance: what serves, waits, is overdue, or will be deleted because of its age.

        Returns
        -------
        Status
            The answer as it came, a dictionary whose keys a type checker knows: `status()["requests"]["overdue"]`.
        """
        told: Status = self._send("GET", "/v1/status")
        return told

    def user(self, user: str) -> dict[str, Any]:
        """What is held of a user."""
        told: dict[str, Any] = self._send("GET", f"/v1/users/{_quoted(user)}")
        return told

    def samples(self, user: str, *, round: int | None = None) -> Iterator[HeldSample]:  # noqa: A002
        """What is held of a user, sample by sample, the newest first: round, handle, label and time of arrival."""
        query = "" if round is None else f"&round={round:d}"
        return (shaped(HeldSample, each) for each in self._pages(f"/v1/users/{_quoted(user)}/samples", query))

    def shards(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = self._send("GET", "/v1/shards")["shards"]
        return told

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """What happens, as it happens, until the service or the caller ends it."""
        query = "" if after is None else f"?after={after:d}"
        with self._http.stream("GET", f"/v1/events{query}", timeout=httpx.Timeout(30.0, read=60.0)) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer)
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
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
        while True:
            page = self._send("GET", f"{path}?limit=100{query}" + ("" if before is None else f"&before={before}"))
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
        answer = self._http.request(method, path, content=content, json=json, headers=headers)
        if answer.status_code >= 400:
            raise _refused(answer)
        return answer.json()


def _refused(answer: httpx.Response) -> ServiceError:
    try:
        told = answer.json()
        return ServiceError(answer.status_code, told["type"].rpartition(":")[2], told["detail"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(answer.status_code, "unknown", answer.reason_phrase)


def _erasure(
    rounds: Sequence[int] | None,
    count: int | None,
    samples: Sequence[tuple[int, int]] | None,
    handles: Sequence[str] | None,
) -> dict[str, Any]:
    named = None if samples is None else [list(pair) for pair in samples]
    told: dict[str, Any] = {"rounds": None if rounds is None else list(rounds), "count": count, "samples": named}
    told["handles"] = None if handles is None else list(handles)
    return {name: value for name, value in told.items() if value is not None}


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _npz(**arrays: ArrayLike) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(value) for name, value in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()
