"""The calls of the service's routes, as values: what is sent, and how the answer is read. Both clients send them."""

import io
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.client.shapes import (
    Bundle,
    Evaluation,
    Event,
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
from cause.common.names import normal_name
from cause.errors import CauseError, InputError

T = TypeVar("T")
NPZ = "application/x-npz"
SMALL = 64
"""Up to so many inputs are sent as JSON, which is faster to encode; more are sent as npz."""
BUSY = (429, 503)
"""Statuses that say that nothing was changed and that the same call may be sent again later."""
WAIT_S = 600.0
"""How long `wait=True` waits, in seconds."""
LONGEST_PAUSE_S = 10.0
"""A call is not sent again if the service asks for a longer pause."""
LOOK_S = 0.1
"""Seconds between two requests for the state of work that a call waits for."""
EVENTS_TIMEOUT = httpx.Timeout(30.0, read=60.0)
"""For the stream of events, which sends a comment where there is no event for some time."""


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


def certificates(url: str, verify: Any) -> Any:
    """Return the certificates that a client loads: none for a URL without TLS, since loading takes 20 ms.

    >>> certificates("http://127.0.0.1:8470", True).get_ca_certs(), certificates("https://device", True)
    ([], True)
    """
    plain = verify is True and url.lower().startswith("http:")
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else verify


def connection(url: str, token: str, timeout_s: float, verify: Any) -> dict[str, Any]:
    """Return the arguments of a client of httpx that calls one service with one token."""
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}"},
        "timeout": timeout_s,
        "verify": certificates(url, verify),
        "trust_env": False,
    }


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call: what is sent, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    """Makes the result of the JSON that the service answered with."""
    content: bytes | None = None
    kind: str | None = None
    """The content type."""
    key: str | None = None
    """The idempotency key."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the call, without the token."""
        return {name: value for name, value in (("Content-Type", self.kind), ("Idempotency-Key", self.key)) if value}

    def result(self, response: httpx.Response) -> T:
        """Return the result of the call; raise a `ServiceError` if the response is an error."""
        if response.status_code >= 400:
            raise service_error(response)
        return self.read(response.json())


def upload(user: str, x: ArrayLike, y: ArrayLike, key: str | None) -> Call[Upload]:
    """Return the call that uploads samples of a user."""
    path = path_of(normal_name(user), "/samples")
    return Call("POST", path, _shape(Upload), npz(x=x, y=y), NPZ, key or token_hex(16))


def upload_all(x: ArrayLike, y: ArrayLike, users: Sequence[str] | NDArray[np.str_], key: str | None) -> Call[Uploads]:
    """Return the call that uploads samples of several users, all or none."""
    names = np.array([normal_name(str(user)) for user in users])

    def read(body: Any) -> Uploads:
        return from_json(Uploads, body | {"uploads": [from_json(UserUpload, part) for part in body["uploads"]]})

    return Call("POST", "/v1/samples", read, npz(x=x, y=y, users=names), NPZ, key or token_hex(16))


def close_round(key: str | None, empty: bool) -> Call[Round]:
    """Return the call that closes a round."""
    body = {"empty": True} if empty else {}
    return _with_json("/v1/rounds", body, _shape(Round), key or token_hex(16))


def round_(number: int) -> Call[Round]:
    """Return the call that asks for a round."""
    return Call("GET", f"/v1/rounds/{number:d}", _shape(Round))


def predict(x: ArrayLike, probabilities: bool) -> Call[Predictions]:
    """Return the call that predicts; few inputs are sent as JSON, others as npz."""
    inputs = np.asarray(x)
    path = "/v1/predictions" + ("?probabilities=true" if probabilities else "")
    if len(inputs) <= SMALL and inputs.dtype in (np.float32, np.uint8):
        body = {"inputs": inputs.reshape(len(inputs), -1).tolist(), "dtype": inputs.dtype.name}
        return _with_json(path, body, _shape(Predictions))
    return Call("POST", path, _shape(Predictions), npz(x=inputs), NPZ)


def evaluate(x: ArrayLike, y: ArrayLike) -> Call[Evaluation]:
    """Return the call that measures the accuracy on labelled samples."""
    return Call("POST", "/v1/evaluations", _shape(Evaluation), npz(x=x, y=y), NPZ)


