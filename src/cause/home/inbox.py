"""What arrived and waits for its round: samples of single uploads, sealed as a round's are, until a round takes all in.

A sample's id names its round, and that is known only when the round is closed. So a staged block holds inputs and
labels alone. Closing writes them anew as the round's blocks, and the transaction that names those lets go of the staged
ones: after a crash the samples lie in the one place or in the other, never in both and never in none.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.arrays import checked
from cause.errors import HomeError, InputError, VaultError
from cause.home.blocks import ID_BYTES, SAMPLES, Block
from cause.vault import open_sealed, seal

if TYPE_CHECKING:
    from cause.home.home import Home

REMEMBERED_S = 7 * 86_400.0
"""How long it is known what a call led to."""


@dataclass(frozen=True)
class Staged:
    """One upload that waits."""

    id: str
    user: str
    names: tuple[bytes, ...]
    samples: int
    bytes: int
    arrived: float


@dataclass(frozen=True)
class Called:
    """What a call with an id led to."""

    id: str
    samples: int
    round: int | None
    """The round that was closed, or that took the upload in; None while it waits, or if it was erased before."""


class Inbox:
    """The staged uploads of a home."""

    def __init__(self, home: "Home") -> None:
        self._home = home
        self._staged: dict[str, Staged] = {}
        self._leaving: list[Staged] | None = None  # while a round is closed: what it takes in
        self._call: str | None = None
        self.expired = 0
        """Samples that waited for too long and were destroyed since the home was opened."""

    def load(self) -> None:
        """Go on with what the table holds."""
        parts: dict[str, list[tuple[bytes, int, int, bytes, float]]] = {}
        for name, upload, samples, size, sealed, arrived in self._home.database.rows(
            "SELECT key, upload, samples, bytes, sealed_user, arrived FROM staged ORDER BY rowid"
        ):
            parts.setdefault(upload, []).append((bytes(name), samples, size, bytes(sealed), arrived))
        self._staged = {}
        for upload, rows in parts.items():
            name, _, _, sealed, arrived = rows[0]
            try:
                user = open_sealed(self._home.vault.key(name), sealed, b"staged" + name).decode()
            except VaultError as error:
                where = str(self._home.layout.folder)
                raise HomeError(
                    f"a staged upload in {where!r} cannot be opened ({error}): `cause doctor --home` tells more"
                ) from None
            names, counts, sizes, _, _ = zip(*rows, strict=True)
            self._staged[upload] = Staged(upload, user, names, sum(counts), sum(sizes), arrived)

    # What is there

    def __len__(self) -> int:
        return len(self._staged)

    def uploads(self) -> list[Staged]:
        """All of them, oldest first."""
        return list(self._staged.values())

    def of(self, users: Collection[str]) -> list[Staged]:
        """Those of some users."""
        return [upload for upload in self._staged.values() if upload.user in users] if users else []

    def called(self, id_: str) -> Called | None:
        """What a call led to, if it is remembered."""
        row = self._home.database.row("SELECT id, samples, round FROM calls WHERE id=?", [id_])
        return None if row is None else Called(*row)

    def waits(self, id_: str) -> bool:
        """Whether an upload is still staged."""
        return id_ in self._staged

    # An upload arrives

    def stage(self, id_: str, user: str, x: ArrayLike, y: ArrayLike) -> Called:
        """Keep an upload until its round, durably. The same id a second time changes nothing."""
        found = self.called(id_)
        if found is not None:
            return found
        inputs, labels = checked(user, x, y)
        self._refuse_another_kind(user, inputs)
        home = self._home
        blocks = [(os.urandom(16), block) for block in _cut(inputs, labels)]
        keys = {name: os.urandom(32) for name, _ in blocks}
        contents = [(name, block.sealed(name, keys[name])) for name, block in blocks]
        home.refuse_what_cannot_fit(sum(len(data) for _, data in contents))
        home.write(keys, contents)
        now = home.clock()
        rows = [
            [name, id_, part, len(block), len(data), seal(keys[name], user.encode(), b"staged" + name), now]
            for part, ((name, block), (_, data)) in enumerate(zip(blocks, contents, strict=True))
        ]
        try:
            with home.database.transaction():
                home.time.note()
                home.database.many("INSERT INTO staged VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                home.database.run("INSERT INTO calls VALUES (?, ?, ?, NULL)", [id_, now, len(labels)])
        except BaseException:
            home.garbage.update(keys)
            raise
        size = sum(len(data) for _, data in contents)
        self._staged[id_] = Staged(id_, user, tuple(keys), len(labels), size, now)
        return Called(id_, len(labels), None)

    def _refuse_another_kind(self, user: str, inputs: NDArray[Any]) -> None:
        for earlier in self.of({user})[:1]:
            meta = self._home.store_.meta(earlier.names[0])
            if (meta.dtype, meta.shape) != (inputs.dtype, inputs.shape[1:]):
                raise InputError(
                    f"inputs are {inputs.dtype} of shape {inputs.shape[1:]}, but what waits of this user for the same "
                    f"round is {meta.dtype} of {meta.shape}: they must be alike"
                )

    # A round takes them in

    @contextmanager
    def closing(self, call: str | None = None) -> Iterator[dict[str, tuple[NDArray[Any], NDArray[np.int64]]]]:
        """All that waits, by user; the next round that is recorded within takes it in, or nothing is changed."""
        self._leaving, self._call = self.uploads(), call
        try:
            yield {user: self._joined(user) for user in sorted({upload.user for upload in self._leaving})}
        finally:
            self._leaving = self._call = None

    def _joined(self, user: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
        blocks = [self._home.store_.block(name) for upload in self.of({user}) for name in upload.names]
        return np.concatenate([block.x for block in blocks]), np.concatenate([block.labels for block in blocks])

    @property
    def leaving_bytes(self) -> int:
        """The room that closing the round gives back."""
        return sum(upload.bytes for upload in self._leaving or ())

    def since(self, user: str, now: float) -> float:
        """When the first of a user's samples arrived that the next round holds; they do not get younger by it."""
        return min((upload.arrived for upload in self._leaving or () if upload.user == user), default=now)

    def leave(self, round_: int, now: float) -> None:
        """In the transaction that records the round."""
        database = self._home.database
        database.run("DELETE FROM calls WHERE at < ?", [now - REMEMBERED_S])
        for upload in self._leaving or ():
            database.run("DELETE FROM staged WHERE upload=?", [upload.id])
            database.run("UPDATE calls SET round=? WHERE id=?", [round_, upload.id])
        if self._call is not None:
            samples = sum(upload.samples for upload in self._leaving or ())
            database.run("INSERT INTO calls VALUES (?, ?, ?, ?)", [self._call, now, samples, round_])

    def left(self) -> list[bytes]:
        """After it: the blocks that nobody names any more."""
        gone = list(self._leaving or ())
        self.dropped(gone)
        return [name for upload in gone for name in upload.names]

    # A user is forgotten

    def drop(self, uploads: Sequence[Staged]) -> None:
        """In a transaction: as that of a request that takes effect."""
        for upload in uploads:
            self._home.database.run("DELETE FROM staged WHERE upload=?", [upload.id])
            self._home.database.run("UPDATE calls SET samples=0 WHERE id=?", [upload.id])

    def dropped(self, uploads: Sequence[Staged]) -> None:
        """After it."""
        for upload in uploads:
            self._staged.pop(upload.id, None)

    # Nobody closed a round for too long

    def expire(self) -> None:
        """Destroy what has waited for longer than the home keeps samples.

        Nothing has learned from them, so nothing else is touched. Samples that are kept for some rounds wait for ever:
        they have none yet. While the wall clock is not believed nothing is destroyed.
        """
        home, (_, seconds) = self._home, self._home.retain
        home.time.tick()
        if seconds is None or home.time.doubt() is not None:
            return
        old = [upload for upload in self._staged.values() if upload.arrived < home.clock() - seconds]
        if not old:
            return
        with home.database.transaction():
            self.drop(old)
        self.dropped(old)
        home.garbage.update(name for upload in old for name in upload.names)
        home.destroy()
        self.expired += sum(upload.samples for upload in old)


def _cut(x: NDArray[Any], labels: NDArray[np.int64]) -> list[Block]:
    """Inputs and labels in blocks. Ids and digests are the round's to give."""
    none = np.zeros((len(labels), ID_BYTES), dtype=np.uint8)
    whole = Block(np.arange(len(labels)), labels, none, none, x)
    starts = range(0, len(labels), SAMPLES)
    return [whole.keeping(np.arange(start, min(start + SAMPLES, len(labels)))) for start in starts]
