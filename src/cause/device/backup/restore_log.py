"""The log of a home whose ledger is replaced by a backup's: it goes on, and says so.

What was logged after the backup is read from the damaged ledger as far as it can be. Its end may be lost and leave no
trace, so the restore itself becomes the next entry: the log then never passes for the one that was lost, and whoever
holds a checkpoint of that one finds out by asking for a proof.
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

from cause.common.version import __version__
from cause.device.log import open_note
from cause.device.receipts.log import RESTORE, Log, time_text
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
    """So many are the backup's."""
    salvaged: int
    """Later ones that the damaged ledger still had."""
    entry: int
    """The number of the one that records the restore."""


def carry_on(
    database: Database, vault: Vault, damaged: Path | None, *, made: float, now: float, about: dict[str, Any]
) -> RestoredLog:
    """In a transaction: let the log go on where that of the damaged ledger can be read, and log the restore.

    Without a damaged ledger the log goes on with its own entries: an older state was accepted.
    """
    log, name = Log(database, lambda: vault.key(DEVICE_KEY)), token_hex(16)
    size, later = log.size, [] if damaged is None else list(_later(damaged, log))
    log.extend(later)
    found = RestoredLog(size, len(later), log.size)
    body = {
        "format": FORMAT, "kind": RESTORE, "request": name, "served_with": name, "received": time_text(now),
        "in_effect": time_text(now), "backup_made": time_text(made), "backup_entries": found.backup,
        "salvaged_entries": found.salvaged, "shards": [], "software": f"cause {__version__}", **about,
    }  # fmt: skip
    log.append([(name, RESTORE, body)])
    return found


def _later(damaged: Path, log: Log) -> Iterator[tuple[str, str, bytes]]:
    """What the damaged ledger logged after this log's entries, as long as it can be read and the device signed it."""
    if not damaged.is_file():
        return
    try:
        yield from _entries(damaged, log)
    except (LogError, TypeError, ValueError, KeyError):
        return
    except sqlite3.Error as error:
        if not is_damage(error):
            raise HomeError(f"cannot read the ledger {str(damaged)!r}: {error}: try again") from None


def _entries(damaged: Path, log: Log) -> Iterator[tuple[str, str, bytes]]:
    with contextlib.closing(connect(damaged, True)) as ledger:
        for number in count(max(0, log.size - 1)):
            row = raw_entry(ledger, number)
            if row is None:
                return
            if number == log.size - 1:
                if row != log.entry(number):
                    return  # an earlier restore lies between the two
                continue
            told = json.loads(open_note(bytes(row[2]), [log.verifier]))
            if (told["request"], told["kind"]) != row[:2]:
                return
            yield row
