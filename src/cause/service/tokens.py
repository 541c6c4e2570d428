"""Tokens of clients. Their file contains no user ids and cannot confirm a guessed one.

The file keeps a digest of each secret, and a token's user as an HMAC under a key that is derived from the secret:
without the secret, no user id can be checked against it. Files of earlier versions have HMACs under a key of the
device, with which a guess can be confirmed; such an HMAC is replaced when the token is first used, and removed when the
token is revoked or has expired.
"""

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import logging
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

SCOPES = ("user", "ingest", "predict", "operator", "auditor", "admin")
FILE = "access.db"
EXPIRES_S = 90 * 86_400.0
LONGEST_S = 36_500 * 86_400
"""The longest time for which a token is valid: a hundred years."""
LOCKED_S = 2.0
"""How long to wait for another process that has locked the file; every request of the service waits for it."""
_PREFIX = "cause"
_NOBODY = bytes(32)
_CODE = b"\x02"
"""The first byte of a user's code; codes of earlier versions are 32 bytes without it."""
_OLD_CODE_BYTES = 32
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Codes of SQLite for a damaged file, one of another format, and one whose tables have other columns."""
log = logging.getLogger("cause.serve")


@dataclass(frozen=True)
class Token:
    """A token without its secret."""

    id: str
    scopes: frozenset[str]
    user: bytes | None
    """A code of the token's user; None for tokens of no user."""
    note: str
    created: float
    expires: float
    revoked: float | None = None
    key: bytes = field(default=b"", repr=False, compare=False)
    """The key of the user's code; empty unless the secret was shown."""

    def valid(self, now: float) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return self.revoked is None and now < self.expires


