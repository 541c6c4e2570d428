"""The tables of the stored sub-models, of shards' environments, and of how many samples were trained again."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cause.device.store.database import Database
from cause.engine.memory import SubModel
from cause.engine.samples import SegmentKey


class SubModelRow(NamedTuple):
    """A stored sub-model."""

    key: SegmentKey
    name: bytes
    """The name of its file and its key."""
    sealed_identity: bytes
    size_bytes: int
    environment: str
    slot: int


class SubModelTables:
    """The stored sub-models. Every method raises HomeError if the ledger cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self) -> list[SubModelRow]:
        """Return all sub-models, by slot."""
        rows = self._database.rows(
            "SELECT shard, round, slice, key, sealed_identity, size_bytes, environment, slot FROM sub_models "
            "ORDER BY slot"
        )
        return [
            SubModelRow(SegmentKey(shard, round_, slice_), bytes(name), bytes(sealed), size, environment, slot)
            for shard, round_, slice_, name, sealed, size, environment, slot in rows
        ]

    def add(self, sub_model: SubModel, name: bytes, sealed_identity: bytes, slot: int) -> None:
        """Add a sub-model, and note that its segment is trained.

        Parameters
        ----------
        sub_model
            The sub-model.
        name
            The name of its file and its key.
        sealed_identity
            Its identity, sealed under that key.
        slot
            Its place in the memory.
        """
        self._database.run(
            "INSERT INTO sub_models VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [*sub_model.key, name, sealed_identity, sub_model.size_bytes, sub_model.environment, slot],
        )
        statement = "UPDATE segments SET trained=1 WHERE (shard, round, slice)=(?, ?, ?)"
        self._database.run(statement, list(sub_model.key))

    def move(self, name: bytes, slot: int) -> None:
        """Note another slot of a sub-model."""
        self._database.run("UPDATE sub_models SET slot=? WHERE key=?", [slot, name])

    def delete(self, names: Iterable[bytes]) -> None:
        """Delete sub-models by their names."""
        self._database.many("DELETE FROM sub_models WHERE key=?", [[name] for name in names])

    def environments(self) -> dict[int, str]:
        """Return the recorded environments, by shard."""
        return dict(self._database.rows("SELECT shard, environment FROM environments"))

    def place(self, environments: Mapping[int, str]) -> None:
        """Record the environments of shards."""
        self._database.many(
            "INSERT INTO environments VALUES (?, ?) ON CONFLICT (shard) DO UPDATE SET environment=excluded.environment",
            list(environments.items()),
        )

    def add_retrained(self, round_: int, samples: int) -> None:
        """Note how many samples were trained again while a round was the last."""
        self._database.run(
            "INSERT INTO retrained VALUES (?, ?) ON CONFLICT (round) DO UPDATE SET samples=samples+excluded.samples",
            [round_, samples],
        )
