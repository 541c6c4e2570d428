"""Tokens: who may do what. The file names nobody, and confirms no guess of a name.

A secret is kept as its digest, and a token's user as a code under a key that only the secret yields: without the
secret, no name fits better than any other, whatever other keys one has. Files of earlier versions have codes under a
key of the device, which confirm a guess to whoever has that key; such a code is replaced when the token is first used,
and removed when the token is revoked or has expired.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from cause.common.names import normal_name
from cause.errors import HomeError, InputError

SCOPES = ("user", "ingest", "predict", "operator", "auditor")
FILE = "access.db"
EXPIRES_S = 90 * 86_400.0
LOCKED_S = 2.0
"""How long to wait while somebody else has the file; the service looks tokens up before it does anything else."""
_PREFIX = "cause"
_NOBODY = bytes(32)
_CODE = b"\x02"
"""What a code begins with; those of earlier versions are 32 bytes without it."""
_OLD_CODE_BYTES = 32


@dataclass(frozen=True)
class Token:
    """What a secret stands for."""

    id: str
    scopes: frozenset[str]
    user: bytes | None
    """A code of the user for whom it was made."""
    note: str
    created: float
    expires: float
    revoked: float | None = None
    key: bytes = field(default=b"", repr=False, compare=False)
    """What the user's code is made with: known while somebody shows the secret."""

    def valid(self, now: float) -> bool:
        return self.revoked is None and now < self.expires


class Tokens:
    """The tokens of a home, in a file of their own, so that they can be made and revoked while the home is in use."""

    def __init__(self, folder: Path, key: bytes, clock: Callable[[], float] = time.time, *, tidy: bool = False) -> None:
        """`key` checks codes of earlier versions; `tidy` removes those of tokens that have expired, by this clock."""
        self._key, self._clock, self._lock = key, clock, threading.RLock()
        self._known: dict[str, tuple[bytes, Token]] = {}
        self._version = -1
        path = folder / FILE
        with _failing(path):
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=LOCKED_S)
            self._connection.execute("PRAGMA secure_delete=ON")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL, "
                "user BLOB, note TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL, revoked REAL) STRICT"
            )
            ended, values = "revoked IS NOT NULL OR expires <= ?", [_OLD_CODE_BYTES, clock() if tidy else 0.0]
            if self._connection.execute(f"SELECT 1 FROM tokens WHERE length(user)=? AND ({ended})", values).fetchone():
                self._connection.execute(f"UPDATE tokens SET user=NULL WHERE length(user)=? AND ({ended})", values)
        self._path = path

    def create(
        self, scopes: Iterable[str], *, user: str | None = None, note: str = "", expires_s: float = EXPIRES_S
    ) -> tuple[Token, str]:
        """A new token and its secret, which is shown only now."""
        wanted = frozenset(scopes)
        for scope in wanted:
            if scope not in SCOPES:
                raise InputError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
        if not wanted:
            raise InputError(f"a token needs a scope: {', '.join(SCOPES)}")
        if ("user" in wanted) != (user is not None):
            raise InputError("the scope 'user' goes with the user whom the token is for, and only that scope does")
        user = None if user is None else normal_name(user)
        if len(note) > 200 or not note.isprintable():
            raise InputError("a note is a line of at most 200 characters")
        now, id_ = self._clock(), token_hex(8)
        secret = f"{_PREFIX}_{id_}_" + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()
        key = _user_key(secret)
        token = Token(id_, wanted, None if user is None else _code(key, user), note, now, now + expires_s, key=key)
        row = [id_, _digest(secret), json.dumps(sorted(wanted)), token.user, note, now, token.expires]
        with self._lock, _failing(self._path):
            self._connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
            self._version = -1
        return token, secret

    def revoke(self, id_: str) -> None:
        """From now on it opens nothing."""
        with self._lock, _failing(self._path):
            done = self._connection.execute("UPDATE tokens SET revoked=?, user=NULL WHERE id=?", [self._clock(), id_])
            self._version = -1
        if not done.rowcount:
            raise InputError(f"there is no token {id_[:40]!r}: `cause token list` shows them")

    def listed(self) -> list[Token]:
        """All of them, oldest first."""
        with self._lock:
            self._look()
            return [token for _, token in self._known.values()]

    def find(self, secret: str) -> Token | None:
        """The token of a secret, if it is valid. The work is the same whether there is one or not."""
        parts = secret.split("_", 2)
        with self._lock:
            self._look()
            digest, token = self._known.get(parts[1] if len(parts) == 3 else "", (_NOBODY, None))
        same = hmac.compare_digest(_digest(secret), digest)
        key = _user_key(secret)
        return replace(token, key=key) if token is not None and same and token.valid(self._clock()) else None

    def holds(self, token: Token) -> bool:
        """Whether a token that was found is valid still."""
        with self._lock:
            self._look()
            _, known = self._known.get(token.id, (_NOBODY, None))
        return known is not None and known.valid(self._clock())

    def is_of(self, token: Token, user: str) -> bool:
        """Whether a token that `find` returned was made for this user; nobody is looked up to decide it.

        The name counts in Unicode's normal forms C and D, too: tokens of earlier versions have it as it was given.
        """
        forms = {user: None, **{unicodedata.normalize(form, user): None for form in ("NFC", "NFD")}}
        return any(self._is_of(token, name) for name in forms)

    def _is_of(self, token: Token, user: str) -> bool:
        code = _code(token.key, user)
        if token.user is None or len(token.user) != _OLD_CODE_BYTES:
            return hmac.compare_digest(code, token.user or _NOBODY)
        old = hmac.digest(self._key, b"user\0" + _encoded(user), "sha256")
        if not hmac.compare_digest(old, token.user):
            return False
        with contextlib.suppress(HomeError), self._lock, _failing(self._path):  # if not now, the next time
            self._connection.execute("UPDATE tokens SET user=? WHERE id=? AND user=?", [code, token.id, token.user])
            self._version = -1
        return True

    def _look(self) -> None:
        """Another process may have made or revoked one."""
        with _failing(self._path):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return
            rows = self._connection.execute("SELECT * FROM tokens ORDER BY created, id").fetchall()
        self._known = {
            row[0]: (bytes(row[1]), Token(row[0], frozenset(json.loads(row[2])), row[3], *row[4:])) for row in rows
        }
        self._version = version

    def close(self) -> None:
        self._connection.close()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(_encoded(secret)).digest()


def _user_key(secret: str) -> bytes:
    """What a user's code is made with: only whoever has the secret has it, for the file keeps another digest."""
    return hashlib.sha256(b"cause: the user of a token\0" + _encoded(secret)).digest()


def _code(key: bytes, user: str) -> bytes:
    return _CODE + hmac.digest(key, b"user\0" + _encoded(user), "sha256")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@contextlib.contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise HomeError(f"cannot use the tokens in {str(path)!r}: {error}") from None
