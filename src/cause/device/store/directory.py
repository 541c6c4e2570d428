"""The names of the users whose samples a home holds, sealed in chunks.

The record of who uploaded what is `uploads.sealed_user`, sealed under the key of the upload's first block. To open it
for 100,000 uploads takes seconds, so each name stands once more here, up to 256 names in one sealed chunk with a key of
its own. When a user leaves, their chunk is written anew under a fresh key and the old key is destroyed.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cause.common.names import fold
from cause.device.advice import doctor_advice
from cause.device.store.database import Database
from cause.device.store.seals import name_of, padded
from cause.device.vault import Vault, seal
from cause.errors import HomeError, VaultError

NAMES = 256
"""The most names of a chunk."""
CHUNK_BYTES = 1_024
"""A chunk is filled up to a multiple of this: its length does not tell that of a name that left it."""
_PLACE = b"directory"


@dataclass
class _Chunk:
    key: bytes
    names: dict[int, str]


@dataclass
class DirectoryChange:
    """A change of the directory: new keys are written, then rows in a transaction; at last old keys are destroyed."""

    keys: dict[bytes, bytes] = field(default_factory=dict)
    rows: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    """Chunks that have no names any more, or could not be read."""
    old_keys: list[bytes] = field(default_factory=list)
    chunks: dict[int, _Chunk] = field(default_factory=dict)


class Directory:
    """The directory of a home: users by pseudonym, and pseudonyms by user."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._chunk_of: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._pseudonyms: dict[str, int] = {}
        self._unreadable: dict[int, bytes] = {}
        self._unlisted: set[int] = set()  # in no chunk yet
        self._other_ways: dict[str, set[str]] = {}  # names that are not written as `fold` has them, by what it makes

    def load(self, database: Database, vault: Vault) -> None:
        """Read all names. A name whose chunk cannot be opened is taken from one of the user's uploads.

        Raises
        ------
        HomeError
            If an upload's user is in no readable chunk and its own row cannot be opened either.
        """
        self._clear()
        for number, key, sealed in database.rows("SELECT chunk, key, sealed FROM directory"):
            name = bytes(key)
            try:
                pairs = json.loads(vault.open_sealed(name, bytes(sealed), _PLACE + name))
                self._take(number, _Chunk(name, {int(pseudonym): str(user) for pseudonym, user in pairs}))
            except (VaultError, ValueError, TypeError):
                self._unreadable[number] = name
        for (pseudonym,) in database.rows("SELECT DISTINCT pseudonym FROM uploads"):
            if pseudonym not in self._names:
                self._learn(pseudonym, _recorded_name(database, vault, pseudonym))
                self._unlisted.add(pseudonym)

    def __len__(self) -> int:
        return len(self._pseudonyms)

    def name(self, pseudonym: int) -> str:
        """Return the user of a pseudonym that an upload has."""
        try:
            return self._names[pseudonym]
        except KeyError:
            raise HomeError(f"pseudonym {pseudonym} has no user", doctor_advice()) from None

    def pseudonym(self, user: str) -> int | None:
        """Return the pseudonym of a user; None if no round holds a sample of theirs."""
        return self._pseudonyms.get(user)

    def names_like(self, user: str) -> list[str]:
        """Return all names in the directory that are the same as this one, the very name first."""
        folded = fold(user)
        same = {folded, *self._other_ways.get(folded, ())} & self._pseudonyms.keys()
        return sorted(same, key=lambda name: (name != user, name))

    def plan(self, added: Mapping[str, int] | None = None, removed: Iterable[str] = ()) -> DirectoryChange:
        """Return what to write so that these users are in the directory, or no longer in it. Changes nothing yet."""
        change, leaving = DirectoryChange(), {self._pseudonyms[user] for user in removed}
        for number in {self._chunk_of[pseudonym] for pseudonym in leaving if pseudonym in self._chunk_of}:
            old = self._chunks[number]
            left = {pseudonym: user for pseudonym, user in old.names.items() if pseudonym not in leaving}
            change.old_keys.append(old.key)
            if left:
                change.chunks[number] = _Chunk(_fresh(change), left)
            else:
                change.removed.append(number)
        arriving = {p: user for user, p in (added or {}).items()}
        arriving |= {pseudonym: self._names[pseudonym] for pseudonym in self._unlisted - leaving}
        if arriving:
            self._append(change, arriving)
        if change.chunks or change.removed:
            change.removed += self._unreadable
            change.old_keys += self._unreadable.values()
        return change

    def seal(self, change: DirectoryChange, vault: Vault) -> None:
        """Fill in the rows; the new keys must be in the vault, or in `change.keys`."""
        for number, chunk in change.chunks.items():
            plain = padded(json.dumps(list(chunk.names.items()), separators=(",", ":")).encode(), CHUNK_BYTES, b" ")
            if chunk.key in vault:  # the keys given were overwritten when the vault took them
                sealed = vault.seal(chunk.key, plain, _PLACE + chunk.key)
            else:
                sealed = seal(change.keys[chunk.key], plain, _PLACE + chunk.key)
            change.rows.append((number, chunk.key, sealed))

    @staticmethod
    def write(change: DirectoryChange, database: Database) -> None:
        """Write the changed chunks into the table; call it in a transaction."""
        replaced = [[number] for number in {*change.removed, *(row[0] for row in change.rows)}]
        database.many("DELETE FROM directory WHERE chunk=?", replaced)
        database.many("INSERT INTO directory VALUES (?, ?, ?)", change.rows)

    def apply(self, change: DirectoryChange, removed: Iterable[str] = ()) -> None:
        """Update the names in memory; call it after the transaction."""
        for user in removed:
            pseudonym = self._pseudonyms.pop(user)
            if (folded := fold(user)) in self._other_ways:
                self._other_ways[folded].discard(user)
            self._names.pop(pseudonym, None)
            self._chunk_of.pop(pseudonym, None)
            self._unlisted.discard(pseudonym)
        for number in change.removed:
            self._chunks.pop(number, None)
            self._unreadable.pop(number, None)
        for number, chunk in change.chunks.items():
            self._take(number, chunk)

    def _append(self, change: DirectoryChange, arriving: dict[int, str]) -> None:
        """Add names to the newest chunk while it has room; its key stays, because no name leaves it."""
        number = max([*self._chunks, *self._unreadable], default=0)
        chunk = change.chunks.get(number) or self._chunks.get(number)
        for pseudonym, user in arriving.items():
            if chunk is None or len(chunk.names) >= NAMES or number in self._unreadable or number in change.removed:
                number, chunk = max([number, *change.chunks]) + 1, _Chunk(_fresh(change), {})
            if number not in change.chunks:
                chunk = _Chunk(chunk.key, dict(chunk.names))
                change.chunks[number] = chunk
            chunk.names[pseudonym] = user

    def _take(self, number: int, chunk: _Chunk) -> None:
        self._chunks[number] = chunk
        for pseudonym, user in chunk.names.items():
            self._learn(pseudonym, user)
            self._chunk_of[pseudonym] = number
            self._unlisted.discard(pseudonym)

    def _learn(self, pseudonym: int, user: str) -> None:
        self._names[pseudonym] = user
        self._pseudonyms[user] = pseudonym
        if (folded := fold(user)) != user:
            self._other_ways.setdefault(folded, set()).add(user)


def _fresh(change: DirectoryChange) -> bytes:
    name = os.urandom(16)
    change.keys[name] = os.urandom(32)
    return name


def _recorded_name(database: Database, vault: Vault, pseudonym: int) -> str:
    rows = database.rows(
        "SELECT sealed_user, (SELECT key FROM blocks WHERE upload=id ORDER BY part LIMIT 1) FROM uploads "
        "WHERE pseudonym=?",
        [pseudonym],
    )
    for sealed, first in rows:
        if first is not None:
            try:
                return name_of(vault.open_sealed(bytes(first), bytes(sealed), b"user" + bytes(first)))
            except (VaultError, UnicodeDecodeError):
                continue
    raise HomeError(f"an upload of pseudonym {pseudonym} has lost a key", doctor_advice(database.path.parent))
