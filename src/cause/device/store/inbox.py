"""The inbox: staged uploads, sealed like those of a round, that wait until a round takes all of them in.

A sample's id names its round, which is not known before the round is closed. So a staged block holds inputs, labels and
handles alone. Closing a round writes them anew as the round's blocks, and the transaction that records those deletes
the rows of the staged ones: after a crash the samples are in one of the two places, never in both and never in none.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.names import fold
from cause.device.advice import doctor_advice
from cause.device.store.blocks import ID_BYTES, Block, new_handles
from cause.device.store.clock import Clock
from cause.device.store.reserve import Reserve
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import name_bytes, name_of
from cause.device.store.stored_upload import Blocks, cut_block
from cause.device.store.tables import Tables
from cause.device.store.tables.staged import StagedRow
from cause.device.vault import seal
from cause.engine.arrays import checked
from cause.engine.requests import Request
from cause.errors import HomeError, InputError, VaultError

Waiting = tuple[NDArray[Any], NDArray[np.int64], list[bytes]]
"""Inputs, labels and handles of the staged samples of a user."""
REMEMBERED_S = 7 * 86_400.0
"""How long the result of a call is remembered, in seconds."""


@dataclass(frozen=True)
class Staged:
    """One staged upload."""

    id: str
    """The id of the call that brought it."""
    user: str
    names: tuple[bytes, ...]
    """The names of its blocks, in order."""
    samples: int
    bytes: int
    arrived: float


@dataclass(frozen=True)
class CallResult:
    """The result of a call with an id."""

    id: str
    samples: int
    """How many it brought, without staged ones that were forgotten; 0 once any of a closed round were forgotten."""
    round: int | None
    """The round that was closed, or that took the upload in; None while it is staged, or if it was erased before."""
    handles: tuple[str, ...] = ()
    """Of a staged upload: the handle of each row, in the order in which the rows came."""


@dataclass(frozen=True)
class RoundIntake:
    """What the next round takes out of the inbox, and the call that it is recorded under."""

    staged: tuple[Staged, ...] = ()
    call: str | None = None
    """The id of the call that closes the round; None if it has none."""
    call_samples: int = 0
    """How many samples that call brought itself."""

    @property
    def bytes(self) -> int:
        """How many bytes on the disk are free once the round is recorded."""
        return sum(upload.bytes for upload in self.staged)

    def arrived(self, user: str, now: float) -> float:
        """Return when the first staged sample of a user arrived; `now` for a user of whom nothing was staged."""
        return min((upload.arrived for upload in self.staged if upload.user == user), default=now)


@dataclass
class StagedRemoval:
    """The changes that forgetting makes in the inbox: it deletes uploads, and rewrites others with fewer rows."""

    uploads: list[Staged] = field(default_factory=list)
    """Uploads that are deleted."""
    rewritten: list[Staged] = field(default_factory=list)
    """Uploads that lose some rows, as they are afterwards."""
    rows: list[StagedRow] = field(default_factory=list)
    """New rows of the table `staged`."""
    keys: dict[bytes, bytes] = field(default_factory=dict)
    """New keys by name."""
    contents: list[tuple[bytes, bytes]] = field(default_factory=list)
    """New sealed blocks: name and bytes."""
    old: list[bytes] = field(default_factory=list)
    """Names of keys and blocks to destroy once the transaction is durable."""
    samples: int = 0
    """How many samples are deleted."""


class Inbox:
    """The staged uploads of a home.

    Parameters
    ----------
    store
        Files and keys.
    tables
        The ledger's tables.
    reserve
        Refuses what the disk has no room for.
    clock
        Dates uploads, and says whether the wall clock is believed.
    """

    def __init__(self, store: SealedStore, tables: Tables, reserve: Reserve, clock: Clock) -> None:
        self._store, self._tables, self._reserve, self._clock = store, tables, reserve, clock
        self._staged: dict[str, Staged] = {}
        self.expired = 0
        """How many samples were deleted since the home was opened because they waited for too long."""

    def load(self) -> None:
        """Load the staged uploads from the table; HomeError if one cannot be opened."""
        parts: dict[str, list[StagedRow]] = {}
        for row in self._tables.staged.rows():
            parts.setdefault(row.upload, []).append(row)
        self._staged = {}
        for upload, rows in parts.items():
            first = rows[0]
            try:
                user = name_of(self._store.vault.open_sealed(first.name, first.sealed_user, b"staged" + first.name))
            except VaultError as error:
                folder = self._store.layout.folder
                raise HomeError(
                    f"a staged upload in {str(folder)!r} cannot be opened ({error})", doctor_advice(folder)
                ) from None
            samples, size = sum(row.samples for row in rows), sum(row.size for row in rows)
            names = tuple(row.name for row in rows)
            self._staged[upload] = Staged(upload, user, names, samples, size, first.arrived)

    # What is there

    def __len__(self) -> int:
        return len(self._staged)

    def uploads(self) -> list[Staged]:
        """Return all staged uploads, oldest first."""
        return list(self._staged.values())

    def of(self, users: Collection[str]) -> list[Staged]:
        """Return the staged uploads of some users."""
        return [upload for upload in self._staged.values() if upload.user in users] if users else []

    def of_any_spelling(self, *users: str) -> list[Staged]:
        """Return the staged uploads of some users, whichever way their names were written."""
        if not self._staged or not users:
            return []
        folded = {fold(user) for user in users}
        return [upload for upload in self._staged.values() if fold(upload.user) in folded]

    def result_of_call(self, id_: str) -> CallResult | None:
        """Return the result of a call, if it is remembered."""
        call = self._tables.staged.call(id_)
        return None if call is None else CallResult(*call, self.handles(id_))

    def in_its_round(self, result: CallResult) -> CallResult:
        """Return the result of an upload's call with the round that has taken it in meanwhile, if one has."""
        now = self._tables.staged.call(result.id)
        return result if now is None else CallResult(*now, result.handles)

    def handles(self, id_: str) -> tuple[str, ...]:
        """Return the handles of an upload that is still staged, in the order in which its rows came."""
        if id_ not in self._staged:
            return ()
        meta = Blocks(0, self._store.blocks, list(self._staged[id_].names)).metas()
        return tuple(row.tobytes().hex() for row in meta.handles)

    def labels(self, id_: str) -> NDArray[np.int64]:
        """Return the labels of an upload that is still staged, in the order in which its rows came."""
        return np.concatenate([self._store.blocks.meta(name).labels for name in self._staged[id_].names])

    def handles_of(self, user: str) -> set[str]:
        """Return the handles of all staged rows of a user."""
        return {handle for upload in self.of_any_spelling(user) for handle in self.handles(upload.id)}

    def contents(self, user: str) -> list[Block]:
        """Return all staged rows of a user, one block for each upload."""
        return [self._rows(upload) for upload in self.of_any_spelling(user)]

    def kind(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Return shape and type of the oldest staged input; None if nothing is staged."""
        for upload in self._staged.values():
            meta = self._store.blocks.meta(upload.names[0])
            return tuple(meta.shape), meta.dtype
        return None

    def waits(self, id_: str) -> bool:
        """Return whether an upload is still staged."""
        return id_ in self._staged

    # An upload arrives

    def stage(self, uploads: Mapping[str, tuple[str, ArrayLike, ArrayLike]]) -> dict[str, CallResult]:
        """Stage uploads durably, all of them or none. An id that was staged before changes nothing.

        Parameters
        ----------
        uploads
            By user: the id of the call, inputs and labels.

        Returns
        -------
        dict of CallResult
            The result of each call, by user.

        Raises
        ------
        InputError
            If inputs or labels are of another kind than those staged before. Nothing is staged then.
        BudgetError
            If there is no room for them. Nothing is staged then.
        """
        done = {
            user: earlier for user, (id_, _, _) in uploads.items() if (earlier := self.result_of_call(id_)) is not None
        }
        now, new = self._clock.now(), StagedRemoval()
        staged: list[Staged] = []
        for user, (id_, x, y) in uploads.items():
            if user not in done:
                inputs, labels = checked(user, x, y)
                self._refuse_another_kind(user, inputs)
                handles = new_handles(len(labels))
                none = np.zeros((len(labels), ID_BYTES), dtype=np.uint8)  # ids and digests come with the round
                block = Block(np.arange(len(labels)), labels, none, none, handles, inputs)
                staged.append(self._sealed(new, id_, user, block, now))
                done[user] = CallResult(id_, len(labels), None, tuple(row.tobytes().hex() for row in handles))
        if not staged:
            return done
        sizes = [upload.bytes for upload in staged]
        users = {upload.user for upload in [*self._staged.values(), *staged]}
        self._reserve.require(self._tables, sum(sizes), max(sizes), users)
        self._store.write(new.keys, new.contents)
        try:
            with self._tables.database.transaction():
                self._clock.note()
                self._tables.staged.add(new.rows)
                self._tables.staged.add_calls(now, [(upload.id, upload.samples) for upload in staged])
        except BaseException:
            self._store.garbage.add_uncertain(new.keys)
            raise
        self._staged.update((upload.id, upload) for upload in staged)
        return done

    def _sealed(self, change: StagedRemoval, id_: str, user: str, whole: Block, arrived: float) -> Staged:
        """Seal an upload's blocks under fresh keys, add what is to be written to `change`, and return the upload."""
        blocks = [(os.urandom(16), block) for block in cut_block(whole)]
        keys = {name: os.urandom(32) for name, _ in blocks}
        contents = [(name, block.sealed(name, keys[name])) for name, block in blocks]
        change.keys |= keys
        change.contents += contents
        change.rows += [
            StagedRow(
                name, id_, part, len(block), len(data), seal(keys[name], name_bytes(user), b"staged" + name), arrived
            )
            for part, ((name, block), (_, data)) in enumerate(zip(blocks, contents, strict=True))
        ]
        return Staged(id_, user, tuple(keys), len(whole), sum(len(data) for _, data in contents), arrived)

    def _refuse_another_kind(self, user: str, inputs: NDArray[Any]) -> None:
        for earlier in self.of({user})[:1]:
            meta = self._store.blocks.meta(earlier.names[0])
            if (meta.dtype, meta.shape) != (inputs.dtype, inputs.shape[1:]):
                raise InputError(
                    f"inputs are {inputs.dtype} of shape {inputs.shape[1:]}, but what waits of this user for the same "
                    f"round is {meta.dtype} of {meta.shape}: they must be alike"
                )

    # A round takes them in

    def contents_by_user(self) -> dict[str, Waiting]:
        """Return inputs, labels and handles of all staged samples, by user."""
        return {user: self._joined(user) for user in sorted({upload.user for upload in self._staged.values()})}

    def intake(self, call: str | None = None) -> RoundIntake:
        """Return all staged uploads, for the round that takes them in; this changes nothing."""
        return RoundIntake(tuple(self._staged.values()), call)

    def intake_of_call(self, call: str | None, samples: int) -> RoundIntake:
        """Return no staged upload, for a round whose call brought so many samples itself; this changes nothing."""
        return RoundIntake((), call, samples)

    def _joined(self, user: str) -> Waiting:
        rows = [self._rows(upload) for upload in self.of({user})]
        x, labels, handles = (
            np.concatenate([getattr(block, part) for block in rows]) for part in ("x", "labels", "handles")
        )
        return x, labels, [row.tobytes() for row in handles]

    def _rows(self, upload: Staged) -> Block:
        """Return all rows of an upload, in the order in which they came."""
        meta = Blocks(0, self._store.blocks, list(upload.names)).metas()
        x = np.concatenate([self._store.blocks.block(name).x for name in upload.names])
        return Block(np.arange(len(x)), meta.labels, meta.ids, meta.digests, meta.handles, x)

    def delete_taken_in(self, intake: RoundIntake, round_: int, now: float, uploads: Mapping[str, int]) -> None:
        """Delete the rows of the uploads that a round takes in; call it in the transaction that records the round.

        Parameters
        ----------
        intake
            What the round takes in.
        round_, now
            The number of the round, and when it is closed.
        uploads
            The numbers of the round's uploads, by user.
        """
        staged = self._tables.staged
        staged.forget_calls(now - REMEMBERED_S)
        by_name = {fold(user): upload for user, upload in uploads.items()}
        for upload in intake.staged:
            staged.delete(upload.id)
            staged.taken_in(upload.id, round_, by_name.get(fold(upload.user)))
        if intake.call is not None:
            samples = intake.call_samples + sum(upload.samples for upload in intake.staged)
            staged.add_calls(now, [(intake.call, samples)], round_)

    def after_round_committed(self, intake: RoundIntake) -> list[bytes]:
        """Note after that transaction that the uploads are no longer staged.

        Returns
        -------
        list of bytes
            The names of their staged blocks, which no table has any more.
        """
        for upload in intake.staged:
            self._staged.pop(upload.id, None)
        return [name for upload in intake.staged for name in upload.names]

    # A user, or some rows, are forgotten

    def removal(self, requests: Sequence[Request]) -> StagedRemoval:
        """Plan what these requests delete from the inbox; this changes nothing."""
        change = StagedRemoval()
        change.uploads = self.of_any_spelling(*(request.user for request in requests if request.everything))
        deleted = {upload.id for upload in change.uploads}
        named = {handle for request in requests for handle in request.handles or ()}
        for upload in self.of_any_spelling(*(request.user for request in requests if request.handles)):
            if upload.id not in deleted:
                self._take_rows(change, upload, named)
        change.old += [name for upload in change.uploads for name in upload.names]
        change.samples += sum(upload.samples for upload in change.uploads)
        return change

    def count(self, request: Request) -> int:
        """Return how many staged samples a request would delete."""
        if request.everything:
            return sum(upload.samples for upload in self.of_any_spelling(request.user))
        return len(self.handles_of(request.user) & set(request.handles or ()))

    def _take_rows(self, change: StagedRemoval, upload: Staged, named: set[str]) -> None:
        stays = np.array([handle not in named for handle in self.handles(upload.id)], dtype=bool)
        if stays.all():
            return
        if not stays.any():
            change.uploads.append(upload)
            return
        whole = self._rows(upload).keeping(stays)
        change.rewritten.append(self._sealed(change, upload.id, upload.user, whole, upload.arrived))
        change.old += upload.names
        change.samples += int((~stays).sum())

    def remove_rows(self, change: StagedRemoval) -> None:
        """Change the tables as planned; call it in the transaction in which the requests take effect."""
        self._delete_rows(change.uploads)
        for upload in change.rewritten:
            self._tables.staged.delete(upload.id)
            self._tables.staged.set_samples(upload.id, upload.samples)
        self._tables.staged.add(change.rows)

    def after_removal_committed(self, change: StagedRemoval) -> None:
        """Note after that transaction what is staged now."""
        self._after_deletion_committed(change.uploads)
        self._staged.update((upload.id, upload) for upload in change.rewritten)

    def _delete_rows(self, uploads: Sequence[Staged]) -> None:
        """Delete the rows of staged uploads; call it in a transaction."""
        for upload in uploads:
            self._tables.staged.delete(upload.id)
            self._tables.staged.set_samples(upload.id, 0)

    def _after_deletion_committed(self, uploads: Sequence[Staged]) -> None:
        """Note after that transaction that these uploads are no longer staged."""
        for upload in uploads:
            self._staged.pop(upload.id, None)

    # Nobody closed a round for too long

    def expire(self, seconds: float | None) -> None:
        """Destroy staged uploads that are older than so many seconds; None keeps them.

        No sub-model has seen them, so nothing else is touched. In a home that keeps samples for a number of rounds they
        stay: they have no round yet. After the wall clock jumped, nothing is destroyed until its time is accepted.
        """
        self._clock.tick()
        if seconds is None or self._clock.doubt() is not None:
            return
        limit = self._clock.now() - seconds
        old = [upload for upload in self._staged.values() if upload.arrived < limit]
        if not old:
            return
        with self._tables.database.transaction():
            self._delete_rows(old)
        self._after_deletion_committed(old)
        self._store.garbage.update(name for upload in old for name in upload.names)
        self._store.destroy()
        self.expired += sum(upload.samples for upload in old)
