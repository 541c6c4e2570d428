"""A home: everything a device is, on a disk, through kills and power cuts.

SQLite decides what is there. Files of samples and sub-models are written and synced before a transaction names them,
and keys are destroyed after the transaction that deletes their names; any key or file that a crash leaves unnamed is
destroyed by the next opening. So every change is one transaction, and before or after it the home is whole.
"""

import json
import os
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cause.common.units import parse_bytes
from cause.common.zeroize import overwrite_freed_memory
from cause.device import settings
from cause.device.advice import doctor_advice
from cause.device.config import Settings, parse_retain
from cause.device.disk import Disk
from cause.device.home.anchoring import AnchorKeeper
from cause.device.home.forgetting import Forgetting
from cause.device.home.pending import Pending
from cause.device.receipts.receipts import Receipts, TrainingContext
from cause.device.store import idempotency
from cause.device.store.anchor import Anchor
from cause.device.store.clock import Clock
from cause.device.store.database import Connect, Database, connect
from cause.device.store.directory import Directory
from cause.device.store.forked import cancel_disable_after_fork, disable_after_fork
from cause.device.store.garbage import Garbage
from cause.device.store.gc import clean
from cause.device.store.inbox import CallResult, Inbox
from cause.device.store.ingest import Ingest
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.store.leases import Leases
from cause.device.store.ledger import HomeLedger
from cause.device.store.listing import Listing
from cause.device.store.loading import Loader
from cause.device.store.lock import Lock
from cause.device.store.queries import Queries
from cause.device.store.relayout import random_permutation
from cause.device.store.reserve import Reserve
from cause.device.store.retrying import retried
from cause.device.store.sealed_store import SealedStore
from cause.device.store.shelf import HomeShelf
from cause.device.store.stored_sub_models import StoredSubModels
from cause.device.store.tables import Tables
from cause.device.store.upgrade import Upgrade
from cause.device.vault import KeySource, Vault
from cause.engine.arrays import ArrayUpload
from cause.engine.journal import Journal
from cause.engine.learner import Learner
from cause.engine.ledger import Selection
from cause.engine.memory import Memory, Policy
from cause.engine.plan import ShardPlan
from cause.engine.presets import System
from cause.engine.requests import Request
from cause.engine.results import HeldSample
from cause.engine.samples import SegmentKey, Upload
from cause.errors import HomeError, VaultError
from cause.learners.deferred import DeferredLearner

DEADLINE_S = 30 * 24 * 3600.0
"""One month, as data protection law asks."""
BROKEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, struct.error)
"""What code raises when a stored value is damaged, and so of another type or size than it was."""
READER_TRIES = 8
"""How often a reader looks again while another process changes keys and tables."""


