"""A home: everything a device is, on a disk, through kills and power cuts.

SQLite decides what is there. Files of samples and sub-models are written and synced before a transaction names them,
and keys are destroyed after the transaction that deletes their names; any key or file that a crash leaves unnamed is
destroyed by the next opening. So every change is one transaction, and before or after it the home is whole.
"""

import json
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, cast

import numpy as np

from cause.common.units import format_bytes, parse_bytes
from cause.common.zeroize import Sweeper, overwrite_freed_memory
from cause.device import settings
from cause.device.config import Settings, parse_retain
from cause.device.receipts.receipts import Receipts
from cause.device.store import forgetting, ingest, loading, pending, repeats, upgrade
from cause.device.store.age import current_mark, refuse_older
from cause.device.store.anchor import Anchor, remove_partial
from cause.device.store.blocks import Files
from cause.device.store.clock import Clock
from cause.device.store.database import Connect, Database, connect
from cause.device.store.directory import Directory
from cause.device.store.disk import Disk
from cause.device.store.forked import Unusable, unwatch, watch
from cause.device.store.garbage import Garbage
from cause.device.store.gc import clean, named_keys
from cause.device.store.inbox import Called, Inbox, Intake
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.store.ledger import HomeLedger
from cause.device.store.listing import page
from cause.device.store.lock import Lock
from cause.device.store.queries import Queries
from cause.device.store.relayout import random_permutation
from cause.device.store.reserve import Reserve
from cause.device.store.seals import seal_identity
from cause.device.store.shelf import HomeShelf
from cause.device.store.stored_upload import BlockStore
from cause.device.vault import KeySource, Vault
from cause.device.vault.secrets_in_memory import wipe
from cause.engine.arrays import ArrayUpload
from cause.engine.journal import Journal
from cause.engine.learner import Learner
from cause.engine.ledger import Selection
from cause.engine.memory import Memory
from cause.engine.plan import ShardPlan
from cause.engine.presets import System
from cause.engine.requests import Request
from cause.engine.results import HeldSample
from cause.engine.samples import Piece, SegmentKey, Upload
from cause.errors import BudgetError, HomeError, LogError, VaultError
from cause.learners.deferred import DeferredLearner

DEADLINE_S = 30 * 24 * 3600.0
"""One month, as data protection law asks."""
BROKEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, struct.error)
"""What code raises when a stored value is damaged, and so of another type or size than it was."""
READER_TRIES = 8
"""How often a reader looks again while another process changes keys and tables."""


