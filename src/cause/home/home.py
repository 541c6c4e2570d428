"""A home: everything a device is, on a disk, through kills and power cuts.

SQLite decides what is there. Files of samples and sub-models are written and synced before a transaction names them,
and keys are destroyed after the transaction that lets go of them; whatever a crash leaves unnamed, key or file, is
destroyed by the next opening. So every change is one transaction, and before or after it the home is whole.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from secrets import token_hex
from typing import Any

import numpy as np

from cause import positions as pos
from cause.arrays import ArrayUpload
from cause.disk import Disk
from cause.errors import BudgetError, HomeError, InputError, VaultError
from cause.home.blocks import Block, Files
from cause.home.database import Connect, Database, connect
from cause.home.inbox import Inbox
from cause.home.layout import Layout
from cause.home.ledger import HomeLedger
from cause.home.lock import Lock
from cause.home.receipts import DEVICE_KEY, Receipts
from cause.home.shelf import HomeShelf
from cause.home.uploads import Blocks, BlockStore, StoredUpload, cut
from cause.journal import Journal
from cause.keyed import digest
from cause.learners import Learner
from cause.ledger import Selection
from cause.memory import Memory, SubModel
from cause.plan import ShardPlan
from cause.positions import Positions
from cause.requests import Request
from cause.samples import Piece, SegmentKey
from cause.units import format_bytes
from cause.vault import KeySource, Vault, open_sealed, seal

DEADLINE_S = 30 * 24 * 3600.0
"""One month, as data protection law asks."""
READER_TRIES = 8
"""How often a reader looks again while another process changes keys and tables."""
DAMAGED = "the ledger and the keys of {!r} do not fit together ({}): `cause doctor --home` tells more"


class Home(Journal):
    """The durable side of a device. `create` or `open` one."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        source: KeySource,
        *,
        read_only: bool = False,
        storage_bytes: int | None = None,
        deadline_s: float = DEADLINE_S,
        retain: tuple[int | None, float | None] = (None, None),
        disk: Disk | None = None,
        connect: Connect = connect,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.layout = layout = Layout(os.fspath(folder))
        self.read_only, self.storage_bytes, self.deadline_s = read_only, storage_bytes, deadline_s
        self.clock, self._disk, self._retain = clock, disk or Disk(), retain
        layout.check()
        self._lock = None if read_only else Lock(layout.lock)
        # keys and files that no table names; the next erasure takes them along. Not earlier: a transaction whose commit
        # failed may still turn out to have happened, until another one did
        self._garbage: set[bytes] = set()
        try:
            self._open_vault = partial(Vault.open, layout.vault, source, self._disk, read_only=read_only)
            self._version: int | None = None  # of what a reader has loaded
            self.vault = self._open_vault()
            self.database = Database(layout.ledger, read_only=read_only, connect=connect)
            self.store_ = BlockStore(Files(layout.blocks, self._disk), self.vault.key)
            self.shelf = HomeShelf(Files(layout.sub_models, self._disk), self.vault)
            self.ledger = HomeLedger(self)
            self._blocks: dict[tuple[str, int], Blocks] = {}
            self._pseudonyms: dict[str, int] = {}
            self.receipts, self.inbox = Receipts(self), Inbox(self)
            if not read_only:
                self._clean()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: str | os.PathLike[str], source: KeySource, disk: Disk | None = None) -> None:
        """Make the folders, the vault and the tables of a new home."""
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
        Database(layout.ledger, create=True).close()
        disk.sync_folder(layout.folder)

    def close(self) -> None:
        for part in ("database", "vault"):
            if hasattr(self, part):
                getattr(self, part).close()
        if self._lock is not None:
            self._lock.close()

    # Opening

    def _clean(self) -> None:
        """Destroy what a crash left behind: keys and files that no table names."""
        rows = self.database.rows(
            "SELECT key FROM blocks UNION ALL SELECT key FROM sub_models "
            "UNION ALL SELECT key FROM requests WHERE key IS NOT NULL UNION ALL SELECT key FROM manifests "
            "UNION ALL SELECT key FROM staged"
        )
        named = {bytes(key) for (key,) in rows} | {DEVICE_KEY}
        self.vault.erase(self.vault.names() - named)
        known = {name.hex() for name in named}
        try:
            for files in (self.store_.files, self.shelf.files):
                strays = [name for name in files.names() if name not in known]
                for name in strays:
                    self._disk.unlink(files.folder / name)
                if strays:
                    self._disk.sync_folder(files.folder)
        except OSError as error:
            raise HomeError(f"cannot clean up {str(self.layout.folder)!r}: {error.strerror}") from None
        self.database.scrub()

    def refresh(self, memory: Memory) -> bool:
        """For a reader: go on with what another process has done since the last time; whether it did anything."""
        for attempt in range(READER_TRIES):
            (version,) = self.database.row("PRAGMA data_version")
            if version == self._version:
                return False
            try:
                self.vault.close()
                self.vault = self._open_vault()
                self.store_ = BlockStore(self.store_.files, self.vault.key)
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

    def load(self, memory: Memory) -> None:
        """Fill ledger and memory with what the tables hold."""
        with self.database.reading():
            self._load_ledger()
            rows = self.database.rows(
                "SELECT shard, round, slice, key, identity, size_bytes, environment, slot FROM sub_models ORDER BY slot"
            )
            state = json.loads(self.database.get("policy", "{}"))
        stored, names = [], {}
        for shard, round_, slice_, name, identity, size_bytes, environment, slot in rows:
            key = SegmentKey(shard, round_, slice_)
            names[key] = bytes(name)
            stored.append((slot, SubModel(key, bytes(identity), size_bytes, environment)))
        self._garbage |= {*self.shelf.names.values(), *self.shelf.doomed} - set(names.values())
        self.shelf.restore(names)
        memory.restore(stored, state)
        if not self.read_only:
            self.receipts.issue()  # what a crash kept from being signed

    def _load_ledger(self) -> None:
        database = self.database
        blocks: dict[int, list[bytes]] = {}
        for upload, name in database.rows("SELECT upload, key FROM blocks ORDER BY upload, part"):
            blocks.setdefault(upload, []).append(bytes(name))
        uploads: dict[int, tuple[str, int, Blocks]] = {}
        self._blocks, self._pseudonyms = {}, {}
        for upload, round_, pseudonym, sealed in database.rows("SELECT id, round, pseudonym, sealed_user FROM uploads"):
            names = blocks.get(upload, [])
            if not names or any(name not in self.vault for name in names):
                raise HomeError(DAMAGED.format(str(self.layout.folder), f"upload {upload} has lost a key"))
            user = open_sealed(self.vault.key(names[0]), bytes(sealed), b"user" + names[0]).decode()
            own = self._blocks[user, round_] = Blocks(upload, self.store_, names)
            self._pseudonyms[user] = pseudonym
            uploads[upload] = user, round_, own
        rounds: dict[int, dict[SegmentKey, list[Piece]]] = {}
        digests: dict[SegmentKey, dict[str, bytes]] = {}
        for upload, shard, slice_, held, known in database.rows(
            "SELECT upload, shard, slice, positions, digest FROM pieces"
        ):
            user, round_, own = uploads[upload]
            key, positions = SegmentKey(shard, round_, slice_), _positions(bytes(held))
            piece = Piece(StoredUpload(user, round_, positions, own), positions)
            rounds.setdefault(round_, {}).setdefault(key, []).append(piece)
            digests.setdefault(key, {})[user] = bytes(known)
        trained = {SegmentKey(*key) for key in database.rows("SELECT shard, round, slice FROM segments WHERE trained")}
        self.ledger.load(database.get("round", 0), rounds, trained, digests)
        self.inbox.load()

    def check_recipe(self, learner: Learner) -> None:
        """Refuse a learner whose recipe is not that of the stored sub-models."""
        self.recipe, self.environment = learner.recipe_digest, learner.environment
        found = self.database.get("recipe")
        if found is None and not self.read_only:
            with self.database.transaction():
                self.database.set("recipe", learner.recipe_digest)
        elif found is not None and bytes(found) != learner.recipe_digest:
            raise HomeError(
                f"the learner's recipe is not that of the sub-models in {str(self.layout.folder)!r}: open it with the "
                "same recipe, or make a new home"
            )

    # A round arrives

    @property
    def stored_bytes(self) -> int:
        """What the samples take on the disk, those that wait for a round too."""
        (found,) = self.database.row(
            "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM blocks UNION ALL SELECT bytes FROM staged)"
        )
        return int(found)

    def store(
        self, round_: int, segments: Mapping[SegmentKey, Sequence[Piece]]
    ) -> Mapping[SegmentKey, Sequence[Piece]]:
        """Write a round's samples, durably; the same pieces, with their samples on the disk."""
        whole = {user: _joined(pieces) for user, pieces in _by_user(segments).items()}
        cuts = {user: [(os.urandom(16), block) for block in cut(upload)] for user, upload in whole.items()}
        keys = {name: os.urandom(32) for blocks in cuts.values() for name, _ in blocks}
        contents = [(name, block.sealed(name, keys[name])) for blocks in cuts.values() for name, block in blocks]
        self.refuse_what_cannot_fit(sum(len(data) for _, data in contents) - self.inbox.leaving_bytes)
        self.write(keys, contents)
        sizes = {name: len(data) for name, data in contents}
        try:
            uploads = self._record(round_, segments, cuts, keys, sizes)
        except BaseException:
            self._garbage.update(keys)
            raise
        self.discard(self.inbox.left())
        for user, own in uploads.items():
            self._blocks[user, round_] = own
        return {
            key: [
                Piece(StoredUpload(p.upload.user, round_, p.positions, uploads[p.upload.user]), p.positions)
                for p in pieces
            ]
            for key, pieces in segments.items()
        }

    def garbage(self, names: Iterable[bytes]) -> None:
        """Keys and files that no table names: the next erasure takes them along."""
        self._garbage.update(names)

    def discard(self, names: Sequence[bytes]) -> None:
        """Files that no table names any more, while what is in them lies elsewhere too: the keys go with an erasure."""
        self._garbage.update(names)
        for name in names:
            self.store_.drop(name)
        self.store_.files.remove(names)

    def refuse_what_cannot_fit(self, more: int) -> None:
        """Refuse samples that would take more room than there is."""
        if self.storage_bytes is None:
            return
        used = self.stored_bytes
        if used + more > self.storage_bytes:
            raise BudgetError(
                f"the samples need {format_bytes(more)}, but of {format_bytes(self.storage_bytes)} for samples "
                f"{format_bytes(used)} are used: forget some, or raise `storage`"
            )

    def write(self, keys: Mapping[bytes, bytes], contents: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys first, then what is sealed under them."""
        if not keys:
            return
        self.vault.put_many(keys)
        try:
            self.store_.files.write(contents)
        except BaseException:
            self._garbage.update(keys)
            with suppress(HomeError):  # make room at once
                self.store_.files.remove(list(keys))
            raise

    def _record(
        self,
        round_: int,
        segments: Mapping[SegmentKey, Sequence[Piece]],
        cuts: Mapping[str, list[tuple[bytes, Block]]],
        keys: Mapping[bytes, bytes],
        sizes: Mapping[bytes, int],
    ) -> dict[str, Blocks]:
        uploads: dict[str, Blocks] = {}
        database, now = self.database, self.clock()
        with database.transaction():
            database.set("round", round_)
            self.inbox.leave(round_, now)
            pseudonym = database.get("pseudonyms", 0)
            given: dict[str, int] = {}
            for user, blocks in cuts.items():
                if user in self._pseudonyms:
                    given[user] = self._pseudonyms[user]
                else:
                    pseudonym += 1
                    given[user] = pseudonym
                first = blocks[0][0]
                row = [round_, now, given[user], seal(keys[first], user.encode(), b"user" + first)]
                upload = database.run(
                    "INSERT INTO uploads (round, received, pseudonym, sealed_user) VALUES (?, ?, ?, ?)", row
                ).lastrowid
                rows = [(name, upload, part, sizes[name]) for part, (name, _) in enumerate(blocks)]
                database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
                uploads[user] = Blocks(upload, self.store_, [name for name, _ in blocks])
            database.set("pseudonyms", pseudonym)
            database.many("INSERT INTO segments VALUES (?, ?, ?, 0)", [list(key) for key in sorted(segments)])
            pieces = [(key, piece) for key, each in segments.items() for piece in each]
            database.many(
                "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)",
                [
                    [uploads[p.upload.user].upload_id, *key, _runs(p.positions), digest(p.upload.names(p.positions))]
                    for key, p in pieces
                ],
            )
            database.many(
                "INSERT INTO history (round, kind, pseudonym, samples, shard, labels) VALUES (?, 'add', ?, ?, ?, ?)",
                [[round_, given[p.upload.user], len(p.positions), key.shard, _labels(p)] for key, p in pieces],
            )
        self._pseudonyms.update(given)
        return uploads

    # A sub-model is trained, or found damaged

    def trained(self, segment: SegmentKey, retrained: int = 0) -> None:
        name, sub_model = self.shelf.names[segment], self.memory[segment]
        with self.database.transaction():
            self._let_go()
            self.database.run(
                "INSERT INTO sub_models VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [*segment, name, sub_model.identity, sub_model.size_bytes, sub_model.environment,
                 self.memory.slot_of(segment)],
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
            self._let_go()
            self.database.run("INSERT OR IGNORE INTO behind VALUES (?, ?)", [key.shard, self.clock()])
        self._gone()

    def _let_go(self) -> None:
        """In a transaction: the tables no longer name the sub-models that were evicted or dropped."""
        self.database.many("DELETE FROM sub_models WHERE key=?", [[name] for name in self.shelf.doomed])
        self.database.set("policy", json.dumps(self.memory.policy.state()))

    def _gone(self) -> None:
        """After it: their files go now, their keys at the next erasure. An eviction forgets nobody."""
        doomed, self.shelf.doomed = self.shelf.doomed, []
        self._garbage.update(doomed)
        self.shelf.files.remove(doomed)

    recipe = b""
    environment = ""
    memory: Memory
    """Whose sub-models these are; the device sets it."""

    # Requests

    def accept(self, requests: Sequence[Request], ids: Sequence[str] | None = None) -> list[str]:
        ids = [token_hex(16) for _ in requests] if ids is None else list(ids)
        keys = {bytes.fromhex(each): os.urandom(32) for each in ids}
        self.vault.put_many(keys)
        self._garbage.update(keys)  # until the tables name them
        now = self.clock()
        with self.database.transaction():
            for each, request in zip(ids, requests, strict=True):
                name = bytes.fromhex(each)
                sealed = seal(keys[name], json.dumps(asdict(request)).encode(), b"request" + name)
                self.database.run(
                    "INSERT INTO requests (id, received, deadline, key, sealed) VALUES (?, ?, ?, ?, ?)",
                    [each, now, now + self.deadline_s, name, sealed],
                )
        self._garbage.difference_update(keys)
        return ids

    def expired(self) -> list[Request]:
        """What is older than samples are kept, as requests of the users whose it is."""
        rounds, seconds = self._retain
        if rounds is not None:
            rule, limit = "round <= ?", float(self.ledger.round - rounds)
        elif seconds is not None:
            rule, limit = "received < ?", self.clock() - seconds
        else:
            return []
        old = {upload for (upload,) in self.database.rows(f"SELECT id FROM uploads WHERE {rule}", [limit])}
        found: dict[str, list[int]] = {}
        for (user, round_), own in self._blocks.items():
            if own.upload_id in old:
                found.setdefault(user, []).append(round_)
        return [Request(user, tuple(sorted(theirs))) for user, theirs in sorted(found.items())]

    def accepted(self) -> list[tuple[str, Request]]:
        """Requests that a crash kept from taking effect."""
        found = []
        for each, name, sealed in self.database.rows(
            "SELECT id, key, sealed FROM requests WHERE effective IS NULL ORDER BY received, rowid"
        ):
            found.append((each, self._asked(bytes(name), bytes(sealed))))
        return found

    def _asked(self, name: bytes, sealed: bytes) -> Request:
        told = json.loads(open_sealed(self.vault.key(name), sealed, b"request" + name))
        rounds = None if told["rounds"] is None else tuple(told["rounds"])
        samples = None if told["samples"] is None else tuple((int(a), int(b)) for a, b in told["samples"])
        return Request(told["user"], rounds, told["count"], samples)

    def _everything_of(self, ids: Sequence[str]) -> set[str]:
        """The users of whom these requests want everything forgotten: also what waits for a round."""
        marks = ",".join("?" * len(ids))
        rows = self.database.rows(f"SELECT key, sealed FROM requests WHERE id IN ({marks})", list(ids))
        asked = [self._asked(bytes(name), bytes(sealed)) for name, sealed in rows if name is not None]
        return {request.user for request in asked if request.everything}

    def staged(self, user: str) -> int:
        return sum(upload.samples for upload in self.inbox.of({user}))

    def effect(
        self, ids: Sequence[str], selection: Selection, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]
    ) -> None:
        rewrite = _Rewrite()
        for (user, round_), doomed in selection.items():
            self._rewrite(rewrite, user, round_, doomed)
        evidence = self.receipts.evidence(plans, dropped)
        self.write({**rewrite.keys, **evidence.keys}, rewrite.contents)
        staged = self.inbox.of(self._everything_of(ids))
        rewrite.old += [name for upload in staged for name in upload.names]
        waiting = sum(upload.samples for upload in staged)
        evidence.covered["staged"] = waiting
        samples = waiting + sum(len(doomed) for doomed in selection.values())
        try:
            with self.database.transaction():
                self._apply(rewrite, selection)
                self.inbox.drop(staged)
                self._let_go()
                self.receipts.replace_keys(ids[0], evidence)
                self._mark(ids, plans, samples, evidence.covered, dropped)
        except BaseException:
            self._garbage.update(rewrite.keys, evidence.keys)
            raise
        rewrite.old += evidence.old
        self._destroy(ids, rewrite, selection)
        self.inbox.dropped(staged)
        self.receipts.issue()

    def _rewrite(self, rewrite: "_Rewrite", user: str, round_: int, doomed: Positions) -> None:
        """What is left of an upload's blocks: as they are, written anew, or gone."""
        own, gone = self._blocks[user, round_], pos.array(doomed)
        left: list[bytes] = []
        for name in own.names:
            stay = ~np.isin(self.store_.meta(name).positions, gone, assume_unique=True)
            if stay.all():
                left.append(name)
                continue
            rewrite.old.append(name)
            if stay.any():
                new, key = os.urandom(16), os.urandom(32)
                rewrite.keys[new] = key
                rewrite.contents.append((new, self.store_.block(name).keeping(stay).sealed(new, key)))
                left.append(new)
        rewrite.left[user, round_] = left

    def _apply(self, rewrite: "_Rewrite", selection: Selection) -> None:
        """In a transaction: the tables hold what is left."""
        database, sizes = self.database, {name: len(data) for name, data in rewrite.contents}
        for (user, round_), left in rewrite.left.items():
            own = self._blocks[user, round_]
            database.many(
                "INSERT INTO history (kind, round, pseudonym, of_round, samples, shard) "
                "VALUES ('forget', ?, ?, ?, ?, ?)",
                self._lines(user, round_, selection[user, round_]),
            )
            forget_labels(database, self._pseudonyms[user], round_)
            database.run("DELETE FROM pieces WHERE upload=?", [own.upload_id])
            kept = dict(database.rows("SELECT key, bytes FROM blocks WHERE upload=?", [own.upload_id]))
            database.run("DELETE FROM blocks WHERE upload=?", [own.upload_id])
            if not left:
                database.run("DELETE FROM uploads WHERE id=?", [own.upload_id])
                continue
            rows = [(name, own.upload_id, part, sizes.get(name) or kept[name]) for part, name in enumerate(left)]
            database.many("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
            if left[0] != own.names[0]:
                key = rewrite.keys.get(left[0]) or self.vault.key(left[0])
                sealed = seal(key, user.encode(), b"user" + left[0])
                database.run("UPDATE uploads SET sealed_user=? WHERE id=?", [sealed, own.upload_id])
            pieces = [
                [own.upload_id, *key, _runs(held), self.ledger.lineage(key.shard)[key].piece_digest(user)]
                for key, held in self.ledger.pieces_of(user, round_)
            ]
            database.many("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)", pieces)
        database.run(
            "DELETE FROM segments WHERE NOT EXISTS (SELECT 1 FROM pieces WHERE "
            "(pieces.shard, pieces.round, pieces.slice)=(segments.shard, segments.round, segments.slice))"
        )

    def _lines(self, user: str, round_: int, doomed: Positions) -> list[list[object]]:
        """Lines for the history: how many went, from which shards, under the user's pseudonym."""
        lost: dict[int, int] = {}
        for shard, held in self.database.rows(
            "SELECT shard, positions FROM pieces WHERE upload=?", [self._blocks[user, round_].upload_id]
        ):
            lost[shard] = lost.get(shard, 0) + len(pos.common(_positions(bytes(held)), doomed))
        return [
            [self.ledger.round, self._pseudonyms[user], round_, count, shard] for shard, count in lost.items() if count
        ]

    def _mark(
        self,
        ids: Sequence[str],
        plans: Sequence[ShardPlan],
        samples: int,
        covered: dict[str, Any],
        dropped: Sequence[SegmentKey],
    ) -> None:
        now = self.clock()
        covered = {**covered, "exports": self._taint(now, plans, dropped)}
        for each in ids:
            self.database.run(
                "UPDATE requests SET effective=?, key=NULL, sealed=NULL, batch=?, samples=?, covered=? WHERE id=?",
                [now, ids[0], samples, json.dumps(covered), each],
            )
        self.database.many("INSERT OR IGNORE INTO behind VALUES (?, ?)", [[plan.shard, now] for plan in plans])

    def _taint(self, now: float, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> list[str]:
        """Exports that hold a sub-model which may have seen the samples."""
        tainted, found = set(dropped), []
        first = {plan.shard: plan.first for plan in plans}
        for export, heads in self.database.rows("SELECT id, heads FROM exports WHERE tainted IS NULL ORDER BY made"):
            keys = [SegmentKey(*head) for head in json.loads(heads)]
            if any(key in tainted or (key.shard in first and key >= first[key.shard]) for key in keys):
                self.database.run("UPDATE exports SET tainted=? WHERE id=?", [now, export])
                found.append(export)
        return found

    def _destroy(self, ids: Sequence[str], rewrite: "_Rewrite", selection: Selection) -> None:
        """The transaction is durable: now the keys go, and with them every copy of what they opened."""
        dropped, self.shelf.doomed = self.shelf.doomed, []
        self._garbage.update(rewrite.old, dropped, map(bytes.fromhex, ids))
        for name in rewrite.old:
            self.store_.drop(name)
        self.vault.erase(self._garbage)
        for files in (self.store_.files, self.shelf.files):
            files.remove(list(self._garbage))
        self._garbage.clear()
        self.database.scrub()
        for (user, round_), left in rewrite.left.items():
            if left:
                self._blocks[user, round_].names[:] = left
            else:
                del self._blocks[user, round_]
                if not self.ledger.rounds_of(user):
                    self._pseudonyms.pop(user, None)  # who returns is new

    def caught_up(self, behind: Sequence[int]) -> None:
        with self.database.transaction():
            marks = ",".join(map(str, behind))
            self.database.run(f"DELETE FROM behind WHERE shard NOT IN ({marks})")
            now = self.clock()
            self.database.many("INSERT OR IGNORE INTO behind VALUES (?, ?)", [[shard, now] for shard in behind])
            waiting = set(behind)
            for each, covered in self.database.rows(
                "SELECT id, covered FROM requests WHERE effective IS NOT NULL AND repaired IS NULL"
            ):
                if not waiting & set(json.loads(covered)["shards"]):
                    self.database.run("UPDATE requests SET repaired=? WHERE id=?", [now, each])
        self.receipts.issue()


class _Rewrite:
    """What forgetting does to blocks."""

    def __init__(self) -> None:
        self.keys: dict[bytes, bytes] = {}
        self.contents: list[tuple[bytes, bytes]] = []
        self.old: list[bytes] = []
        self.left: dict[tuple[str, int], list[bytes]] = {}


def _by_user(segments: Mapping[SegmentKey, Sequence[Piece]]) -> dict[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for pieces in segments.values():
        for piece in pieces:
            found.setdefault(piece.upload.user, []).append(piece)
    return dict(sorted(found.items()))


def _joined(pieces: Sequence[Piece]) -> ArrayUpload:
    """The upload that was cut into these pieces."""
    uploads = []
    for upload, _ in pieces:
        if not isinstance(upload, ArrayUpload):
            raise InputError(f"a home keeps samples with their data, not a {type(upload).__name__}")
        uploads.append(upload)
    return uploads[0] if len(uploads) == 1 else ArrayUpload.joined(uploads)


def _runs(positions: Positions) -> bytes:
    """A set of positions as bytes: runs of (start, stop)."""
    return pos.runs(positions)


def _positions(data: bytes) -> Positions:
    return pos.from_runs(data)


def forget_labels(database: Database, pseudonym: int, round_: int) -> None:
    """The history knows how many samples of each class arrived; of an upload that lost some it must not."""
    where = "kind='add' AND pseudonym=? AND round=?"
    database.run(f"UPDATE history SET labels=NULL WHERE {where}", [pseudonym, round_])


def _labels(piece: Piece) -> str:
    values, counts = np.unique(piece.upload.labels(piece.positions), return_counts=True)
    return json.dumps({str(value): int(count) for value, count in zip(values.tolist(), counts.tolist(), strict=True)})
