"""Forgetting on the disk: blocks are rewritten without the samples, the tables change, and old keys are destroyed."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cause.common import positions as pos
from cause.common.names import fold
from cause.common.positions import Positions
from cause.device.receipts.receipts import Receipts
from cause.device.store.clock import Clock
from cause.device.store.directory import Directory, DirectoryChange
from cause.device.store.inbox import Inbox, StagedRemoval
from cause.device.store.ledger import HomeLedger
from cause.device.store.per_request_counts import RequestDeletion, ShareCounter
from cause.device.store.relayout import Permutation, moved, permuted
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import name_bytes, seal_digests
from cause.device.store.stored_sub_models import SubModelDeletion
from cause.device.store.stored_upload import Blocks
from cause.device.store.tables import Tables
from cause.device.store.tables.samples import RANDOM, PieceRow
from cause.engine.ledger import Selection
from cause.engine.plan import ShardPlan
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey


class Rewrite:
    """The changes that forgetting makes on the disk: new keys and blocks, old names, and rows of the tables."""

    def __init__(self) -> None:
        self.keys: dict[bytes, bytes] = {}
        """New keys by name."""
        self.contents: list[tuple[bytes, bytes]] = []
        """New sealed blocks: name and bytes."""
        self.old: list[bytes] = []
        """Names of keys and blocks to destroy once the transaction is durable."""
        self.left: dict[tuple[str, int], tuple[Blocks, list[bytes]]] = {}
        """By upload: its blocks before, and the names of its blocks afterwards."""
        self.segments: dict[SegmentKey, tuple[int, bytes | None, bytes | None] | None] = {}
        """By touched segment: samples left, its new key's name and its sealed digests; None if it is empty."""
        self.places: dict[tuple[str, int], dict[int, int]] = {}
        """By upload whose positions are drawn anew: the new position of each old one."""
        self.users: list[str] = []
        """Users of whom nothing is left."""
        self.directory = DirectoryChange()

    def new_key(self) -> bytes:
        """Add a fresh key and return its name."""
        name = os.urandom(16)
        self.keys[name] = os.urandom(32)
        return name


