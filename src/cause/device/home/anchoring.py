"""Keeping the anchor up to date: it is compared with the ledger at the opening, and follows every commit."""

from contextlib import suppress

from cause.device.disk import Disk
from cause.device.home.rollback_check import check_not_rolled_back, current_mark
from cause.device.store.anchor import Anchor, remove_partial
from cause.device.store.database import Database
from cause.device.store.layout import Layout
from cause.device.vault import Vault
from cause.errors import HomeError, LogError, VaultError


class AnchorKeeper:
    """The anchor of a home that is open.

    A home of an early version has none; the first opening for writing makes it.

    Parameters
    ----------
    layout, vault, disk
        Where the anchor is, the keys that it is sealed with, and how files are reached.
    read_only
        Open it for reading alone.

    Raises
    ------
    HomeError
        If there is an anchor and neither of its copies can be used.
    """

    def __init__(self, layout: Layout, vault: Vault, disk: Disk, *, read_only: bool) -> None:
        self._layout, self._vault, self._disk, self._read_only = layout, vault, disk, read_only
        self._anchor: Anchor | None = None
        if not read_only:
            remove_partial(layout.vault, disk)
        with suppress(FileNotFoundError):
            self._anchor = Anchor(layout.vault, vault, disk, read_only=read_only)

    def check(self, database: Database) -> None:
        """Refuse a ledger that is older than the anchor, before anything is changed or destroyed.

        The anchor was read before the ledger, and names only what was committed: a writer cannot come in between.
        """
        anchored = None if self._anchor is None else self._anchor.mark
        check_not_rolled_back(self._layout, self._vault, database, anchored)
        if self._anchor is None and not self._read_only:  # before the first change that it counts
            Anchor.create(self._layout.vault, self._vault, self._disk)
            self._anchor = Anchor(self._layout.vault, self._vault, self._disk)

    def advance(self, database: Database) -> None:
        """Write the last commit into the anchor. If the disk refuses, the next commit or erasure tries again."""
        if self._anchor is not None:
            with suppress(HomeError, VaultError, LogError):
                mark = current_mark(database, self._vault)
                if mark != self._anchor.mark:
                    self._anchor.write(mark)

    def synced(self) -> None:
        """Note that the last record is durable: the vault's erasure has synced it with the keys."""
        if self._anchor is not None:
            self._anchor.synced()

    def close(self) -> None:
        """Close the file."""
        if self._anchor is not None:
            self._anchor.close()