class Home(Journal):
    """The durable side of a device. `create` makes one; the constructor opens it.

    Parameters
    ----------
    folder
        The home's folder.
    source
        Where the master key comes from.
    read_only
        Open the home beside the process that writes it; nothing is changed.
    check_config
        Refuse a `cause.toml` that was edited; without it, the settings that the ledger accepted are taken.
    storage_bytes
        The most bytes that samples may take; None is without limit.
    deadline_s
        How long after its arrival a request must be repaired.
    retain
        For how many rounds, or for how many seconds, samples are kept; None is for ever.
    disk, connect, clock
        How files, SQLite and the time are reached; tests replace them.

    Raises
    ------
    HomeError
        If the folder is not a home, is in use, is damaged, or is older than its anchor.
    VaultError
        If the master key is not the one that the home was made with, or the keys are damaged.
    """

    recipe = b""
    environment = ""
    memory: Memory
    """The memory that holds the sub-models; the device sets it."""
    system: System
    """What the home is composed of; `cause.device.attach.attach` sets it."""
    permutation = staticmethod(random_permutation)

    def __init__(
        self,
        folder: str | os.PathLike[str],
        source: KeySource,
        *,
        read_only: bool = False,
        check_config: bool = True,
        storage_bytes: int | None = None,
        deadline_s: float = DEADLINE_S,
        retain: tuple[int | None, float | None] = (None, None),
        disk: Disk | None = None,
        connect: Connect = connect,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.layout = layout = Layout(os.fspath(folder))
        self.read_only, self.storage_bytes, self.deadline_s = read_only, storage_bytes, deadline_s
        self.disk, self.retain = disk or Disk(), retain
        layout.check()
        self._process = os.getpid()
        self._lock = None if read_only else Lock(layout.lock)
        self.garbage = Garbage()
        self._reserve = Reserve(layout.reserve, self.disk)
        watch(self)
        self._sweeper = Sweeper()
        if not read_only:
            overwrite_freed_memory()
        try:
            if not read_only:
                self._reserve.make_room()
            self._open_vault = partial(Vault.open, layout.vault, source, self.disk, read_only=read_only)
            self._version: int | None = None  # of what a reader has loaded
            self.vault = self._open_vault()
            self._anchor = self._open_anchor()
            self.database = Database(
                layout.ledger, vault=self.vault, read_only=read_only, connect=connect, disk=self.disk,
                check=self._check_age,
            )  # fmt: skip
            self.database.after_commit += [self.garbage.committed, self._advance_anchor]
            self.queries = Queries(self.database)
            self.time = Clock(self.database, clock)
            self.clock = self.time.now
            self.store_ = BlockStore(Files(layout.blocks, self.disk), lambda name: self.vault.key(name))
            self.shelf = HomeShelf(Files(layout.sub_models, self.disk), self.vault)
            self.ledger, self.directory = HomeLedger(self), Directory()
            self.receipts, self.inbox = Receipts(self), Inbox(self)
            self.config = settings.in_force(self) if check_config else settings.accepted(self)
            if not read_only:
                self.receipts.note_head()
                if self.database.durable:
                    self._advance_anchor()
                clean(self)
                self._reserve.learn_sizes(self.database)
                with suppress(HomeError):
                    self._reserve.refill()
        except BaseException:
            self.close()
            raise

    def _open_anchor(self) -> Anchor | None:
        """The anchor; None in a home of an early version, which had none."""
        if not self.read_only:
            remove_partial(self.layout.vault, self.disk)
        try:
            return Anchor(self.layout.vault, self.vault, self.disk, read_only=self.read_only)
        except FileNotFoundError:
            return None

    def _check_age(self, database: Database) -> None:
        """Refuse a ledger that is older than the anchor, before anything is changed or destroyed.

        The anchor was read before the ledger, and names only what was committed: a writer cannot come in between.
        """
        refuse_older(self.layout, self.vault, database, None if self._anchor is None else self._anchor.mark)
        if self._anchor is None and not self.read_only:  # before the first change that it counts
            Anchor.create(self.layout.vault, self.vault, self.disk)
            self._anchor = Anchor(self.layout.vault, self.vault, self.disk)

    def _advance_anchor(self) -> None:
        """Write the last commit into the anchor. If the disk refuses, the next commit or erasure tries again."""
        if self._anchor is not None:
            with suppress(HomeError, VaultError, LogError):
                mark = current_mark(self.database, self.vault)
                if mark != self._anchor.mark:
                    self._anchor.write(mark)

    def _refill(self) -> None:
        with suppress(HomeError, OSError):
            self._reserve.refill(leave=0)

    def apply(self, chosen: Settings) -> None:
        """Apply settings: the room for samples, the deadline and the retention."""
        self.storage_bytes = None if chosen.storage is None else parse_bytes(chosen.storage)
        self.deadline_s, self.retain = chosen.deadline_days * 86_400, parse_retain(chosen.retain)

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        source: KeySource,
        disk: Disk | None = None,
        config: bytes | None = None,
    ) -> None:
        """Make the folders, the vault and the tables of a new home.

        Parameters
        ----------
        folder
            Where it is made.
        source
            Where its master key comes from.
        disk
            How files are written; tests replace it.
        config
            The text of its `cause.toml`, which the ledger then accepts.

        Raises
        ------
        HomeError
            If a folder or file cannot be made.
        """
        layout, disk = Layout(os.fspath(folder)), disk or Disk()
        try:
            for path in (layout.folder, layout.blocks, layout.sub_models):
                if not disk.exists(path):
                    disk.make_folder(path)
                    disk.sync_folder(path.parent)
        except OSError as error:
            raise HomeError(f"cannot make a home in {str(layout.folder)!r}: {error.strerror}") from None
        with Vault.create(layout.vault, source, disk) as vault:
            vault.new_key(DEVICE_KEY)
            Anchor.create(layout.vault, vault, disk)
            database = Database(layout.ledger, vault=vault, create=True)
            try:
                if config is not None:
                    with database.transaction():
                        settings.record(database, vault, config)
            finally:
                database.close()
        disk.sync_folder(layout.folder)

    def close(self) -> None:
        """Close all files and release the lock, also if one of the files cannot be closed.

        In a forked process this does nothing: files and lock are its parent's.
        """
        if os.getpid() != self._process:
            return
        unwatch(self)
        with ExitStack() as parts:
            parts.callback(self._sweeper.close)
            if self._lock is not None:
                parts.callback(self._lock.close)
                parts.callback(self._refill)  # once the ledger has given its write-ahead log back
            for part in ("_anchor", "vault", "database"):
                if getattr(self, part, None) is not None:
                    parts.callback(getattr(self, part).close)

    def forked(self) -> None:
        """Make the home unusable in a forked process: it must neither write nor keep the lock."""
        if self._lock is not None:
            self._lock.close()
        if hasattr(self, "shelf"):
            self.shelf.vault = cast(Vault, Unusable(self.layout.folder))
        if hasattr(self, "vault"):
            self.vault = cast(Vault, Unusable(self.layout.folder))
        if hasattr(self, "database"):
            self.database.forked()

    # Opening

    def load(self, memory: Memory) -> None:
        """Load ledger and memory from the tables; HomeError if they are damaged."""
        try:
            loading.load(self, memory)
        except BROKEN as error:
            raise HomeError(
                f"the ledger of {str(self.layout.folder)!r} holds a value that makes no sense "
                f"({type(error).__name__}): `cause doctor --home` tells more"
            ) from None

    def refresh(self, memory: Memory) -> bool:
        """Load again, in a reader, if another process has written since the last time; return whether it has.

        Raises
        ------
        HomeError, VaultError
            If keys and tables do not fit together after several tries.
        """
        for attempt in range(READER_TRIES):
            (version,) = self.database.row("PRAGMA data_version")
            if version == self._version:
                return False
            try:
                self.vault.close()
                self.vault = self._open_vault()
                self.store_.clear()
                self.shelf.vault = self.vault
                self.load(memory)
                if all(name in self.vault for name in self.shelf.names.values()):
                    break
            except (HomeError, VaultError):  # keys and tables may have been read at two different moments
                if attempt == READER_TRIES - 1:
                    raise
            time.sleep(0.001 * 2**attempt)
        self._version = version
        return True

    def check_recipe(self, learner: Learner) -> None:
        """Refuse a learner whose recipe is not that of the stored sub-models; a deferred one once it is loaded.

        Raises
        ------
        HomeError
            If the recipes differ.
        """
        recorded = self.database.get("recipe")
        if isinstance(learner, DeferredLearner) and not learner.is_loaded:
            learner.when_loaded = self.check_recipe
            self.recipe, self.environment = learner.recipe_digest, str(self.database.get("environment", ""))
            return
        self.recipe, self.environment = learner.recipe_digest, learner.environment
        if recorded is None and not self.read_only:
            with self.database.transaction():
                self.database.set("recipe", learner.recipe_digest)
                # for commands that do not load the learner
                self.database.set("sub_model_bytes", learner.sub_model_bytes)
                self.database.set("environment", learner.environment)
                self.database.set("learner_notes", json.dumps(learner.notes))
        elif recorded is not None and bytes(recorded) != learner.recipe_digest:
            raise HomeError(
                f"the learner's recipe is not that of the sub-models in {str(self.layout.folder)!r}: open it with the "
                "same recipe, or make a new home"
            )
        elif not self.read_only and self.database.get("environment") != learner.environment:
            with self.database.transaction():
                self.database.set("environment", learner.environment)

    # A round arrives

    @property
    def stored_bytes(self) -> int:
        """How many bytes the samples take on the disk, staged ones included."""
        (size,) = self.database.row(
            "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM blocks UNION ALL SELECT bytes FROM staged)"
        )
        return int(size)

    def store(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]], intake: Intake) -> None:
        """Write a round's samples and name them in the tables, durably; see `cause.device.store.ingest.store`."""
        ingest.store(self, round_, segments, intake)

    def shuffled(self, upload: Upload) -> Upload:
        """The upload with random positions, so that a missing position later says nothing about the sample."""
        if not isinstance(upload, ArrayUpload):
            return upload
        return upload.shuffled(self.permutation(len(upload.positions)))

    def upgrade(self) -> None:
        """Finish what a migration or a restore left to do; see `cause.device.store.upgrade`."""
        upgrade.upgrade(self)

    def samples_of(self, user: str, round_: int | None = None) -> list[HeldSample]:
        """All samples of a user, or those of a round; staged ones come last."""
        return page(self, user, round_=round_)[0]

    def call_of(self, idempotency_key: str) -> str:
        """The id under which a call of `learn` with this key is remembered."""
        return repeats.call_of(self, idempotency_key)

    def same_rows(self, earlier: Called, uploads: Mapping[str, Any] | Sequence[Upload]) -> dict[str, tuple[str, ...]]:
        """The handles that an earlier call of `learn` gave these rows; InputError if they are not the same rows."""
        return repeats.same_rows(self, earlier, uploads)

    def holds_name(self, user: str) -> bool:
        """Whether something is held under this name, written in exactly this way."""
        return self.directory.pseudonym(user) is not None or bool(self.inbox.of({user}))

    def write(self, keys: Mapping[bytes, bytes], contents: Sequence[tuple[bytes, bytes]]) -> None:
        """Write keys into the vault, and then the files that are sealed under them.

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
            self.store_.files.write(contents)
        except BaseException:
            self.garbage.update(keys)
            with suppress(HomeError):  # a full disk needs the room at once
                self.store_.files.remove(list(keys))
            raise

    def refuse_what_cannot_fit(self, more: int, largest: int | None = None) -> None:
        """Refuse samples for which there is no room beside the reserve that forgetting needs.

        Parameters
        ----------
        more
            How many bytes all new samples take.
        largest
            How many bytes the largest upload takes; `more` if it is not known.

        Raises
        ------
        BudgetError
            If `storage` is used up.
        HomeError
            If the disk is too full.
        """
        if self.storage_bytes is not None and self.stored_bytes + more > self.storage_bytes:
            raise BudgetError(
                f"the samples need {format_bytes(more)}, but of {format_bytes(self.storage_bytes)} for samples "
                f"{format_bytes(self.stored_bytes)} are used: forget some, or raise `storage`"
            )
        self._reserve.require(self.database, more, more if largest is None else largest)

    def discard(self, names: Sequence[bytes]) -> None:
        """Remove files whose samples were copied elsewhere; their keys wait for the next erasure."""
        self.garbage.update(names)
        for name in names:
            self.store_.drop(name)
        self.store_.files.remove(names)

    def destroy(self) -> None:
        """Destroy the keys that no table names any more, so that no copy of their files can be read; then the files.

        Names of a failed transaction stay until another one was committed (`cause.device.store.garbage`).

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. The names stay garbage, and the next call tries again.
        """
        names = self.garbage.to_destroy(partial(named_keys, self.database))
        if not names:
            return
        self.database.harden()
        self._advance_anchor()
        if self._anchor is not None:
            self._anchor.sync()
        if self.vault.erase(names) and self._anchor is not None:
            self._anchor.synced()  # with the keys
        self._sweeper.soon()
        for name in names:  # after their keys: a thread that reads one meanwhile looks for its key once more
            self.store_.drop(name)
        for files in (self.store_.files, self.shelf.files):
            files.remove(list(names))
        self.garbage.destroyed(names)
        self.database.scrub()

    # A sub-model is trained, or found damaged

    def trained(self, segment: SegmentKey, evicted: Sequence[SegmentKey] = (), retrained: int = 0) -> None:
        """Record a new sub-model, and delete evicted ones; see `Journal.trained`."""
        name, sub_model, to_delete = self.shelf.names[segment], self.memory[segment], self.shelf.to_delete()
        with self.database.transaction():
            self.delete_sub_models(to_delete)
            for head in self.memory.apart():  # some may have lost their slot to this sub-model
                self.database.run(
                    "UPDATE sub_models SET slot=? WHERE key=?", [self.memory.slot_of(head), self.shelf.names[head]]
                )
            self.database.run(
                "INSERT INTO sub_models VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [*segment, name, seal_identity(self.vault, name, sub_model.identity), sub_model.size_bytes,
                 sub_model.environment, self.memory.slot_of(segment)],
            )  # fmt: skip
            self.database.run("UPDATE segments SET trained=1 WHERE (shard, round, slice)=(?, ?, ?)", list(segment))
            if retrained:
                self.database.run(
                    "INSERT INTO retrained VALUES (?, ?) ON CONFLICT (round) DO UPDATE SET "
                    "samples=samples+excluded.samples",
                    [self.ledger.round, retrained],
                )
        self._remove_sub_models(to_delete)

    def discarded(self, key: SegmentKey) -> None:
        """Delete a damaged sub-model; its shard waits for training from now on."""
        if self.read_only:
            return  # the process that writes will find the damage too
        to_delete = self.shelf.to_delete()
        with self.database.transaction():
            self.delete_sub_models(to_delete)
            self.database.run("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", [key.shard, self.clock()])
        self._remove_sub_models(to_delete)

    def delete_sub_models(self, names: Sequence[bytes]) -> None:
        """Delete the rows of evicted or dropped sub-models, and store the policy's state; call it in a transaction."""
        self.database.many("DELETE FROM sub_models WHERE key=?", [[name] for name in names])
        self.database.set("policy", json.dumps(self.memory.policy.state()))

    def _remove_sub_models(self, names: Sequence[bytes]) -> None:
        """After that transaction: remove their files. Their keys wait for the next erasure, because an
        eviction does not have to forget anything."""
        self.shelf.deleted(names)
        self.garbage.update(names)
        self.shelf.files.remove(names)

    # Requests

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        """Record requests durably and return their ids; see `cause.device.store.pending.accept`."""
        self._reserve.make_room()
        return pending.accept(self, requests, ids)

    def staged(self, user: str) -> int:
        """How many samples of a user are staged."""
        return sum(upload.samples for upload in self.inbox.like(user))

    def staged_handles(self, user: str) -> set[str]:
        """The handles of a user's staged samples."""
        return self.inbox.handles_of(user)

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Shape and type of the oldest staged input; None if nothing is staged."""
        return self.inbox.kind()

    def expired(self) -> list[Request]:
        """Requests for all samples that are older than the home keeps them."""
        return pending.expired(self)

    def trust_clock(self) -> float:
        """Accept the wall clock's time after it jumped; return by how many seconds the home's time changed."""
        changed = self.time.trust(self.deadline_s)
        self.inbox.load()
        return changed

    def accepted(self) -> list[tuple[str, Request]]:
        """The requests that were accepted and have not taken effect, with their ids, oldest first."""
        return pending.accepted(self)

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        """Delete samples and tainted sub-models; see `cause.device.store.forgetting.effect`."""
        self._reserve.make_room()
        staged = forgetting.effect(self, ids, selection, plans, dropped)
        with suppress(HomeError):  # the samples are deleted all the same
            self._reserve.refill()
        return staged

    def failed(self, errors: Mapping[int, str]) -> None:
        """Record which shards' training fails, with the type of the last error of each."""
        pending.failed(self, errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        """Record the end of a training after which only these shards wait, and sign the receipts of repairs."""
        self._reserve.make_room()  # the receipts of a repair belong to forgetting
        pending.caught_up(self, behind)
        with suppress(HomeError):
            self._reserve.refill()