class Tokens:
    """The tokens of a home, in a separate file: they can be created and revoked while a service has the home open.

    Parameters
    ----------
    folder
        The folder of the home.
    key
        Checks users' codes of earlier versions.
    clock
        Returns seconds since 1970.
    tidy
        Remove the codes of earlier versions from tokens that have expired. Only where the clock can be trusted.
    set_aside
        Rename a damaged file and begin without tokens, instead of raising. Only for the process that has the home open.

    Raises
    ------
    HomeError
        If the file cannot be used.
    """

    def __init__(
        self, folder: Path, key: bytes, clock: Callable[[], float] = time.time, *, tidy: bool = False,
        set_aside: bool = False,
    ) -> None:  # fmt: skip
        self._key, self._clock, self._lock = key, clock, threading.RLock()
        self._tokens: dict[str, tuple[bytes, Token]] = {}
        self._version = -1
        self._locked = False
        path = folder / FILE
        with _as_home_error(path):
            try:
                self._connection = _opened(path)
            except (sqlite3.Error, OSError) as error:
                if not (set_aside and _damaged(error, path)):
                    raise
                log.warning(
                    "the tokens in %s cannot be read (%s) and nobody has access: the file is now %s; make new tokens "
                    "with `cause token create`", FILE, type(error).__name__, _set_aside(path),
                )  # fmt: skip
                self._connection = _opened(path)
            ended, values = "revoked IS NOT NULL OR expires <= ?", [_OLD_CODE_BYTES, clock() if tidy else 0.0]
            if self._connection.execute(f"SELECT 1 FROM tokens WHERE length(user)=? AND ({ended})", values).fetchone():
                self._connection.execute(f"UPDATE tokens SET user=NULL WHERE length(user)=? AND ({ended})", values)
        self._path = path

    def create(
        self, scopes: Iterable[str], *, user: str | None = None, note: str = "", expires_s: float = EXPIRES_S
    ) -> tuple[Token, str]:
        """Create a token.

        Parameters
        ----------
        scopes
            Some of `SCOPES`.
        user
            The user of a token with the scope `user`; None without that scope.
        note
            A line that `cause token list` shows.
        expires_s
            Seconds until it expires.

        Returns
        -------
        The token and its secret, which is not kept and cannot be shown again.

        Raises
        ------
        InputError
            If the scopes, the user or the note are wrong.
        HomeError
            If the file cannot be written.
        """
        scopes = frozenset(scopes)
        for scope in scopes:
            if scope not in SCOPES:
                raise InputError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
        if not scopes:
            raise InputError(f"a token needs a scope: {', '.join(SCOPES)}")
        if ("user" in scopes) != (user is not None):
            raise InputError("the scope 'user' goes with the user whom the token is for, and only that scope does")
        user = None if user is None else normal_name(user)
        if len(note) > 200 or not note.isprintable():
            raise InputError("a note is a line of at most 200 characters")
        if expires_s > LONGEST_S:
            raise InputError(
                f"a token is valid for at most {LONGEST_S // 86_400:,} days, not {expires_s / 86_400:,.0f}"
            )
        now, id_ = self._clock(), token_hex(8)
        secret = f"{_PREFIX}_{id_}_" + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()
        key = _user_key(secret)
        token = Token(id_, scopes, None if user is None else _code(key, user), note, now, now + expires_s, key=key)
        row = [id_, _digest(secret), json.dumps(sorted(scopes)), token.user, note, now, token.expires]
        with self._lock, _as_home_error(self._path):
            self._connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
            self._version = -1
        return token, secret

    def revoke(self, id_: str) -> None:
        """Revoke a token. A service that is running refuses it at once.

        Raises
        ------
        InputError
            If there is no such token.
        """
        if not id_.isascii():  # what the command line passes on may not be UTF-8, which SQLite refuses
            raise InputError(f"there is no token {id_[:40]!a}: `cause token list` shows them")
        with self._lock, _as_home_error(self._path):
            cursor = self._connection.execute("UPDATE tokens SET revoked=?, user=NULL WHERE id=?", [self._clock(), id_])
            self._version = -1
        if not cursor.rowcount:
            raise InputError(f"there is no token {id_[:40]!r}: `cause token list` shows them")

    def list_all(self) -> list[Token]:
        """Return all tokens, the oldest first, revoked and expired ones too."""
        with self._lock:
            self._reload()
            return [token for _, token in self._tokens.values()]

    def find(self, secret: str) -> Token | None:
        """Return the valid token of a secret, or None. Both take the same time."""
        parts = secret.split("_", 2)
        with self._lock:
            self._reload()
            digest, token = self._tokens.get(parts[1] if len(parts) == 3 else "", (_NOBODY, None))
        same = hmac.compare_digest(_digest(secret), digest)
        key = _user_key(secret)
        return replace(token, key=key) if token is not None and same and token.valid(self._clock()) else None

    def is_valid(self, token: Token) -> bool:
        """Return whether a token that `find` returned is still valid."""
        with self._lock:
            self._reload()
            _, current = self._tokens.get(token.id, (_NOBODY, None))
        return current is not None and current.valid(self._clock())

    def belongs_to(self, token: Token, user: str) -> bool:
        """Return whether a token that `find` returned was made for this user. The device's users are not looked up.

        The user id is also compared in Unicode's normal forms C and D: earlier versions did not normalise it.
        """
        forms = {user: None, **{unicodedata.normalize(form, user): None for form in ("NFC", "NFD")}}
        return any(self._belongs_to(token, name) for name in forms)

    def _belongs_to(self, token: Token, user: str) -> bool:
        code = _code(token.key, user)
        if token.user is None or len(token.user) != _OLD_CODE_BYTES:
            return hmac.compare_digest(code, token.user or _NOBODY)
        old = hmac.digest(self._key, b"user\0" + _encoded(user), "sha256")
        if not hmac.compare_digest(old, token.user):
            return False
        with (
            contextlib.suppress(HomeError),
            self._lock,
            _as_home_error(self._path),
        ):  # else at the next use
            self._connection.execute("UPDATE tokens SET user=? WHERE id=? AND user=?", [code, token.id, token.user])
            self._version = -1
        return True

    def _reload(self) -> None:
        """Read the file again if another process has changed it.

        Once it was locked for `LOCKED_S`, calls fail at once until it can be read again: the event loop must not wait.
        """
        with _as_home_error(self._path):
            try:
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version == self._version:
                    rows = None
                else:
                    rows = self._connection.execute("SELECT * FROM tokens ORDER BY created, id").fetchall()
            except sqlite3.OperationalError:
                self._set_locked(True)
                raise
            if self._locked:
                self._set_locked(False)
        if rows is None:
            return
        self._tokens = {
            row[0]: (bytes(row[1]), Token(row[0], frozenset(json.loads(row[2])), row[3], *row[4:])) for row in rows
        }
        self._version = version

    def _set_locked(self, locked: bool) -> None:
        self._locked = locked
        self._connection.execute(f"PRAGMA busy_timeout={0 if locked else int(1000 * LOCKED_S)}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(_encoded(secret)).digest()


def _user_key(secret: str) -> bytes:
    """Return the key of the user's code. It cannot be derived from the digest of the secret in the file."""
    return hashlib.sha256(b"cause: the user of a token\0" + _encoded(secret)).digest()


def _code(key: bytes, user: str) -> bytes:
    return _CODE + hmac.digest(key, b"user\0" + _encoded(user), "sha256")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file of tokens, or make it, and check that all of it can be read."""
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=LOCKED_S)
    try:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL, "
            "user BLOB, note TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL, revoked REAL) STRICT"
        )
        connection.execute("SELECT id, digest, scopes, user, note, created, expires, revoked FROM tokens LIMIT 0")
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError("database disk image is malformed")
    except BaseException:
        connection.close()
        raise
    return connection


def _damaged(error: Exception, path: Path) -> bool:
    """Return whether the file itself is at fault; locks and full disks are not: it can be opened later."""
    if isinstance(error, OSError) or path.is_dir():
        return path.is_symlink() or path.is_dir()
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGED


def _set_aside(path: Path) -> str:
    """Rename the file, and what SQLite may have left beside it; return the new name."""
    names = (f"{path.name}.damaged{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    name = next(name for name in names if not os.path.lexists(path.with_name(name)))
    for ending in ("-journal", "-wal", "-shm"):  # a journal of the old file must not be played into the new one
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(path.with_name(name + ending))
    path.rename(path.with_name(name))
    return name


@contextlib.contextmanager
def _as_home_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        way_out = ": move it away and make new tokens (`cause token create`)" if _damaged(error, path) else ""
        raise HomeError(f"cannot use the tokens in {str(path)!r}: {error}{way_out}") from None