def erasure(
    rounds: Sequence[int] | None,
    count: int | None,
    samples: Sequence[tuple[int, int]] | None,
    handles: Sequence[str] | None,
    nonce: str | None = None,
) -> dict[str, Any]:
    """Return the body of an erasure or of a plan."""
    body = {
        "rounds": None if rounds is None else list(rounds),
        "count": count,
        "samples": None if samples is None else [list(pair) for pair in samples],
        "handles": None if handles is None else list(handles),
        "nonce": nonce,
    }
    return {name: value for name, value in body.items() if value is not None}


def erase(user: str, body: dict[str, Any], key: str | None) -> Call[Request]:
    """Return the call that erases what a body names (see `erasure`)."""
    return _with_json(path_of(user, "/erasures"), body, _shape(Request), key or token_hex(16))


def plan(user: str, body: dict[str, Any]) -> Call[dict[str, Any]]:
    """Return the call that asks what an erasure would cost."""
    return _with_json(path_of(user, "/erasures/plan"), body, _as_it_is)


def erase_all(erasures: Mapping[str, Mapping[str, Any]], key: str | None) -> Call[dict[str, Request]]:
    """Return the call that erases samples of several users; its answer has the request of each."""
    body = {"erasures": [{"user": user, **erasure} for user, erasure in erasures.items()]}

    def read(answer: Any) -> dict[str, Request]:
        named = zip(erasures, answer["requests"], strict=True)  # in the order of the request
        return {
            user: from_json(Request, {name: value for name, value in item.items() if name != "user"})
            for user, item in named
        }

    return _with_json("/v1/erasures", body, read, key or token_hex(16))


def request_filter(state: str | None, prefix: str | None, since: str | None, until: str | None) -> str:
    """Return the query of a list of requests.

    >>> request_filter("open", None, "2026-01-31T12:00:00+01:00", None)
    '&state=open&since=2026-01-31T12%3A00%3A00%2B01%3A00'
    """
    values = {"state": state, "id": prefix, "since": since, "until": until}
    return "".join(f"&{name}={quoted(value)}" for name, value in values.items() if value is not None)


def match(user: str, x: ArrayLike, y: ArrayLike | None) -> Call[Matched]:
    """Return the call that asks which held samples equal some rows."""
    body = npz(x=x) if y is None else npz(x=x, y=y)
    return Call("POST", path_of(user, "/samples/matching"), _shape(Matched), body, NPZ)


def matched_handles(handles: Sequence[str] | None, matched: Matched | None) -> Sequence[str] | None:
    """Return the handles to erase: those that are given, or those of the samples that rows matched."""
    if matched is None:
        return handles
    if not matched.handles:
        raise InputError("none of these rows equals a sample that is held of the user: nothing to forget")
    return matched.handles


def refuse_both(handles: Sequence[str] | None, matching: object) -> None:
    """Refuse an erasure that names samples in two ways."""
    if matching is not None and handles is not None:
        raise InputError("name samples by their handles, or by the rows that they match, not by both")


def request(id_: str) -> Call[Request]:
    """Return the call that asks for a request's state."""
    return Call("GET", f"/v1/requests/{quoted(id_)}", _shape(Request))


def receipts(id_: str) -> Call[list[Bundle]]:
    """Return the call that asks for a request's receipts."""

    def read(body: Any) -> list[Bundle]:
        return [from_json(Bundle, bundle) for bundle in body["receipts"]]

    return Call("GET", f"/v1/requests/{quoted(id_)}/receipts", read)


def repair(from_scratch: Sequence[int]) -> Call[list[int]]:
    """Return the call that starts a repair, of some shards from scratch; its answer names the shards that wait."""

    def read(body: Any) -> list[int]:
        return [int(shard) for shard in body["waiting"]]

    body = {"from_scratch": [int(shard) for shard in from_scratch]} if len(from_scratch) else {}
    return _with_json("/v1/repairs", body, read)


def verify(receipt: int | None) -> Call[Verification]:
    """Return the call that starts a verification, of a receipt or of the device."""
    path = "/v1/verifications" if receipt is None else f"/v1/receipts/{receipt:d}/verification"
    return Call("POST", path, _shape(Verification))


