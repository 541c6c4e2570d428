"""A home's transparency log: a Merkle tree over signed entries, whose checkpoints the device signs."""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from cause.device.advice import doctor_advice
from cause.device.log import (
    Checkpoint,
    Frontier,
    Node,
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
from cause.device.log.merkle import HASH_BYTES
from cause.device.store.database import Database
from cause.device.store.log_table import Entry, LogTable
from cause.errors import LogError

HEAD = "log"
"""The row of `meta` with the log's size and root."""
RESTORE = "restore"
"""The kind of an entry that says that the entries before it came from a backup."""


class TransparencyLog:
    """The log of a home. An entry is a receipt, or records that the home was restored from a backup.

    Parameters
    ----------
    database
        The ledger.
    device_key
        Reads the key that signs.
    """

    def __init__(self, database: Database, device_key: Callable[[], bytes]) -> None:
        self._database, self._device_key = database, device_key
        self.table = LogTable(database)

    def node(self, level: int, index: int) -> bytes:
        """Return a stored hash of the Merkle tree; LogError if it is missing."""
        node = self.table.node(level, index)
        if node is None:
            raise LogError(f"the log has lost node ({level}, {index})", doctor_advice())
        return node

    @property
    def size(self) -> int:
        """How many entries there are."""
        if self._database.get(HEAD) is None:
            return self.table.count()
        return self.head()[0]

    def head(self) -> tuple[int, bytes]:
        """Return size and root of the log as recorded with the last entry; an early version's log computes them.

        Raises
        ------
        LogError
            If the record is damaged.
        """
        recorded = self._database.get(HEAD)
        if recorded is None:
            return self.size, self.recomputed(self.size)[0].root
        try:
            size, root = recorded.split()
            if not int(size) >= 0 or len(bytes.fromhex(root)) != HASH_BYTES:
                raise ValueError
            return int(size), bytes.fromhex(root)
        except (ValueError, AttributeError):
            raise LogError("the head of the log is damaged", doctor_advice()) from None

    def note_head(self) -> None:
        """Record the head in the log of an early version, which did not."""
        if self._database.get(HEAD) is None:
            size, root = self.head()
            with self._database.transaction():
                self._database.set(HEAD, f"{size} {root.hex()}")

    def recomputed(self, size: int) -> tuple[Frontier, list[Node]]:
        """Compute the right edge and all nodes of the log at a size from its entries; LogError if one is missing."""
        frontier, nodes = Frontier(), list[Node]()
        for expected, (number, body) in enumerate(self.table.bodies(size)):
            if number != expected or not isinstance(body, bytes):
                break
            frontier, added = frontier.append(leaf_hash(body))
            nodes += added
        if frontier.size != size:
            raise LogError(f"the log has lost entry {frontier.size} of {size}", doctor_advice())
        return frontier, nodes

    def begins_with(self, size: int, root: bytes) -> bool:
        """Return whether the log once had this size and root."""
        if size > self.size:
            return False
        try:
            if root_at(self, size) == root:
                return True
        except LogError:
            pass
        return self.recomputed(size)[0].root == root  # a node may be damaged: the entries decide

    def entry(self, number: int) -> Entry:
        """Return an entry by its number.

        Raises
        ------
        LogError
            If there is none.
        """
        entry = self.table.entry(number)
        if entry is None:
            raise LogError(f"there is no receipt {number}: the log has {self.size}")
        return entry

    @property
    def verifier(self) -> VerifierKey:
        """The public key that checks the device's signatures."""
        return self._signer().verifier

    def _signer(self) -> SigningKey:
        name, key = self._database.get("origin"), self._device_key()
        if name is None:  # it follows from the key, so that a log whose ledger is lost goes on under its name
            public = SigningKey("cause-device", key).verifier.public
            name = f"cause-device/{hashlib.sha256(public).hexdigest()[:16]}"
        return SigningKey(name, key)

    def checkpoint(self) -> bytes:
        """Return the signed head of the log.

        Raises
        ------
        LogError
            If the stored nodes do not lead to the recorded root: a wrong root is not signed.
        """
        signer, (size, root) = self._signer(), self.head()
        if root_at(self, size) != root:
            raise LogError(f"the log's nodes do not lead to its root at {size} entries", doctor_advice())
        return sign_checkpoint(Checkpoint(signer.verifier.name, size, root), signer)

    def consistency(self, since: Checkpoint) -> list[bytes]:
        """Return the proof that the log only grew since a checkpoint.

        Raises
        ------
        LogError
            If it did not; the message names the restore that may be the reason.
        """
        size = self.size
        try:
            proof = consistency_proof(self, since.size, size)
            verify_consistency(since.size, size, proof, since.root, root_at(self, size))
        except LogError as error:
            raise LogError(f"{error}{self.restored_before(since.size)}") from None
        return proof

    def restored_before(self, size: int) -> str:
        """Return a remark for error messages on the first restore before entry `size`; empty if there was none."""
        restore = self.table.first_of_kind(RESTORE, size)
        if restore is None:
            return ""
        number, body = restore
        receipt = json.loads(open_note(body, [self.verifier]))
        when, made = receipt["in_effect"], receipt["backup_made"]
        return f" (entry {number}: restored at {when} from a backup of {made}, later entries may be lost)"

    def append(self, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Sign entries and add them to the log; call it in a transaction.

        Parameters
        ----------
        entries
            Request, kind and contents of each.
        """
        signer = self._signer()
        self.extend(
            (request, kind, sign_note(json.dumps(body, sort_keys=True) + "\n", [signer]))
            for request, kind, body in entries
        )

    def extend(self, notes: Iterable[tuple[str, str, bytes]]) -> None:
        """Add entries that are signed already: request, kind and note of each; call it in a transaction."""
        frontier = self._frontier()
        for request, kind, note in notes:
            number = frontier.size
            frontier, nodes = frontier.append(leaf_hash(note))
            self.table.add(number, Entry(request, kind, note), nodes)
        self._database.set(HEAD, f"{frontier.size} {frontier.root.hex()}")

    def _frontier(self) -> Frontier:
        """Return the right edge of the tree from the stored nodes; damaged nodes are computed and stored again."""
        size, root = self.head()
        try:
            frontier = Frontier.of(self, size)
        except LogError:
            frontier = Frontier()
        if frontier.root == root:
            return frontier
        frontier, nodes = self.recomputed(size)
        if frontier.root != root:
            raise LogError(f"the log's entries do not lead to its root at {size}", doctor_advice())
        self.table.replace_nodes(nodes)
        return frontier
