"""Brings rows of an older format or of a restored backup up to date, a few uploads at a time.

- Uploads of formats 1 to 4 that have lost samples are written anew with random positions (`relayout`).
- Segments without a list of digests get one, where the law needs it.
- Users that are in no chunk of the directory are added to it.

Each step is one transaction; after a crash the next opening for writing goes on. An upload whose blocks cannot be read
stays as it is: `cause doctor` names it.
"""

import os
from dataclasses import dataclass

from cause.common import positions as pos
from cause.device.store.directory import Directory
from cause.device.store.ledger import HomeLedger
from cause.device.store.relayout import Permutation, moved, permuted
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import name_bytes, seal_digests
from cause.device.store.stored_upload import Blocks
from cause.device.store.tables import Tables
from cause.device.store.tables.samples import UNCHECKED
from cause.engine.samples import SegmentKey
from cause.errors import HomeError, VaultError

UPLOADS = 256
"""The most uploads that one step rewrites."""
BYTES = 32 << 20
"""About how many bytes of samples one step rewrites."""
SEGMENTS = 64
"""The most segments that get digests in one step."""


@dataclass(frozen=True)
class _Upload:
    id: int
    user: str
    old: list[bytes]
    new: dict[bytes, bytes]
    """Sealed blocks by name."""
    places: dict[int, int]


class Upgrade:
    """Brings the rows of a home up to date.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory
        The names of the users.
    ledger
        The retained samples.
    permutation
        Draws the new positions of an upload.
    """

    def __init__(
        self, store: SealedStore, tables: Tables, directory: Directory, ledger: HomeLedger, permutation: Permutation
    ) -> None:
        self._store, self._tables, self._directory = store, tables, directory
        self._ledger, self._permutation = ledger, permutation

    def run(self) -> None:
        """Do all steps. The caller holds the device's lock, and no accepted request may wait for its effect.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. The next opening goes on.
        """
        skipped: set[int] = set()
        while batch := self._to_renumber(skipped):
            self._renumber(batch, skipped)
        while self._ledger.lists_digests and (keys := self._tables.samples.segments_without_digests(SEGMENTS)):
            if not self._add_digests(keys):
                break
        self._fill_directory()

    def _fill_directory(self) -> None:
        """Add users that are in no chunk of the directory."""
        change = self._directory.plan()
        if change.chunks or change.removed:
            self._directory.seal(change, self._store.vault)
            self._store.write(change.keys, [])
            with self._tables.database.transaction():
                self._directory.write(change, self._tables.database)
            self._directory.apply(change)
            self._store.garbage.update(change.old_keys)
            self._store.destroy()

    def _to_renumber(self, skipped: set[int]) -> list[tuple[int, int, int]]:
        """Return the uploads of the next step: id, round and pseudonym."""
        batch, size = [], 0
        for upload, round_, pseudonym, bytes_ in self._tables.samples.uploads_of_layout(
            UNCHECKED, UPLOADS + len(skipped)
        ):
            if upload not in skipped and size < BYTES:
                batch.append((upload, round_, pseudonym))
                size += bytes_
        return batch

    def _renumber(self, batch: list[tuple[int, int, int]], skipped: set[int]) -> None:
        """Rewrite uploads with random positions, in one transaction; unreadable ones are added to `skipped`."""
        keys: dict[bytes, bytes] = {}
        work: list[_Upload] = []
        for id_, round_, pseudonym in batch:
            old, user = self._tables.samples.block_names(id_), self._directory.name(pseudonym)
            blocks, nothing = Blocks(id_, self._store.blocks, old), pos.array(range(0))
            try:
                new_blocks, places = permuted(self._permutation, blocks, user, round_, nothing, {})
            except (HomeError, VaultError):
                skipped.add(id_)
                continue
            new = {}
            for block in new_blocks:
                name = os.urandom(16)
                keys[name] = os.urandom(32)
                new[name] = block.sealed(name, keys[name])
            work.append(_Upload(id_, user, old, new, places))
        if not work:
            return
        self._store.write(keys, [block for upload in work for block in upload.new.items()])
        try:
            with self._tables.database.transaction():
                for upload in work:
                    self._replace(upload)
        except BaseException:
            self._store.garbage.add_uncertain(keys)
            raise
        self._ledger.committed({}, [upload.id for upload in work])
        self._store.garbage.update(name for upload in work for name in upload.old)
        self._store.destroy()

    def _replace(self, upload: _Upload) -> None:
        """Replace an upload's blocks and positions in the tables; call it in a transaction."""
        samples = self._tables.samples
        for key, held in samples.pieces_of_upload(upload.id):
            samples.move_piece(upload.id, key, moved(held, upload.places))
        samples.replace_blocks(upload.id, list(upload.new), {name: len(data) for name, data in upload.new.items()})
        first = next(iter(upload.new))
        sealed = self._store.vault.seal(first, name_bytes(upload.user), b"user" + first)
        samples.rewrite_upload(upload.id, sealed)

    def _add_digests(self, segments: list[SegmentKey]) -> int:
        """Store sealed lists of digests for these segments; return how many could be computed."""
        keys: dict[bytes, bytes] = {}
        digests = []
        for segment in segments:
            name, key = os.urandom(16), os.urandom(32)
            try:
                rows = self._ledger.digests(segment)
            except HomeError:
                continue
            keys[name] = key
            digests.append((segment, name, seal_digests(key, segment, rows)))
        self._store.write(keys, [])
        with self._tables.database.transaction():
            self._tables.samples.set_digests(digests)
        return len(digests)
