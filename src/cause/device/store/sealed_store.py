"""Files, keys and garbage of a home: what is sealed, how it is written, and how it is destroyed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, cast

from cause.common.zeroize import Sweeper
from cause.device.disk import Disk
from cause.device.store.blocks import Files
from cause.device.store.database import Database
from cause.device.store.forked import Unusable
from cause.device.store.garbage import Garbage
from cause.device.store.layout import Layout
from cause.device.store.named_keys import named_keys
from cause.device.store.stored_upload import BlockStore
from cause.device.vault import Vault
from cause.device.vault.secrets_in_memory import wipe
from cause.errors import HomeError


class LastCommit(Protocol):
    """A record of the ledger's last commit beside the keys; see `cause.device.home.anchoring`."""

    def advance(self, database: Database) -> None:
        """Write the last commit into the record."""

    def synced(self) -> None:
        """Note that the record is durable: the vault's erasure has synced it with the keys."""


class SealedStore:
    """The sealed samples and sub-models of a home, with their keys.

    A file is written before a transaction names it, and its key is destroyed after the transaction that deletes its
    name. Between the two its name is garbage.

    Parameters
    ----------
    layout, disk
        Where files are, and how they are reached.
    open_vault
        Opens the vault; a reader opens it again when another process has changed the home.
    database
        The ledger, which decides which names are in use.
    anchor
        The anchor: it must name the last commit before a key is destroyed.
    vault
        The vault as it is open now.
    check
        Raises a HomeError if the home was moved or replaced since it was opened.
    """

    def __init__(
        self,
        layout: Layout,
        disk: Disk,
        open_vault: Callable[[], Vault],
        database: Database,
        anchor: LastCommit,
        vault: Vault,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.layout, self.disk, self.vault, self.garbage = layout, disk, vault, Garbage()
        self.blocks = BlockStore(Files(layout.blocks, disk, check), lambda name: self.vault.key(name))
        self.sub_models = Files(layout.sub_models, disk, check)
        self._open_vault, self._database, self._anchor = open_vault, database, anchor
        self._sweeper = Sweeper()

    def reopen(self) -> None:
        """Read the keys again, in a reader: another process has changed the home."""
        self.vault.close()
        self.vault = self._open_vault()
        self.blocks.clear()

    def write(self, keys: Mapping[bytes, bytes], contents: Sequence[tuple[bytes, bytes]]) -> None:
        """Write keys into the vault, and then the files of samples that are sealed under them.

        The keys in `keys` are overwritten in memory, also after an error: from here on only the vault has them.

        Parameters
        ----------
        keys
            New keys by name.
        contents
            Sealed files: name and bytes.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. Keys and files that were written are garbage then.
        """
        if not keys:
            return
        try:
            self.vault.put_many(keys)
        finally:
            wipe(*keys.values())
        try:
            self.blocks.files.write(contents)
        except BaseException:
            self.garbage.update(keys)
            with suppress(HomeError):  # a full disk needs the room at once
                self.blocks.files.remove(list(keys))
            raise

    def discard_blocks(self, names: Sequence[bytes]) -> None:
        """Remove files whose samples were copied elsewhere; their keys wait for the next erasure."""
        self.garbage.update(names)
        for name in names:
            self.blocks.drop(name)
        self.blocks.files.remove(names)

    def discard_sub_models(self, names: Sequence[bytes]) -> None:
        """Remove the files of evicted sub-models; their keys wait for the next erasure.

        An eviction does not have to forget anything, so it need not wait for the disk to destroy a key.
        """
        self.garbage.update(names)
        self.sub_models.remove(names)

    def destroy(self) -> None:
        """Destroy the keys that no table names any more, so that no copy of their files can be read; then the files.

        Names of a failed transaction stay until another one was committed (`cause.device.store.garbage`).

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. The names stay garbage, and the next call tries again.
        """
        names = self.garbage.to_destroy(partial(named_keys, self._database))
        if not names:
            return
        self._database.harden()
        self._anchor.advance(self._database)
        if self.vault.erase(names):
            self._anchor.synced()  # with the keys
        self._sweeper.soon()
        for name in names:  # after their keys: a thread that reads one meanwhile looks for its key once more
            self.blocks.drop(name)
        for files in (self.blocks.files, self.sub_models):
            files.remove(list(names))
        self.garbage.destroyed(names)
        self._database.scrub()

    def disable_in_fork(self) -> None:
        """Make the keys unusable in a forked process."""
        self.vault = cast(Vault, Unusable(self.layout.folder))

    def close(self) -> None:
        """Close the vault, and sweep memory if that is still due. The caller closes anchor and database."""
        try:
            self.vault.close()
        finally:
            self._sweeper.close()
