"""Recording sub-models: a trained one is named in the tables, and evicted ones are deleted."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import seal_identity
from cause.device.store.shelf import HomeShelf
from cause.device.store.tables import Tables
from cause.engine.memory import Memory, Policy
from cause.engine.samples import SegmentKey


@dataclass(frozen=True)
class SubModelDeletion:
    """The deletion of all sub-models that the shelf has released: first their rows, then their files."""

    names: list[bytes]
    _shelf: HomeShelf
    _tables: Tables
    _policy: str

    def delete_rows(self) -> None:
        """Delete the rows, and store the state of the memory's policy; call it in a transaction."""
        self._tables.sub_models.delete(self.names)
        self._tables.database.set("policy", self._policy)

    def after_deletion_committed(self) -> None:
        """Note after that transaction that the ledger no longer has them."""
        self._shelf.deleted(self.names)


class StoredSubModels:
    """The sub-models of a home in its tables.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    shelf
        The sub-models' files.
    """

    def __init__(self, store: SealedStore, tables: Tables, shelf: HomeShelf) -> None:
        self._store, self._tables, self._shelf = store, tables, shelf

    def deletion(self, memory: Memory) -> SubModelDeletion:
        """Return what the next transaction has to delete: evicted, dropped and damaged sub-models."""
        policy = json.dumps(memory.policy.state())
        return SubModelDeletion(self._shelf.to_delete(), self._shelf, self._tables, policy)

    def trained(self, memory: Memory, segment: SegmentKey, round_: int, retrained: int) -> None:
        """Record a new sub-model, and delete evicted ones.

        Parameters
        ----------
        memory
            The memory that has admitted it.
        segment
            The segment that it was trained up to.
        round_
            The last round.
        retrained
            How many samples were trained again.
        """
        name, deletion = self._shelf.names[segment], self.deletion(memory)
        with self._tables.database.transaction():
            deletion.delete_rows()
            for head in memory.apart():  # some may have lost their slot to this sub-model
                self._tables.sub_models.move(self._shelf.names[head], memory.slot_of(head))
            sealed = seal_identity(self._store.vault, name, memory[segment].identity)
            self._tables.sub_models.add(memory[segment], name, sealed, memory.slot_of(segment))
            if retrained:
                self._tables.sub_models.add_retrained(round_, retrained)
        self._remove(deletion)

    def discarded(self, memory: Memory, shard: int, now: float) -> None:
        """Delete a damaged sub-model of a shard, which waits for training from now on."""
        deletion = self.deletion(memory)
        with self._tables.database.transaction():
            deletion.delete_rows()
            self._tables.requests.mark_behind([shard], now)
        self._remove(deletion)

    def placed(
        self, memory: Memory, environments: Mapping[int, str], dropped: Collection[SegmentKey], now: float
    ) -> None:
        """Record the environments of shards, and delete sub-models of another one; see `Journal.placed`."""
        deletion = self.deletion(memory)
        with self._tables.database.transaction():
            deletion.delete_rows()
            self._tables.sub_models.place(environments)
            self._tables.requests.mark_behind(sorted({key.shard for key in dropped}), now)
        self._remove(deletion)

    def reset_policy(self, policy: type[Policy]) -> bool:
        """Delete what a policy has learned from requests; return whether there was anything."""
        database = self._tables.database
        with database.transaction():
            state = json.loads(database.get("policy", "{}"))
            left = policy.without_requests(state)
            if left != state:
                database.set("policy", json.dumps(left))
        return bool(left != state)

    def _remove(self, deletion: SubModelDeletion) -> None:
        deletion.after_deletion_committed()
        self._store.discard_sub_models(deletion.names)
