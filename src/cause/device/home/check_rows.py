"""What a check of a home looks at in the ledger itself: the sum of its rows, the table `meta`, and the whole log."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from cause.device.home.rollback_check import SUPERSEDES
from cause.device.log import open_note
from cause.device.receipts.transparency_log import HEAD, TransparencyLog
from cause.device.settings import ACCEPTED, PENDING
from cause.device.store import checksum
from cause.device.store.database import CHANGE, Database
from cause.device.store.layout import DEVICE_KEY
from cause.device.store.leases import LEASES, is_record
from cause.device.vault import Vault
from cause.errors import LogError


def _count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 62


def _state(value: Any) -> bool:
    state = json.loads(value)
    return isinstance(state, dict) and all(isinstance(part, int) for part in state.values())


def _sealed(value: Any) -> bool:
    return isinstance(value, bytes) and value[:1] == b"\x01"


META: dict[str, Callable[[Any], bool]] = {
    "round": _count,
    "pseudonyms": _count,
    "sub_model_bytes": _count,
    CHANGE: _count,
    "recipe": lambda value: isinstance(value, bytes) and len(value) > 0,
    "policy": _state,
    "origin": lambda value: isinstance(value, str) and 0 < len(value) < 1_000,
    HEAD: lambda value: isinstance(value, str),
    checksum.CHECKSUM: lambda value: isinstance(value, str) and len(value) == 64,
    ACCEPTED: _sealed,
    PENDING: _sealed,
    SUPERSEDES: _sealed,
    LEASES: is_record,
}
"""What each row of `meta` must be like. Rows of other names are covered by the sum of the rows alone."""


def row_problems(database: Database, vault: Vault) -> Iterator[str]:
    """Return what is wrong with the rows as a whole, and with single rows of `meta`."""
    problem = checksum.problem(database, checksum.rows_key(vault, DEVICE_KEY))
    if problem is not None:
        yield problem
    for shard, round_ in database.rows(
        "SELECT shard, round FROM sub_models JOIN environments USING (shard) "
        "WHERE sub_models.environment <> environments.environment ORDER BY shard, round"
    ):
        yield f"sub-model ({shard},{round_}) was trained in another environment than its shard's"
    for name, value in database.rows("SELECT name, value FROM meta ORDER BY name"):
        try:
            fine = META.get(name, lambda value: True)(value)
        except (ValueError, TypeError, LookupError, RecursionError):
            fine = False
        if not fine:
            yield f"the row {name!r} of the table 'meta' makes no sense: {str(value)[:40]!r}"


def log_problems(database: Database, vault: Vault) -> Iterator[str]:
    """Return what is wrong with the log: its entries and their signatures, its nodes, and the head."""
    log = TransparencyLog(database, lambda: vault.key(DEVICE_KEY))
    with database.reading():
        try:
            (size, root), verifier = log.head(), log.verifier
            frontier, nodes = log.recomputed(size)
        except LogError as error:
            yield error.reason
            return
        if frontier.root != root:
            yield f"the entries of the log do not lead to its root at {size} entries"
        stored = {(level, number): hash_ for level, number, hash_ in database.rows("SELECT * FROM nodes")}
        leaves = database.rows("SELECT number, request, kind, body FROM leaves ORDER BY number")
    computed = {(node.level, node.index): node.hash for node in nodes}
    for where in sorted({*stored, *computed}, key=str):
        if stored.get(where) != computed.get(where):
            yield f"node {where} of the log is damaged or lost"
    if len(leaves) != size:
        yield f"the log has {len(leaves)} entries, and its head says {size}"
    for number, request, kind, body in leaves:
        try:
            entry = json.loads(open_note(body, [verifier]))
            filed = (entry["request"], entry["kind"])
        except (LogError, ValueError, TypeError, KeyError) as error:
            yield f"entry {number} of the log is damaged: {error}"
            continue
        if filed != (request, kind):
            yield f"entry {number} of the log is filed under another request or kind than it names"
