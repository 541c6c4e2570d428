"""Loading a home: ledger and memory are filled from the tables."""

import json

from cause.device.advice import doctor_advice
from cause.device.store.directory import Directory
from cause.device.store.inbox import Inbox
from cause.device.store.ledger import HomeLedger
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import open_identity
from cause.device.store.shelf import HomeShelf
from cause.device.store.tables import Tables
from cause.device.vault import Vault
from cause.engine.memory import Memory, SubModel
from cause.errors import HomeError, VaultError


class Loader:
    """Fills ledger, memory and the other parts of a home from the tables.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory, ledger, inbox, shelf
        The parts that are filled.
    """

    def __init__(
        self,
        store: SealedStore,
        tables: Tables,
        directory: Directory,
        ledger: HomeLedger,
        inbox: Inbox,
        shelf: HomeShelf,
    ) -> None:
        self._store, self._tables, self._directory = store, tables, directory
        self._ledger, self._inbox, self._shelf = ledger, inbox, shelf

    def load(self, memory: Memory) -> None:
        """Fill all parts, and the memory.

        Raises
        ------
        HomeError
            If tables and keys do not fit together.
        """
        vault = self._store.vault
        with self._tables.database.reading():
            self._load_ledger(vault)
            rows = self._tables.sub_models.rows()
            state = json.loads(self._tables.database.get("policy", "{}"))
            environments = self._tables.sub_models.environments()
        stored, names, unreadable = [], {}, []
        for row in rows:
            identity = _identity(vault, row.name, row.sealed_identity)
            if identity is None:
                unreadable.append(row.name)
                continue
            names[row.key] = row.name
            stored.append((row.slot, SubModel(row.key, identity, row.size_bytes, row.environment)))
        self._store.garbage.add_uncertain(self._shelf.all_names() - set(names.values()))
        self._shelf.restore(names, unreadable)
        memory.restore(stored, state, environments)

    def _load_ledger(self, vault: Vault) -> None:
        """Load the retained samples, the users' names and the staged uploads; HomeError if a key is missing."""
        held = vault.names()
        for name, upload in self._tables.samples.blocks():
            if name not in held:
                folder = self._store.layout.folder
                raise HomeError(
                    f"the ledger and the keys of {str(folder)!r} do not fit together (upload {upload} has lost a key)",
                    doctor_advice(folder),
                )
        self._directory.load(self._tables.database, vault)
        self._ledger.load()
        self._inbox.load()


def _identity(vault: Vault, name: bytes, sealed: bytes) -> bytes | None:
    """Return the identity of a sub-model; None if it is damaged: the sub-model cannot be used without it."""
    if name not in vault:
        return b""  # without its key the sub-model cannot be read, which is noticed before this is used
    try:
        return open_identity(vault, name, sealed)
    except VaultError:
        return None
