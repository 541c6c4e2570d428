"""A home's transparency log: its entries and nodes in the tables, its heads signed by the device."""

import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from cause.errors import LogError
from cause.home.database import Database
from cause.log import (
    Checkpoint,
    Frontier,
    SigningKey,
    VerifierKey,
    consistency_proof,
    leaf_hash,
    open_note,
    root_at,
    sign_checkpoint,
    sign_note,
    verify_consistency,
)

DEVICE_KEY = b"device signature"
"""The vault's name for the key that signs receipts: not a data key, never erased."""
RESTORE = "restore"
"""The kind of an entry that says that the entries before it came from a backup."""


class Log:
    """Entries (receipts, but for restores) under a Merkle tree."""

    def __init__(self, database: Database, device_key: Callable[[], bytes]) -> None:
        self._database, self._device_key = database, device_key

    def node(self, level: int, index: int) -> bytes:
        found = self._database.row("SELECT hash FROM nodes WHERE (level, number)=(?, ?)", [level, index])
        if found is None:
            raise LogError(f"the log has lost node ({level}, {index}): `cause doctor --home` tells more")
        return bytes(found[0])

    @property
    def size(self) -> int:
        """How many entries there are."""
        (found,) = self._database.row("SELECT count(*) FROM leaves")
        return int(found)

    def entry(self, number: int) -> tuple[str, str, bytes]:
        """Whose it is, of what kind, and what was signed."""
        found = self._database.row("SELECT request, kind, body FROM leaves WHERE number=?", [number])
        if found is None:
            raise LogError(f"there is no receipt {number}: the log has {self.size}")
        return found[0], found[1], bytes(found[2])

    @property
    def verifier(self) -> VerifierKey:
        """The key that others check signatures with."""
        return self._signer().verifier

    def _signer(self) -> SigningKey:
        name, key = self._database.get("origin"), self._device_key()
        if name is None:  # it follows from the key, so that a log whose ledger is lost goes on under its name
            public = SigningKey("cause-device", key).verifier.public
            name = f"cause-device/{hashlib.sha256(public).hexdigest()[:16]}"
        return SigningKey(name, key)

    def checkpoint(self) -> bytes:
        """The log's head, signed."""
        signer, size = self._signer(), self.size
        return sign_checkpoint(Checkpoint(signer.verifier.name, size, root_at(self, size)), signer)

    def consistency(self, since: Checkpoint) -> list[bytes]:
        """The proof that the log only grew since a checkpoint. Where it did not, the error names the restore."""
        size = self.size
        try:
            proof = consistency_proof(self, since.size, size)
            verify_consistency(since.size, size, proof, since.root, root_at(self, size))
        except LogError as error:
            raise LogError(f"{error}{self.restored_before(since.size)}") from None
        return proof

    def restored_before(self, size: int) -> str:
        """What may have become of entries that a log of this size had; nothing if there was no restore."""
        found = self._database.row(
            "SELECT number, body FROM leaves WHERE kind=? AND number<? ORDER BY number LIMIT 1", [RESTORE, size]
        )
        if found is None:
            return ""
        told = json.loads(open_note(bytes(found[1]), [self.verifier]))
        when, made = told["in_effect"], told["backup_made"]
        return f" (entry {found[0]}: restored at {when} from a backup of {made}, later entries may be lost)"

    def append(self, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """In a transaction: sign what these say, each of one request and one kind, and log it."""
        signer = self._signer()
        self.extend(
            (request, kind, sign_note(json.dumps(body, sort_keys=True) + "\n", [signer]))
            for request, kind, body in entries
        )

    def extend(self, notes: Iterable[tuple[str, str, bytes]]) -> None:
        """In a transaction: log what is signed already."""
        frontier = Frontier.of(self, self.size)
        for request, kind, note in notes:
            number = frontier.size
            frontier, nodes = frontier.append(leaf_hash(note))
            self._database.run("INSERT INTO leaves VALUES (?, ?, ?, ?)", [number, request, kind, note])
            self._database.many("INSERT INTO nodes VALUES (?, ?, ?)", [[n.level, n.index, n.hash] for n in nodes])


def time_text(seconds: float) -> str:
    """As receipts have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
