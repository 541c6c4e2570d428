"""User ids in paths: every name that can be uploaded can be written there.

Servers decode a path before they look for its route, so that `/v1/users/a%2Fb` would be the path of two segments, and
browsers and proxies delete the segments `.` and `..`, also as `%2E`. So the id is taken from the path as it was sent,
and there is a second form that carries the id in the query: `/v1/user/erasures?user=..` means the erasures of `..`.

Routes see one form only: `quoted_user` writes the id percent-encoded into the path, and routes that are declared with
`{user:user_id}` decode it.
"""

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.convertors import CONVERTOR_TYPES, Convertor

ALIAS = "/v1/user"
"""What paths begin with whose user id is in the query."""
USERS = "/v1/users/"


class UserIdConvertor(Convertor[str]):
    """Decodes the percent-encoded segment that `quoted_user` wrote."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the user id.

        >>> UserIdConvertor().convert("a%2Fb")
        'a/b'
        """
        return unquote(value)

    def to_string(self, value: str) -> str:
        """Return the segment of a user id."""
        return quote(value, safe="")


CONVERTOR_TYPES["user_id"] = UserIdConvertor()


def quoted_user(scope: MutableMapping[str, Any]) -> str:
    """Return the path of a request with its user id percent-encoded; other paths as they are.

    Parameters
    ----------
    scope
        The ASGI scope of the request.

    Examples
    --------
    >>> quoted_user({"path": "/v1/users/a/b/samples", "raw_path": b"/v1/users/a%2Fb/samples"})
    '/v1/users/a%2Fb/samples'
    >>> quoted_user({"path": "/v1/user/erasures", "query_string": b"user=.."})
    '/v1/users/../erasures'
    """
    path: str = scope["path"]
    if path == ALIAS or path.startswith(f"{ALIAS}/"):
        names = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("user", [])
        return f"{USERS}{quote(names[0], safe='')}{path.removeprefix(ALIAS)}" if len(names) == 1 else path
    if not path.startswith(USERS):
        return path
    segments = [unquote(segment) for segment in (scope.get("raw_path") or b"").decode("latin-1").split("/")]
    if segments[:3] != ["", "v1", "users"]:  # without the path as it was sent, or with other parts of it encoded
        segments = path.split("/")
    return f"{USERS}{'/'.join([quote(segments[3], safe=''), *segments[4:]])}"
