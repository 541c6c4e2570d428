"""The tables of requests, of shards that wait for training, and of exports that a request makes stale."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cause.device.store.database import Database
from cause.engine.samples import SegmentKey


class SealedRequest(NamedTuple):
    """A request that has not taken effect."""

    id: str
    key: bytes
    """The name of the key that it is sealed under."""
    sealed: bytes


class RequestTables:
    """Requests, waiting shards, exports and the keys of receipts.

    Every method raises HomeError if the ledger cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, request: SealedRequest, received: float, deadline: float, nonce: str | None) -> None:
        """Add a request that was accepted.

        Parameters
        ----------
        request
            Its id and its sealed contents.
        received, deadline
            When it came, and until when it must be repaired.
        nonce
            The digest of its nonce.
        """
        self._database.run(
            "INSERT INTO requests (id, received, deadline, key, sealed, nonce) VALUES (?, ?, ?, ?, ?, ?)",
            [request.id, received, deadline, request.key, request.sealed, nonce],
        )

    def unserved(self) -> list[SealedRequest]:
        """Return the requests that have not taken effect, oldest first."""
        rows = self._database.rows(
            "SELECT id, key, sealed FROM requests WHERE effective IS NULL ORDER BY received, rowid"
        )
        return [SealedRequest(id_, bytes(name), bytes(sealed)) for id_, name, sealed in rows]

    def sealed(self, ids: Iterable[str]) -> list[SealedRequest]:
        """Return the requests with these ids that have not taken effect."""
        rows = (self._database.row("SELECT id, key, sealed FROM requests WHERE id=?", [id_]) for id_ in ids)
        return [SealedRequest(r[0], bytes(r[1]), bytes(r[2])) for r in rows if r is not None and r[1] is not None]

    def mark_effective(self, id_: str, batch: str, now: float, samples: int, covered: Mapping[str, Any]) -> None:
        """Note that a request took effect.

        Parameters
        ----------
        id_
            The request.
        batch
            The first of the requests that took effect together.
        now
            When.
        samples
            How many samples it deleted.
        covered
            What it touched, for its receipt.
        """
        self._database.run(
            "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=?, samples=?, covered=? WHERE id=?",
            [now, batch, samples, json.dumps(covered), id_],
        )

    def mark_repaired(self, waiting: set[int], now: float) -> None:
        """Note that the requests in effect that touched none of the waiting shards are repaired."""
        for id_, covered in self._database.rows(
            "SELECT id, covered FROM requests WHERE signed < 2 AND effective IS NOT NULL AND repaired IS NULL"
        ):
            if not waiting & set(json.loads(covered)["shards"]):
                self._database.run("UPDATE requests SET repaired=? WHERE id=?", [now, id_])

    # Shards that wait for training

    def mark_behind(self, shards: Iterable[int], now: float) -> None:
        """Note that shards wait for training, since now unless they did before."""
        rows = [[shard, now] for shard in shards]
        self._database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", rows)

    def clear_behind(self, except_: Iterable[int]) -> None:
        """Note that no shard but these waits for training."""
        marks = ",".join(str(int(shard)) for shard in except_)
        self._database.run(f"DELETE FROM behind WHERE shard NOT IN ({marks})")

    def failing(self) -> dict[int, str]:
        """Return the type of the last error of each waiting shard whose training fails."""
        return dict(self._database.rows("SELECT shard, problem FROM behind WHERE problem IS NOT NULL"))

    def set_failing(self, errors: Mapping[int, str]) -> None:
        """Note which shards' training fails, by the type of their last error; the others do not fail."""
        self._database.run("UPDATE behind SET problem=NULL WHERE problem IS NOT NULL")
        rows = [[error, shard] for shard, error in errors.items()]
        self._database.many("UPDATE behind SET problem=? WHERE shard=?", rows)

    # Exports

    def untainted_exports(self) -> list[tuple[str, list[SegmentKey]]]:
        """Return id and heads of the exports that may be used, oldest first."""
        rows = self._database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL ORDER BY made")
        return [(export, [SegmentKey(*head) for head in json.loads(heads)]) for export, heads in rows]

    def taint_export(self, export: str, now: float) -> None:
        """Note that a request made an export stale."""
        self._database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])

    # Keys that receipts commit to a shard's data with

    def manifest_keys(self, shard: int) -> list[bytes]:
        """Return the names of the keys that commit to a shard's data."""
        return [bytes(name) for (name,) in self._database.rows("SELECT key FROM manifests WHERE shard=?", [shard])]

    def delete_manifest_keys(self, shard: int) -> None:
        """Delete the names of the keys that commit to a shard's data."""
        self._database.run("DELETE FROM manifests WHERE shard=?", [shard])
