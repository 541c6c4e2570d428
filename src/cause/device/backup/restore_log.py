"""Continuing the log of a home whose ledger is replaced by a backup's.

Entries after the backup are read from the damaged ledger as far as possible. Its end may be lost without a trace, so
the restore itself becomes the next entry: the restored log differs from the lost one, and a client with a checkpoint of
the lost one sees that when it asks for a consistency proof.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

from cause.common.timestamps import time_text
from cause.common.version import __version__
from cause.device.log import open_note
from cause.device.receipts.transparency_log import RESTORE, TransparencyLog
from cause.device.store.database import Database, connect, is_damage
from cause.device.store.layout import DEVICE_KEY
from cause.device.store.log_table import raw_entry
from cause.device.vault import Vault
from cause.errors import HomeError, LogError

FORMAT = 1


@dataclass(frozen=True)
class RestoredLog:
    """Where the entries of a restored log come from."""

    backup: int
    """How many are the backup's."""
    salvaged: int
    """How many later ones were read from the damaged ledger."""
    entry: int
    """The number of the entry that records the restore."""


def append_restored_entries(
    database: Database, vault: Vault, damaged: Path | None, *, made: float, now: float, about: dict[str, Any]
) -> RestoredLog:
    """Append the later entries of the damaged ledger, and one that records the restore; call it in a transaction.

    Parameters
    ----------
    database, vault
        The restored ledger, and the vault with the key that signs.
    damaged
        The damaged ledger; None if there is none, because an older state was accepted.
    made
        When the backup was made.
    now
        The time of the restore.
    about
        Further contents of the entry.

    Raises
    ------
    HomeError
        If the damaged ledger cannot be read now: it may be whole.
    """
    log, name = TransparencyLog(database, lambda: vault.key(DEVICE_KEY)), token_hex(16)
    size, later = log.size, [] if damaged is None else list(_later(damaged, log))
    log.extend(later)
    restored = RestoredLog(size, len(later), log.size)
    body = {
        "format": FORMAT, "kind": RESTORE, "request": name, "served_with": name, "received": time_text(now),
        "in_effect": time_text(now), "backup_made": time_text(made), "backup_entries": restored.backup,
        "salvaged_entries": restored.salvaged, "shards": [], "software": f"cause {__version__}", **about,
    }  # fmt: skip
    log.append([(name, RESTORE, body)])
    return restored


def _later(damaged: Path, log: TransparencyLog) -> Iterator[tuple[str, str, bytes]]:
    """Yield the damaged ledger's entries after this log's, up to the first that is damaged or not signed."""
    if not damaged.is_file():
        return
    try:
        yield from _entries(damaged, log)
    except (LogError, TypeError, ValueError, KeyError):
        return
    except sqlite3.Error as error:
        if not is_damage(error):
            raise HomeError(f"cannot read the ledger {str(damaged)!r}: {error}: try again") from None


def _entries(damaged: Path, log: TransparencyLog) -> Iterator[tuple[str, str, bytes]]:
    with contextlib.closing(connect(damaged, True)) as ledger:
        for number in count(max(0, log.size - 1)):
            row = raw_entry(ledger, number)
            if row is None:
                return
            if number == log.size - 1:
                if row != log.entry(number):
                    return  # the ledger was restored after this backup: the two logs differ
                continue
            body = json.loads(open_note(bytes(row[2]), [log.verifier]))
            if (body["request"], body["kind"]) != row[:2]:
                return
            yield row