def verification(id_: str) -> Call[Verification]:
    """Return the call that asks for a verification's state."""
    return Call("GET", f"/v1/verifications/{quoted(id_)}", _shape(Verification))


def log() -> Call[Log]:
    """Return the call that asks for the log's size and checkpoint."""
    return Call("GET", "/v1/log", _shape(Log))


def get(path: str) -> Call[Any]:
    """Return a call whose answer is used as it is."""
    return Call("GET", path, _as_it_is)


def page(path: str, query: str, before: int | None) -> Call[dict[str, Any]]:
    """Return the call that asks for a page of a list: the first one, or the one of the cursor `before`.

    >>> page("/v1/requests", "&state=open", 7).path, page("/v1/user/samples?user=..", "", None).path
    ('/v1/requests?limit=100&state=open&before=7', '/v1/user/samples?user=..&limit=100')
    """
    cursor = "" if before is None else f"&before={before}"
    return get(f"{path}{'&' if '?' in path else '?'}limit=100{query}{cursor}")


def events_path(after: int | None) -> str:
    """Return the path of the stream of events that come after the one with this id; None: of those from now on."""
    return "/v1/events" if after is None else f"/v1/events?after={after:d}"


class EventParser:
    """Makes events of the lines of a stream.

    Examples
    --------
    >>> parser = EventParser()
    >>> [parser.add(line) for line in (": still here", "", "id: 3", "event: hello", "data: {}", "")][-1]
    Event(id=3, kind='hello', data={})
    """

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, line: str) -> Event | None:
        """Return the event that ends with this line, or None."""
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if "event" not in fields:
            return None
        id_ = fields.get("id")
        return Event(None if id_ is None else int(id_), fields["event"], json.loads(fields["data"]))


def user(name: str) -> Call[dict[str, Any]]:
    """Return the call that asks what is held of a user."""
    return Call("GET", path_of(name), _as_it_is)


def path_of(user: str, part: str = "") -> str:
    """Return the path of a user's data. An id that proxies or URL libraries change in a path goes into the query."""
    if user in (".", "..") or "/" in user or "\\" in user:
        return f"/v1/user{part}?user={quoted(user)}"
    return f"/v1/users/{quoted(user)}{part}"


def service_error(response: httpx.Response) -> ServiceError:
    """Return the error of a response."""
    try:
        problem = response.json()
        return ServiceError(response.status_code, problem["type"].rpartition(":")[2], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(response.status_code, "unknown", response.reason_phrase)


def pause_s(response: httpx.Response | None, attempt: int) -> float:
    """Return how long to wait before a call is sent again: as the service says, or ever longer.

    >>> [pause_s(None, attempt) for attempt in range(4)], pause_s(httpx.Response(503, headers={"Retry-After": "5"}), 0)
    ([0.2, 0.4, 0.8, 1.6], 5.0)
    """
    header = "" if response is None else response.headers.get("Retry-After", "")
    return float(header) if header.isdigit() else 0.2 * 2**attempt


def retry_pause_s(response: httpx.Response, attempt: int, retries: int) -> float | None:
    """Return how long to wait before a call is sent again; None if it is not: `attempt` counts from 0.

    >>> busy = httpx.Response(503)
    >>> [retry_pause_s(busy, attempt, 2) for attempt in range(3)], retry_pause_s(httpx.Response(409), 0, 2)
    ([0.2, 0.4, None], None)
    """
    pause = pause_s(response, attempt)
    return None if response.status_code not in BUSY or attempt >= retries or pause > LONGEST_PAUSE_S else pause


def quoted(text: str) -> str:
    """Return a text for a path."""
    return quote(text, safe="")


def npz(**arrays: ArrayLike) -> bytes:
    """Return arrays as the bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(value) for name, value in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def _with_json(path: str, body: Any, read: Callable[[Any], T], key: str | None = None) -> Call[T]:
    return Call("POST", path, read, json.dumps(body).encode(), "application/json", key)


def _as_it_is(body: Any) -> Any:
    return body


def _shape(cls: type[T]) -> Callable[[Any], T]:
    return lambda body: from_json(cls, body)
