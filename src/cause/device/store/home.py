"""A home: everything a device is, on a disk, through kills and power cuts.

SQLite decides what is there. Files of samples and sub-models are written and synced before a transaction names them,
and keys are destroyed after the transaction that lets go of them; whatever a crash leaves unnamed, key or file, is
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
from cause.device.store.inbox import Called, Inbox
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.store.ledger import HomeLedger
from cause.device.store.listing import page
from cause.device.store.lock import Lock
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
"""What code raises that meets a stored value of another kind than it was."""
READER_TRIES = 8
"""How often a reader looks again while another process changes keys and tables."""


class Home(Journal):
    """The durable side of a device. `create` one, or open it."""

    recipe = b""
    environment = ""
    memory: Memory
    """Whose sub-models these are; the device sets it."""
    system: System
    """What the home is composed of; whoever attaches it sets it."""
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
        """The anchor; None in a home of a version that had none."""
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
        """After a commit: the anchor names it. Should the disk refuse, the next commit or erasure tries again."""
        if self._anchor is not None:
            with suppress(HomeError, VaultError, LogError):
                mark = current_mark(self.database, self.vault)
                if mark != self._anchor.mark:
                    self._anchor.write(mark)

    def _refill(self) -> None:
        with suppress(HomeError, OSError):
            self._reserve.refill(leave=0)

    def apply(self, chosen: Settings) -> None:
        """Let these settings be in force."""
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
        """Make the folders, the vault and the tables of a new home; `config` is the text of its `cause.toml`."""
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
        """Close all files; the lock is released even where one of them cannot be closed.

        A forked process has nothing to release: files and lock are its parent's.
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
        """In a process that was forked from this one: keep it from writing, and from keeping the lock."""
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
        """Fill ledger and memory with what the tables hold."""
        try:
            loading.load(self, memory)
        except BROKEN as error:
            raise HomeError(
                f"the ledger of {str(self.layout.folder)!r} holds a value that makes no sense "
                f"({type(error).__name__}): `cause doctor --home` tells more"
            ) from None

    def refresh(self, memory: Memory) -> bool:
        """For a reader: go on with what another process has done since the last time; whether it did anything."""
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
            except (HomeError, VaultError):  # keys and tables of two moments
                if attempt == READER_TRIES - 1:
                    raise
            time.sleep(0.001 * 2**attempt)
        self._version = version
        return True

    def check_recipe(self, learner: Learner) -> None:
        """Refuse a learner whose recipe is not that of the stored sub-models; a deferred one when it is made."""
        found = self.database.get("recipe")
        if isinstance(learner, DeferredLearner) and not learner.is_loaded:
            learner.when_loaded = self.check_recipe
            self.recipe, self.environment = learner.recipe_digest, str(self.database.get("environment", ""))
            return
        self.recipe, self.environment = learner.recipe_digest, learner.environment
        if found is None and not self.read_only:
            with self.database.transaction():
                self.database.set("recipe", learner.recipe_digest)
                # for who looks or forgets without the learner
                self.database.set("sub_model_bytes", learner.sub_model_bytes)
                self.database.set("environment", learner.environment)
                self.database.set("learner_notes", json.dumps(learner.notes))
        elif found is not None and bytes(found) != learner.recipe_digest:
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
        """What the samples take on the disk, those that wait for a round too."""
        (found,) = self.database.row(
            "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM blocks UNION ALL SELECT bytes FROM staged)"
        )
        return int(found)

    def store(self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]) -> None:
        """Write a round's samples and name them in the tables, durably."""
        ingest.store(self, round_, segments)

    def shuffled(self, upload: Upload) -> Upload:
        """The upload with random positions: what is missing later says nothing about what it was."""
        if not isinstance(upload, ArrayUpload):
            return upload
        return upload.shuffled(self.permutation(len(upload.positions)))

    def upgrade(self) -> None:
        """Finish what a migration or a restore left to do; see `cause.device.store.upgrade`."""
        upgrade.upgrade(self)

    def samples_of(self, user: str, round_: int | None = None) -> list[HeldSample]:
        """All samples of a user, or those of a round; those that wait for a round come last."""
        return page(self, user, round_=round_)[0]

    def call_of(self, idempotency_key: str) -> str:
        """The id under which a call of `learn` with this key is remembered."""
        return repeats.call_of(self, idempotency_key)

    def same_rows(self, found: Called, uploads: Mapping[str, Any] | Sequence[Upload]) -> dict[str, tuple[str, ...]]:
        """The handles of the rows of a call of `learn` that is repeated; an error if these are other rows."""
        return repeats.same_rows(self, found, uploads)

    def holds_name(self, user: str) -> bool:
        """Whether something is held under this very name, written this very way."""
        return self.directory.pseudonym(user) is not None or bool(self.inbox.of({user}))

    def write(self, keys: Mapping[bytes, bytes], contents: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys first, then what is sealed under them.

        The keys given are overwritten, whatever happens: from here on only the vault has them.
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
            with suppress(HomeError):  # make room at once
                self.store_.files.remove(list(keys))
            raise

    def refuse_what_cannot_fit(self, more: int, largest: int | None = None) -> None:
        """Refuse samples that would take more room than there is, the one that forgetting needs included.

        Parameters
        ----------
        more
            The bytes of all of them.
        largest
            Those of the largest upload; all of them if it is not known.
        """
        if self.storage_bytes is not None and self.stored_bytes + more > self.storage_bytes:
            raise BudgetError(
                f"the samples need {format_bytes(more)}, but of {format_bytes(self.storage_bytes)} for samples "
                f"{format_bytes(self.stored_bytes)} are used: forget some, or raise `storage`"
            )
        self._reserve.require(self.database, more, more if largest is None else largest)

    def discard(self, names: Sequence[bytes]) -> None:
        """Files that no table names any more, while what is in them lies elsewhere too: the keys go with an erasure."""
        self.garbage.update(names)
        for name in names:
            self.store_.drop(name)
        self.store_.files.remove(names)

    def destroy(self) -> None:
        """Keys that no table names any more, and with them every copy of what they opened; then the files.

        What a failed transaction would have named stays until another one was committed.
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
        for name in names:  # after their keys: whoever reads one meanwhile looks for its key once more
            self.store_.drop(name)
        for files in (self.store_.files, self.shelf.files):
            files.remove(list(names))
        self.garbage.destroyed(names)
        self.database.scrub()

    # A sub-model is trained, or found damaged

    def trained(self, segment: SegmentKey, retrained: int = 0) -> None:
        name, sub_model = self.shelf.names[segment], self.memory[segment]
        with self.database.transaction():
            self.let_go()
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
        self._gone()

    def discarded(self, key: SegmentKey) -> None:
        if self.read_only:
            return  # whoever writes will find it too
        with self.database.transaction():
            self.let_go()
            self.database.run("INSERT OR IGNORE INTO behind (shard, since) VALUES (?, ?)", [key.shard, self.clock()])
        self._gone()

    def let_go(self) -> None:
        """In a transaction: the tables no longer name the sub-models that were evicted or dropped."""
        self.database.many("DELETE FROM sub_models WHERE key=?", [[name] for name in self.shelf.doomed])
        self.database.set("policy", json.dumps(self.memory.policy.state()))

    def _gone(self) -> None:
        """After it: their files go now, their keys at the next erasure. An eviction forgets nobody."""
        doomed, self.shelf.doomed = self.shelf.doomed, []
        self.garbage.update(doomed)
        self.shelf.files.remove(doomed)

    # Requests

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        self._reserve.make_room()
        return pending.accept(self, requests, ids)

    def staged(self, user: str) -> int:
        return sum(upload.samples for upload in self.inbox.like(user))

    def staged_handles(self, user: str) -> set[str]:
        return self.inbox.handles_of(user)

    def staged_kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return self.inbox.kind()

    def expired(self) -> list[Request]:
        return pending.expired(self)

    def trust_clock(self) -> float:
        """Accept the wall clock's time, which was not believed; by how many seconds the home's time changed."""
        changed = self.time.trust(self.deadline_s)
        self.inbox.load()
        return changed

    def accepted(self) -> list[tuple[str, Request]]:
        """Requests that a crash kept from taking effect."""
        return pending.accepted(self)

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> int:
        self._reserve.make_room()
        staged = forgetting.effect(self, ids, selection, plans, dropped)
        with suppress(HomeError):  # the samples are gone, whatever becomes of it
            self._reserve.refill()
        return staged

    def failed(self, errors: Mapping[int, str]) -> None:
        pending.failed(self, errors)

    def caught_up(self, behind: Sequence[int]) -> None:
        self._reserve.make_room()  # the receipts of a repair belong to forgetting
        pending.caught_up(self, behind)
        with suppress(HomeError):
            self._reserve.refill()
