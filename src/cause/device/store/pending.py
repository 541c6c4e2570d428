"""The table of requests: accepting them, reading those that wait, and marking them as repaired."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from secrets import token_hex
from typing import TYPE_CHECKING

from cause.device.receipts.receipts import nonce_digest
from cause.device.store.seals import padded
from cause.engine.requests import Request

if TYPE_CHECKING:
    from cause.device.store.home import Home

REQUEST_BYTES = 256
"""A request is padded to a multiple of this, so that its length does not tell that of a name."""


def accept(home: "Home", requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
    """Record requests durably, each sealed under a key of its own, and return their ids.

    Parameters
    ----------
    requests
        What to forget.
    ids
        Their ids, each 32 hexadecimal digits; drawn at random unless they are given.

    Raises
    ------
    HomeError, VaultError
        If the disk refuses. None of the requests is recorded then.
    """
    ids = [token_hex(16) for _ in requests] if ids is None else list(ids)
    names = [bytes.fromhex(id_) for id_ in ids]
    # a call that failed below is repeated with the same id, and its key is in the vault already
    new = [name for name in names if name not in home.vault]
    home.vault.add_keys(new)
    home.garbage.doubt(new)  # until the tables name them
    now = home.clock()
    with home.database.transaction():
        for id_, name, request in zip(ids, names, requests, strict=True):
            plain = padded(json.dumps(asdict(request)).encode(), REQUEST_BYTES, b" ")
            sealed = home.vault.seal(name, plain, b"request" + name)
            home.database.run(
                "INSERT INTO requests (id, received, deadline, key, sealed, nonce) VALUES (?, ?, ?, ?, ?, ?)",
                [id_, now, now + home.deadline_s, name, sealed, nonce_digest(request.nonce)],
            )
    home.garbage.difference_update(names)
    return ids


def expired(home: "Home") -> list[Request]:
    """Requests for all samples that are older than the home keeps them, one for each user."""
    rounds, seconds = home.retain
    if rounds is not None:
        rule, limit = "round <= ?", float(home.ledger.round - rounds)
    elif seconds is not None and home.time.doubt() is None:
        rule, limit = "arrived < ?", home.clock() - seconds
    else:
        return []
    rounds_of: dict[str, list[int]] = {}
    for pseudonym, round_ in home.database.rows(f"SELECT pseudonym, round FROM uploads WHERE {rule}", [limit]):
        rounds_of.setdefault(home.directory.name(pseudonym), []).append(round_)
    return [Request(user, tuple(sorted(old)), exact=True, expiry=True) for user, old in sorted(rounds_of.items())]


def accepted(home: "Home") -> list[tuple[str, Request]]:
    """The requests that were accepted and have not taken effect, with their ids, oldest first."""
    rows = home.database.rows("SELECT id, key, sealed FROM requests WHERE effective IS NULL ORDER BY received, rowid")
    return [(id_, _unsealed(home, bytes(name), bytes(sealed))) for id_, name, sealed in rows]


def requests_of(home: "Home", ids: Sequence[str]) -> list[Request]:
    """The requests with these ids that have not taken effect."""
    rows = (home.database.row("SELECT key, sealed FROM requests WHERE id=?", [id_]) for id_ in ids)
    return [_unsealed(home, bytes(row[0]), bytes(row[1])) for row in rows if row is not None and row[0] is not None]


def _unsealed(home: "Home", name: bytes, sealed: bytes) -> Request:
    payload = json.loads(home.vault.open_sealed(name, sealed, b"request" + name))
    rounds = None if payload["rounds"] is None else tuple(payload["rounds"])
    samples = None if payload["samples"] is None else tuple((int(t), int(at)) for t, at in payload["samples"])
    handles = None if payload.get("handles") is None else tuple(payload["handles"])
    exact = bool(payload.get("exact", False))
    nonce, expiry = payload.get("nonce"), bool(payload.get("expiry", False))
    return Request(payload["user"], rounds, payload["count"], samples, handles, nonce, exact, expiry)


def failed(home: "Home", errors: Mapping[int, str]) -> None:
    """Record which shards' training fails, with the type of their last error; the others do not fail."""
    recorded = dict(home.database.rows("SELECT shard, problem FROM behind WHERE problem IS NOT NULL"))
    if recorded != dict(errors):
        with home.database.transaction():
            home.database.run("UPDATE behind SET problem=NULL WHERE problem IS NOT NULL")
            home.database.many(
                "UPDATE behind SET problem=? WHERE shard=?", [[error, shard] for shard, error in errors.items()]
            )


def caught_up(home: "Home", behind: Sequence[int]) -> None:
    """Record the end of a training after which only these shards wait: requests that touched none are repaired."""
    home.receipts.issue()  # an erasure that an error stopped: its keys are destroyed before it counts as repaired
    with home.database.transaction():
        marks = ",".join(map(str, behind))
        home.database.run(f"DELETE FROM behind WHERE shard NOT IN ({marks})")
        now = home.clock()
        rows = [[shard, now] for shard in behind]
        home.database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", rows)
        waiting = set(behind)
        for id_, covered in home.database.rows(
            "SELECT id, covered FROM requests WHERE signed < 2 AND effective IS NOT NULL AND repaired IS NULL"
        ):
            if not waiting & set(json.loads(covered)["shards"]):
                home.database.run("UPDATE requests SET repaired=? WHERE id=?", [now, id_])
    home.receipts.issue()