class Forgetting:
    """Deletes samples from a home.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    directory
        The names of the users.
    ledger, inbox
        The retained samples, and the staged ones.
    receipts
        Signs receipts.
    clock
        Says when requests take effect.
    permutation
        Draws new positions for an upload whose positions are ranks of digests.
    """

    def __init__(
        self,
        store: SealedStore,
        tables: Tables,
        directory: Directory,
        ledger: HomeLedger,
        inbox: Inbox,
        receipts: Receipts,
        clock: Clock,
        permutation: Permutation,
    ) -> None:
        self._store, self._tables, self._directory, self._ledger = store, tables, directory, ledger
        self._inbox, self._receipts, self._clock, self._permutation = inbox, receipts, clock, permutation

    def effect(
        self,
        ids: Sequence[str],
        requests: Sequence[Request],
        selection: Selection,
        plans: Sequence[ShardPlan],
        dropped: Sequence[SegmentKey],
        sub_models: SubModelDeletion,
    ) -> int:
        """Delete samples and tainted sub-models from the disk, in one transaction, and then destroy their keys.

        Parameters
        ----------
        ids, requests
            The requests, as `Pending.accept` recorded them.
        selection
            The samples to delete, by user and round; ledger and memory hold what is left already.
        plans
            What the deletion touches, by shard.
        dropped
            The sub-models that the memory dropped because they saw the samples.
        sub_models
            Deletes the rows of dropped and evicted sub-models.

        Returns
        -------
        int
            How many staged samples were deleted.

        Raises
        ------
        HomeError, VaultError
            If the disk refuses. If the transaction was committed before, the keys are destroyed by the next erasure or
            opening, and the receipts are signed after that.
        """
        rewrite = self._planned(selection, requests)
        evidence = self._receipts.evidence(plans, dropped)
        staged = self._inbox.removal(requests)
        keys = {**rewrite.keys, **evidence.keys, **staged.keys}
        self._store.write(keys, [*rewrite.contents, *staged.contents])
        shares = ShareCounter(self._ledger, self._inbox, self._tables.samples).shares(requests, selection)
        try:
            with self._tables.database.transaction():
                self._apply(rewrite, selection)
                self._inbox.remove_rows(staged)
                sub_models.delete_rows()
                self._receipts.replace_keys(ids[0], evidence)
                self._mark(ids, shares, plans, evidence.covered, dropped)
        except BaseException:
            self._store.garbage.add_uncertain(keys)
            raise
        sub_models.after_deletion_committed()
        rewrite.old += [*evidence.old, *staged.old, *rewrite.directory.old_keys, *sub_models.names]
        self._destroy(ids, rewrite, staged)
        self._receipts.issue()
        return staged.samples

    def _planned(self, selection: Selection, requests: Sequence[Request]) -> Rewrite:
        """Return all changes on the disk that deleting these samples needs."""
        rewrite, ledger = Rewrite(), self._ledger
        named: dict[str, set[str]] = {}
        for request in requests:
            named.setdefault(fold(request.user), set()).update(request.handles or ())
        touched: set[SegmentKey] = set()
        for (user, round_), forgotten in selection.items():
            blocks = ledger.upload(user, round_).blocks
            handles = named.get(fold(user), set())
            rewrite.left[user, round_] = blocks, self._rewrite(rewrite, blocks, user, round_, forgotten, handles)
            recorded = self._tables.samples.pieces_of_upload(blocks.upload_id)
            touched |= {key for key, held in recorded if len(pos.common(held, forgotten))}
        touched |= ledger.reinstated
        for key in sorted(touched):
            old = self._tables.samples.segment_seal(key)
            rewrite.old += [] if old is None else [old[0]]
            rewrite.segments[key] = None
            if key in ledger.lineage(key.shard):
                name = sealed = None
                if ledger.lists_digests:
                    name = rewrite.new_key()
                    sealed = seal_digests(rewrite.keys[name], key, ledger.digests(key))
                rewrite.segments[key] = ledger.lineage(key.shard)[key].count, name, sealed
        rewrite.users = sorted({user for user, _ in selection if not ledger.rounds_of(user)})
        rewrite.directory = self._directory.plan(removed=rewrite.users)
        self._directory.seal(rewrite.directory, self._store.vault)
        rewrite.keys |= rewrite.directory.keys
        return rewrite

    def _rewrite(
        self, rewrite: Rewrite, blocks: Blocks, user: str, round_: int, forgotten: Positions, named: set[str]
    ) -> list[bytes]:
        """Rewrite the blocks of an upload that hold forgotten samples, and return the names of its blocks afterwards.

        Parameters
        ----------
        rewrite
            Gets the new blocks and the names of the old ones.
        blocks, user, round_
            The upload.
        forgotten
            The positions of its forgotten samples.
        named
            The handles that the requests of this user name.
        """
        if not self._ledger.pieces_of(user, round_):  # nothing is left, so a damaged block need not be read
            rewrite.old += blocks.names
            return []
        deleted, left = pos.array(forgotten), []
        handles = _moved_handles(blocks, forgotten, named)
        if self._tables.samples.layout(blocks.upload_id) != RANDOM:
            # positions are ranks of digests, and a gap among them would tell what is missing
            new_blocks, rewrite.places[user, round_] = permuted(
                self._permutation, blocks, user, round_, deleted, handles
            )
            rewrite.old += blocks.names
            for block in new_blocks:
                left.append(rewrite.new_key())
                rewrite.contents.append((left[-1], block.sealed(left[-1], rewrite.keys[left[-1]])))
            return left
        for name in blocks.names:
            held = self._store.blocks.meta(name).positions
            stay = ~np.isin(held, deleted, assume_unique=True)
            renamed = np.isin(held, list(handles))
            if stay.all() and not renamed.any():
                left.append(name)
                continue
            rewrite.old.append(name)
            if stay.any():
                new = rewrite.new_key()
                block = self._store.blocks.block(name).with_handles(handles).keeping(stay)
                rewrite.contents.append((new, block.sealed(new, rewrite.keys[new])))
                left.append(new)
        return left

    def _apply(self, rewrite: Rewrite, selection: Selection) -> None:
        """Change the tables so that they hold what is left; call it in a transaction."""
        samples, sizes = self._tables.samples, {name: len(data) for name, data in rewrite.contents}
        for (user, round_), (blocks, left) in rewrite.left.items():
            upload = blocks.upload_id
            pseudonym = self._directory.pseudonym(user)
            assert pseudonym is not None
            lost = self._lost(upload, selection[user, round_])
            samples.add_deletions(self._ledger.round, pseudonym, round_, lost)
            samples.forget_classes(pseudonym, round_)
            self._tables.staged.forgotten(upload, round_)
            places = rewrite.places.get((user, round_))
            samples.replace_pieces(upload, self._pieces(user, round_, places) if left else ())
            samples.replace_blocks(upload, left, sizes)
            if not left:
                samples.delete_upload(upload)
                continue
            sealed = None
            if left[0] != blocks.names[0]:
                sealed = self._store.vault.seal(left[0], name_bytes(user), b"user" + left[0])
            samples.rewrite_upload(upload, sealed)
        samples.give_back(self._ledger.reinstated)
        samples.update_segments(rewrite.segments)
        self._directory.write(rewrite.directory, self._tables.database)

    def _pieces(self, user: str, round_: int, places: dict[int, int] | None) -> list[PieceRow]:
        """Return what is left of an upload, with its new positions if they were drawn anew."""
        pieces = []
        for key, held in self._ledger.pieces_of(user, round_):
            aside = self._ledger.aside(key, user)
            verdict = (None, None) if aside is None else (aside.since, aside.verdict)
            pieces.append(PieceRow(key, moved(held, places), *verdict))
        return pieces

    def _lost(self, upload: int, forgotten: Positions) -> dict[int, int]:
        """Return how many samples of an upload are deleted, by shard."""
        lost: dict[int, int] = {}
        for key, held in self._tables.samples.pieces_of_upload(upload):
            lost[key.shard] = lost.get(key.shard, 0) + len(pos.common(held, forgotten))
        return lost

    def _mark(
        self,
        ids: Sequence[str],
        shares: Sequence[RequestDeletion],
        plans: Sequence[ShardPlan],
        covered: dict[str, Any],
        dropped: Sequence[SegmentKey],
    ) -> None:
        """Record that the requests are in effect, and what each touched; call it in a transaction."""
        now, requests = self._clock.now(), self._tables.requests
        covered = {**covered, "exports": self._taint(now, plans, dropped)}
        for id_, share in zip(ids, shares, strict=True):
            touched = [shard | {"samples": share.shards[shard["shard"]]} for shard in covered["touched"]]
            own = covered | {"staged": share.staged, "touched": touched}
            requests.mark_effective(id_, ids[0], now, share.samples, own)
        requests.mark_behind((plan.shard for plan in plans), now)

    def _taint(self, now: float, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> list[str]:
        """Mark the exports that hold a sub-model which may have seen the samples, and return their ids."""
        tainted, exports = set(dropped), []
        first = {plan.shard: plan.first for plan in plans}
        for export, heads in self._tables.requests.untainted_exports():
            if any(key in tainted or (key.shard in first and key >= first[key.shard]) for key in heads):
                self._tables.requests.taint_export(export, now)
                exports.append(export)
        return exports

    def _destroy(self, ids: Sequence[str], rewrite: Rewrite, staged: StagedRemoval) -> None:
        """Destroy the old keys, now that the transaction is durable; after that no copy of the files can be read."""
        self._store.garbage.update(rewrite.old, map(bytes.fromhex, ids))
        self._ledger.committed(
            {blocks.upload_id: left for blocks, left in rewrite.left.values()},
            [blocks.upload_id for place, (blocks, _) in rewrite.left.items() if place in rewrite.places],
        )
        self._directory.apply(rewrite.directory, rewrite.users)  # a deleted user who comes back gets a new pseudonym
        self._inbox.after_removal_committed(staged)
        self._store.destroy()


def _moved_handles(blocks: Blocks, forgotten: Positions, named: set[str]) -> dict[int, bytes]:
    """Return new handles, by position, of rows that stay although their handle was named.

    Of identical samples the one with the highest ordinal is deleted, whichever was named, so that the rest keep the ids
    that they would have had without it. The named handle is deleted all the same: its row gets the handle of the
    deleted row.
    """
    if not named:
        return {}
    meta = blocks.metas()
    going = np.isin(meta.positions, pos.array(forgotten), assume_unique=True)
    handles = [row.tobytes() for row in meta.handles]
    spare: dict[bytes, list[bytes]] = {}
    for row in np.flatnonzero(going).tolist():
        if handles[row].hex() not in named:
            spare.setdefault(meta.digests[row].tobytes(), []).append(handles[row])
    staying = [row for row in np.flatnonzero(~going).tolist() if handles[row].hex() in named]
    return {int(meta.positions[row]): spare[meta.digests[row].tobytes()].pop() for row in staying}
