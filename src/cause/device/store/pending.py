"""Requests on record: accepted, waiting to take effect, and repaired."""

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
"""What was asked is filled up to a multiple of this: its length does not tell that of a name."""


def accept(home: "Home", requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
    """Requests that will be served, whatever happens; their ids."""
    ids = [token_hex(16) for _ in requests] if ids is None else list(ids)
    names = [bytes.fromhex(each) for each in ids]
    # whoever repeats a call that failed below gives the same id again, and its key is there already
    new = [name for name in names if name not in home.vault]
    home.vault.add_keys(new)
    home.garbage.doubt(new)  # until the tables name them
    now = home.clock()
    with home.database.transaction():
        for each, request in zip(ids, requests, strict=True):
            name = bytes.fromhex(each)
            plain = padded(json.dumps(asdict(request)).encode(), REQUEST_BYTES, b" ")
            sealed = home.vault.seal(name, plain, b"request" + name)
            home.database.run(
                "INSERT INTO requests (id, received, deadline, key, sealed, nonce) VALUES (?, ?, ?, ?, ?, ?)",
                [each, now, now + home.deadline_s, name, sealed, nonce_digest(request.nonce)],
            )
    home.garbage.difference_update(names)
    return ids


def expired(home: "Home") -> list[Request]:
    """What is older than samples are kept, as requests of the users whose it is."""
    rounds, seconds = home.retain
    if rounds is not None:
        rule, limit = "round <= ?", float(home.ledger.round - rounds)
    elif seconds is not None and home.time.doubt() is None:
        rule, limit = "arrived < ?", home.clock() - seconds
    else:
        return []
    found: dict[str, list[int]] = {}
    for pseudonym, round_ in home.database.rows(f"SELECT pseudonym, round FROM uploads WHERE {rule}", [limit]):
        found.setdefault(home.directory.name(pseudonym), []).append(round_)
    return [Request(user, tuple(sorted(theirs)), exact=True) for user, theirs in sorted(found.items())]


def accepted(home: "Home") -> list[tuple[str, Request]]:
    """Requests that a crash kept from taking effect."""
    found = []
    for each, name, sealed in home.database.rows(
        "SELECT id, key, sealed FROM requests WHERE effective IS NULL ORDER BY received, rowid"
    ):
        found.append((each, _asked(home, bytes(name), bytes(sealed))))
    return found


def requests_of(home: "Home", ids: Sequence[str]) -> list[Request]:
    """What was asked for under these ids and is not in effect yet."""
    rows = (home.database.row("SELECT key, sealed FROM requests WHERE id=?", [each]) for each in ids)
    return [_asked(home, bytes(row[0]), bytes(row[1])) for row in rows if row is not None and row[0] is not None]


def _asked(home: "Home", name: bytes, sealed: bytes) -> Request:
    told = json.loads(home.vault.open_sealed(name, sealed, b"request" + name))
    rounds = None if told["rounds"] is None else tuple(told["rounds"])
    samples = None if told["samples"] is None else tuple((int(a), int(b)) for a, b in told["samples"])
    handles = None if told.get("handles") is None else tuple(told["handles"])
    exact = bool(told.get("exact", False))
    return Request(told["user"], rounds, told["count"], samples, handles, told.get("nonce"), exact)


def failed(home: "Home", errors: Mapping[int, str]) -> None:
    """The shards whose training fails, with the type of their last error, for whoever looks at the home."""
    found = dict(home.database.rows("SELECT shard, problem FROM behind WHERE problem IS NOT NULL"))
    if found != dict(errors):
        with home.database.transaction():
            home.database.run("UPDATE behind SET problem=NULL WHERE problem IS NOT NULL")
            home.database.many(
                "UPDATE behind SET problem=? WHERE shard=?", [[error, shard] for shard, error in errors.items()]
            )


def caught_up(home: "Home", behind: Sequence[int]) -> None:
    """Training has come to an end, and these shards still wait: requests of the others are repaired."""
    home.receipts.issue()  # of an erasure that an error stopped: its keys are destroyed before it counts as repaired
    with home.database.transaction():
        marks = ",".join(map(str, behind))
        home.database.run(f"DELETE FROM behind WHERE shard NOT IN ({marks})")
        now = home.clock()
        rows = [[shard, now] for shard in behind]
        home.database.many("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", rows)
        waiting = set(behind)
        for each, covered in home.database.rows(
            "SELECT id, covered FROM requests WHERE signed < 2 AND effective IS NOT NULL AND repaired IS NULL"
        ):
            if not waiting & set(json.loads(covered)["shards"]):
                home.database.run("UPDATE requests SET repaired=? WHERE id=?", [now, each])
    home.receipts.issue()