@dataclass
class _OpenedParts:
    """The parts of a home that are open; while it is being opened, or when that failed, some of them."""

    vault: Vault | None = None
    anchor: AnchorKeeper | None = None
    database: Database | None = None
    store: SealedStore | None = None

    def close(self) -> None:
        """Close the ledger, then the keys, then the anchor, also if one of them cannot be closed."""
        with ExitStack() as parts:  # the last one is called first
            for part in (self.anchor, self.store or self.vault, self.database):
                if part is not None:
                    parts.callback(part.close)

    def disable_in_fork(self) -> None:
        """Make keys and ledger unusable in a forked process."""
        if self.store is not None:
            self.store.disable_in_fork()
        if self.database is not None:
            self.database.disable_in_fork()


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
    """The memory that holds the sub-models; see `bind`."""
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
        self.read_only, self.deadline_s, self.retain = read_only, deadline_s, retain
        self.disk = disk = disk or Disk()
        layout.check()
        self._process = os.getpid()
        self._opened = _OpenedParts()
        self._lock = None if read_only else Lock(layout.lock)
        self.directory = Directory()
        self._reserve = Reserve(layout.reserve, disk, self.directory, storage_bytes)
        disable_after_fork(self)
        if not read_only:
            overwrite_freed_memory()
        try:
            if not read_only:
                self._reserve.make_room()
            self._open(source, connect, clock)
            self.config = settings.in_force(self) if check_config else settings.accepted(self)
            if not read_only:
                self._tidy()
        except BaseException:
            self.close()
            raise

    def _open(self, source: KeySource, connect: Connect, wall_clock: Callable[[], float]) -> None:
        """Open keys and tables, and make the services that are given these."""
        layout, disk, read_only = self.layout, self.disk, self.read_only
        open_vault = partial(Vault.open, layout.vault, source, disk, read_only=read_only)
        opened = self._opened
        opened.vault = vault = open_vault()
        opened.anchor = self._anchor = anchor = AnchorKeeper(layout, vault, disk, read_only=read_only)
        opened.database = self.database = database = Database(
            layout.ledger, vault=vault, read_only=read_only, connect=connect, disk=disk, check=anchor.check
        )
        opened.store = self.store = store = SealedStore(
            layout, disk, open_vault, database, anchor, vault, self._check_place
        )
        database.before_transaction.append(self._check_place)
        database.after_commit += [store.garbage.committed, partial(anchor.advance, database)]
        self.tables, self.queries = Tables(database), Queries(database)
        tables = self.tables
        self.time = Clock(database, wall_clock)
        self.shelf = HomeShelf(store)
        self.inbox = Inbox(store, tables, self._reserve, self.time)
        ingest = Ingest(store, tables, self.directory, self.inbox, self._reserve, self.time)
        self.ledger = HomeLedger(store, tables, self.directory, ingest, self.clock)
        self.leases = Leases(database, read_only=read_only)
        self.receipts = Receipts(store, database, self.ledger, self.shelf, self.clock, self._trained, self.leases)
        self.listing = Listing(self.ledger, self.inbox, tables.samples)
        self._pending = Pending(store, tables, self.directory, self.receipts, self.time)
        self._sub_models = StoredSubModels(store, tables, self.shelf)
        self._forgetting = Forgetting(
            store, tables, self.directory, self.ledger, self.inbox, self.receipts, self.time, self.permutation
        )
        self._loader = Loader(store, tables, self.directory, self.ledger, self.inbox, self.shelf)
        self._upgrade = Upgrade(store, tables, self.directory, self.ledger, self.permutation)
        self._version: int | None = None  # of what a reader has loaded

    def _check_place(self) -> None:
        """Refuse to change files if the home's path leads to another folder than at the opening."""
        if self._lock is not None:
            self._lock.check()

    def _tidy(self) -> None:
        """Finish what a crash left and keep room for forgetting, at an opening for writing."""
        self.receipts.note_head()
        if self.database.durable:
            self._anchor.advance(self.database)
        clean(self.store, self.database)
        self._reserve.learn_sizes(self.database)
        with suppress(HomeError):
            self._reserve.refill()

    def clock(self) -> float:
        """Return the trusted time in seconds since 1970: the wall clock, or an estimate if that jumped."""
        return self.time.now()

    @property
    def vault(self) -> Vault:
        """The keys."""
        return self.store.vault

    @property
    def garbage(self) -> Garbage:
        """The names of keys and files that wait to be destroyed."""
        return self.store.garbage

    @property
    def storage_bytes(self) -> int | None:
        """The most bytes that samples may take; None is without limit."""
        return self._reserve.storage_bytes

    def _trained(self) -> TrainingContext:
        return TrainingContext(self.memory, self.recipe, self.environment)

    def _refill(self) -> None:
        with suppress(HomeError, OSError):
            self._reserve.refill(leave=0)

    def apply(self, chosen: Settings) -> None:
        """Apply settings: the room for samples, the deadline and the retention."""
        self._reserve.storage_bytes = None if chosen.storage is None else parse_bytes(chosen.storage)
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
        cancel_disable_after_fork(self)
        with ExitStack() as parts:  # the last one is called first
            if self._lock is not None:
                parts.callback(self._lock.close)
                parts.callback(self._refill)  # once the ledger has given its write-ahead log back
            parts.callback(self._opened.close)

    def disable_in_fork(self) -> None:
        """Make the home unusable in a forked process: it must neither write nor keep the lock."""
        if self._lock is not None:
            self._lock.close()
        self._opened.disable_in_fork()

    # Opening

    @property
    def system(self) -> System:
        """What the home is composed of, as its configuration says."""
        if self.config is None:
            raise HomeError(f"{str(self.layout.folder)!r} has no 'cause.toml': put it back, or restore a backup")
        return self.config.system

    def bind(self, memory: Memory) -> None:
        """Set the memory that holds the sub-models; a device does so before it loads the home."""
        self.memory = memory

    def load(self, memory: Memory) -> None:
        """Load ledger and memory from the tables; a writer also finishes what an error or a crash stopped.

        Raises
        ------
        HomeError
            If the tables are damaged, or do not fit the keys.
        """
        try:
            self._loader.load(memory)
            if not self.read_only:
                self.store.destroy()  # first: no receipt may say that keys are destroyed before they are
                self.receipts.issue()  # those that a crash kept from being signed
        except BROKEN as error:
            raise HomeError(
                f"the ledger of {str(self.layout.folder)!r} holds a damaged value "
                f"({type(error).__name__} while it was read)",
                doctor_advice(self.layout.folder),
            ) from None

    def settle(self) -> None:
        """Make sure that a change whose commit failed cannot appear later; HomeError if the disk refuses."""
        if self.database.unsettled:
            self._reserve.make_room()  # the disk may be full
            self.database.settle()

    def refresh(self, memory: Memory) -> bool:
        """Load again, in a reader, if another process has written since the last time; return whether it has.

        Raises
        ------
        HomeError, VaultError
            If keys and tables do not fit together after several tries.
        """

        def load_again() -> int:
            (version,) = self.database.row("PRAGMA data_version")
            if version != self._version:
                self.store.reopen()
                self.load(memory)
            return int(version)

        def fits(version: int) -> bool:
            return version == self._version or all(name in self.vault for name in self.shelf.names.values())

        version = retried(load_again, tries=READER_TRIES, pause_s=0.001, errors=(HomeError, VaultError), fits=fits)
        changed, self._version = version != self._version, version
        return changed

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

    # Samples

    @property
    def stored_bytes(self) -> int:
        """How many bytes the samples take on the disk, staged ones included."""
        return self.tables.samples.stored_bytes()

    def shuffled(self, upload: Upload) -> Upload:
        """Return the upload with random positions, so that a missing position later says nothing about the sample."""
        if not isinstance(upload, ArrayUpload):
            return upload
        return upload.shuffled(self.permutation(len(upload.positions)))

    def upgrade(self) -> None:
        """Finish what a migration or a restore left to do; see `cause.device.store.upgrade`."""
        self._upgrade.run()

    def samples_of(self, user: str, round_: int | None = None) -> list[HeldSample]:
        """Return all samples of a user, or those of a round; staged ones come last."""
        return self.listing.page(user, round_=round_)[0]

    def call_id(self, idempotency_key: str) -> str:
        """Return the id under which a call of `learn` with this key is remembered."""
        return idempotency.call_id(self.vault, idempotency_key)

    def handles_of_repeat(
        self, earlier: CallResult, uploads: Mapping[str, Any] | Sequence[Upload]
    ) -> dict[str, tuple[str, ...]]:
        """Return the handles that an earlier call of `learn` gave these rows; InputError if the rows differ."""
        pseudonyms = self.tables.samples.pseudonyms_of(earlier.round or 0)
        return idempotency.handles_of_repeat(
            self.ledger, {self.directory.name(p) for p in pseudonyms}, earlier, uploads
        )

    def holds_name(self, user: str) -> bool:
        """Return whether something is held under this name, written in exactly this way."""
        return self.directory.pseudonym(user) is not None or bool(self.inbox.of({user}))

    # Sub-models

    def trained(self, segment: SegmentKey, evicted: Sequence[SegmentKey] = (), retrained: int = 0) -> None:
        """Record a new sub-model, and delete evicted ones; see `Journal.trained`."""
        if retrained:
            self._reserve.make_room()  # a repair belongs to forgetting
        self._sub_models.trained(self.memory, segment, self.ledger.round, retrained)

    def placed(self, environments: Mapping[int, str], dropped: Collection[SegmentKey] = ()) -> None:
        """Record the environments that shards are trained in; see `Journal.placed`."""
        self._sub_models.placed(self.memory, environments, dropped, self.clock())

    def sending(self, shard: int, seconds: float) -> None:
        """Record that samples of a shard leave this machine; see `cause.device.store.leases`."""
        self.leases.sending(shard, seconds)

    def await_workers(self, shards: Collection[int]) -> None:
        """Wait until no worker of an earlier process can hold samples of these shards any more."""
        self.leases.wait(shards)

    def workers_ended(self) -> None:
        """Record that all workers of this process have ended; if it cannot be written, the next erasure waits."""
        with suppress(HomeError):
            self.leases.ended()

    def discarded(self, key: SegmentKey) -> None:
        """Delete a damaged sub-model; its shard waits for training from now on."""
        if not self.read_only:  # the process that writes will find the damage too
            self._sub_models.discarded(self.memory, key.shard, self.clock())

    # Requests

    def reset_policy(self, policy: type[Policy]) -> bool:
        """Delete what a policy has learned from requests; return whether there was anything."""
        return self._sub_models.reset_policy(policy)

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        """Record requests durably and return their ids; see `cause.device.home.pending`."""
        self._reserve.make_room()
        return self._pending.accept(requests, ids, self.deadline_s)

    def staged(self, user: str) -> int:
        """Return how many samples of a user are staged."""
        return sum(upload.samples for upload in self.inbox.of_any_spelling(user))

    def staged_handles(self, user: str) -> set[str]:
        """Return the handles of a user's staged samples."""
        return self.inbox.handles_of(user)

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Return shape and type of the oldest staged input; None if nothing is staged."""
        return self.inbox.kind()

    def expired(self) -> list[Request]:
        """Return requests for all samples that are older than the home keeps them."""
        return self._pending.expired(self.retain)

    def expire_staged(self) -> None:
        """Destroy staged samples that are older than the home keeps them."""
        self.inbox.expire(self.retain[1])

    def trust_clock(self) -> float:
        """Accept the wall clock's time after it jumped; return by how many seconds the home's time changed."""
        changed = self.time.trust(self.deadline_s)
        self.inbox.load()
        return changed

    def accepted(self) -> list[tuple[str, Request]]:
        """Return the requests that were accepted and have not taken effect, with their ids, oldest first."""
        return self._pending.accepted()

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        """Delete samples and tainted sub-models; see `cause.device.home.forgetting` and `Journal.effect`."""
        self._reserve.make_room()
        requests, sub_models = self._pending.requests(ids), self._sub_models.deletion(self.memory)
        staged = self._forgetting.effect(ids, requests, selection, plans, dropped, sub_models)
        with suppress(HomeError):  # the samples are deleted all the same
            self._reserve.refill()
        return staged

    def failed(self, errors: Mapping[int, str]) -> None:
        """Record which shards' training fails, with the type of the last error of each."""
        self._pending.failed(errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        """Record the end of a training after which only these shards wait, and sign the receipts of repairs."""
        self._reserve.make_room()  # the receipts of a repair belong to forgetting
        self._pending.caught_up(behind)
        with suppress(HomeError):
            self._reserve.refill()
