"""Sub-models at rest: each sealed under a key of its own, each a file."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from cause.device.store.sealed_store import SealedStore
from cause.engine.samples import SegmentKey
from cause.errors import DamageError, HomeError, ReadError, VaultError

PLACE = b"sub-model"


class HomeShelf:
    """The sub-models of a home, each a sealed file.

    A sub-model is written at once, durably; a *pending* one is in memory alone until `write`. One that is destroyed
    keeps its file until the transaction has committed that deletes its row: that transaction asks for its name
    (`to_delete`) and then says that it is done (`deleted`).

    Parameters
    ----------
    store
        Files and keys.
    """

    def __init__(self, store: SealedStore) -> None:
        self._store, self.files = store, store.sub_models
        self.names: dict[SegmentKey, bytes] = {}
        """By stored sub-model: the name of its file and key."""
        self._released: dict[SegmentKey, bytes] = {}  # destroyed, but the ledger still names them
        self._leftovers: list[bytes] = []  # of writes that failed, and of rows that cannot be read
        self._pending: dict[SegmentKey, Callable[[], bytes]] = {}  # not written yet: what makes their bytes

    def restore(self, names: Mapping[SegmentKey, bytes], unreadable: Sequence[bytes] = ()) -> None:
        """Go on with the sub-models that the ledger names; the rows of unreadable ones go with the next deletion."""
        self.names, self._released, self._leftovers = dict(names), {}, list(unreadable)
        self._pending = {}

    def all_names(self) -> set[bytes]:
        """Return the names of all sub-models, also of those that are released or were not written completely."""
        return {*self.names.values(), *self._released.values(), *self._leftovers}

    def name_of_released(self, key: SegmentKey) -> bytes | None:
        """Return the name of a destroyed sub-model that the ledger still names; None if it was never written."""
        return self._released.get(key)

    def name(self, key: SegmentKey) -> bytes:
        """Return the name of a sub-model's key; a pending one gets its key now.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses.
        """
        if key not in self.names:
            name = os.urandom(16)
            self._store.vault.add_keys([name])
            self.names[key] = name
        return self.names[key]

    def to_delete(self) -> list[bytes]:
        """Return the names whose rows the next transaction must delete.

        They are those of all released sub-models, not only of the ones that the transaction is about: if an earlier
        transaction failed, its sub-models must not stay.
        """
        return [*self._leftovers, *self._released.values()]

    def deleted(self, names: Collection[bytes]) -> None:
        """Note that the ledger no longer has these names."""
        self._released = {key: name for key, name in self._released.items() if name not in names}
        self._leftovers = [name for name in self._leftovers if name not in names]

    def put(self, key: SegmentKey, blob: bytes) -> None:
        """Write a sub-model, sealed under a fresh key.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. What was written of it is removed with the next deletion.
        """
        name = os.urandom(16)
        self._store.vault.add_keys([name])
        self._write(name, blob)
        self.names[key] = name

    def _write(self, name: bytes, blob: bytes) -> None:
        try:
            self.files.write([(name, self._store.vault.seal(name, blob, PLACE))])
        except BaseException:
            self._leftovers.append(name)
            raise

    def put_later(self, key: SegmentKey, encode: Callable[[], bytes]) -> None:
        """Take a sub-model in that is in memory alone until `write`; `encode` makes its bytes."""
        self._pending[key] = encode

    def is_pending(self, key: SegmentKey) -> bool:
        """Return whether a sub-model is in memory alone."""
        return key in self._pending

    def write(self, key: SegmentKey) -> None:
        """Write a pending sub-model, durably; the caller then names it in the ledger.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. What was written of it is removed with the next deletion.
        """
        self._write(self.name(key), self._pending[key]())
        del self._pending[key]

    def get(self, key: SegmentKey) -> bytes:
        """Return a sub-model's bytes.

        Raises
        ------
        DamageError
            If its file or its key is missing, or its bytes do not authenticate: it is to be dropped.
        ReadError
            If its file cannot be read now; the sub-model is kept, since its bytes may be intact.
        """
        if key in self._pending:
            return self._pending[key]()
        try:
            return self._store.vault.open_sealed(self.names[key], self.files.read(self.names[key]), PLACE)
        except ReadError:
            raise
        except (VaultError, HomeError) as error:
            raise DamageError(f"sub-model {key} is damaged or lost: {error}") from None

    def destroy(self, key: SegmentKey) -> None:
        """Take a sub-model off the shelf. Its file and key stay until a transaction has deleted its row."""
        if self._pending.pop(key, None) is None:
            self._released[key] = self.names.pop(key)
        elif key in self.names:  # it has a key, which a receipt commits with, but no file and no row
            self._leftovers.append(self.names.pop(key))
