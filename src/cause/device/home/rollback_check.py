"""Checks that a ledger is the newest one, by comparing it with the anchor beside the keys."""

import struct

from cause.device import settings
from cause.device.receipts.transparency_log import TransparencyLog
from cause.device.store.anchor import NO_DIGEST, Mark
from cause.device.store.database import Database
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.vault import Vault
from cause.errors import HomeError, LogError, VaultError

SUPERSEDES = "supersedes"
"""The row of `meta` by which a restored ledger names the anchor that it replaces, sealed."""
REMEDY = "`cause restore BACKUP HOME` puts a backup back, `cause restore HOME --accept-older` takes this state"


def current_mark(database: Database, vault: Vault) -> Mark:
    """Return the state of a ledger, as an anchor names it."""
    text = settings.recorded(database, vault)
    size, root = TransparencyLog(database, lambda: vault.key(DEVICE_KEY)).head()
    return Mark(database.change, size, root, NO_DIGEST if text is None else settings.digest(text))


def check_not_rolled_back(layout: Layout, vault: Vault, database: Database, anchored: Mark | None) -> None:
    """Refuse a ledger that is older than the anchor, or whose log is another one.

    Parameters
    ----------
    layout
        Names the home in the message.
    vault, database
        The keys and the ledger.
    anchored
        The anchor's mark; None if there is no anchor.

    Raises
    ------
    HomeError
        Naming both states, and the ways out. Nothing was changed.
    """
    problem = find_rollback(vault, database, anchored)
    if problem is not None:
        raise HomeError(f"{str(layout.folder)!r}: {problem}: {REMEDY}")


def find_rollback(vault: Vault, database: Database, anchored: Mark | None) -> str | None:
    """Return what is wrong with a ledger, compared with the anchor; None if it may be believed."""
    change = database.change
    if anchored is None:
        return (
            "the anchor beside its keys is lost, so nobody can tell whether the ledger is the newest"
            if change
            else None
        )
    if _supersedes(database, vault, anchored):
        return None
    if change < anchored.change:
        return (
            f"the ledger is older than its keys know, change {change} of {anchored.change}: its write-ahead log was "
            "lost or damaged, or an old copy was put back"
        )
    if not anchored.log_size:
        return None
    try:
        log = TransparencyLog(database, lambda: vault.key(DEVICE_KEY))
        if log.begins_with(anchored.log_size, anchored.log_root):
            return None
        size = log.size
    except LogError as error:
        return error.reason
    return f"the log of {size} entries does not begin with the {anchored.log_size} entries that its keys know"


def supersede(database: Database, vault: Vault, anchored: Mark) -> None:
    """Make this ledger a newer change than the anchor's, although it did not grow from it; call it in a transaction."""
    database.set("change", max(database.change, anchored.change))
    database.set(SUPERSEDES, vault.seal(DEVICE_KEY, anchored.packed(), SUPERSEDES.encode()))


def _supersedes(database: Database, vault: Vault, anchored: Mark) -> bool:
    if not database.row("SELECT 1 FROM sqlite_schema WHERE name='meta'"):
        return False
    sealed = database.get(SUPERSEDES)
    try:
        return sealed is not None and (
            vault.open_sealed(DEVICE_KEY, bytes(sealed), SUPERSEDES.encode()) == anchored.packed()
        )
    except (VaultError, TypeError, struct.error):
        return False
