"""Whether a home is whole: every key has its file, every file opens, and the ledger agrees. Changes nothing."""

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cause import positions as pos
from cause.disk import Disk
from cause.errors import CauseError, HomeError, VaultError
from cause.home.blocks import Files, open_block
from cause.home.config import read_config
from cause.home.database import Database
from cause.home.home import DEVICE_KEY
from cause.home.layout import BLOCKS, SUB_MODELS, Layout
from cause.home.shelf import PLACE
from cause.vault import Vault, open_sealed

UNREADABLE = (VaultError, HomeError, ValueError, KeyError, IndexError, TypeError, struct.error)
"""What opening sealed bytes raises when they are damaged, cut off or something else."""
RESTORE = "`cause restore` with a backup puts it back, or drops what nobody has"
REPLAY = "`cause repair` trains it again"


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and the way out."""

    what: str
    remedy: str


@dataclass(frozen=True)
class Health:
    """What was found."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is as it should be after a crash, or while another process writes."""
    blocks: int = 0
    sub_models: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"healthy": not self.problems}


def examine_home(folder: str | Path) -> Health:
    """Look at all of a home; every problem is listed, not only the first."""
    layout = Layout(folder)
    problems: list[Problem] = []
    notes: list[str] = []
    if not layout.folder.is_dir() or not (layout.config.exists() or layout.vault.exists() or layout.ledger.exists()):
        raise HomeError(f"{str(folder)!r} is not a home: `cause init` makes one")
    try:
        config = read_config(layout.config)
    except CauseError as error:
        return Health([Problem(str(error), "`cause restore` writes it anew from a backup; or write it yourself")])
    for path in (layout.ledger, layout.vault, layout.blocks, layout.sub_models):
        if not path.exists():
            problems.append(Problem(f"{path.name!r} is missing", _remedy(path.name)))
    with contextlib.ExitStack() as opened:
        try:
            vault = opened.enter_context(Vault.open(layout.vault, config.source(layout.folder), read_only=True))
        except VaultError as error:
            return Health([*problems, Problem(str(error), "check the master key; lost keys cannot be brought back")])
        if DEVICE_KEY not in vault:
            problems.append(Problem("the device's own key is missing", "receipts and backups cannot be made any more"))
        if not layout.ledger.exists():
            return Health(problems)
        try:
            database = Database(layout.ledger, read_only=True)
        except HomeError as error:
            return Health([*problems, Problem(_told(error), RESTORE)])
        opened.callback(database.close)
        try:
            found = [*_Look(layout, vault, database).problems(notes)]
            counts = [database.row(f"SELECT count(*) FROM {table}")[0] for table in ("blocks", "sub_models")]
        except HomeError as error:
            return Health([*problems, Problem(_told(error), RESTORE)], notes)
        return Health(problems + found, notes, *counts)


def _told(error: HomeError) -> str:
    return str(error).removesuffix("; `cause doctor --home` tells more")  # it is telling


def _remedy(name: str) -> str:
    return "put it back: without its keys a home is lost" if name == "vault" else RESTORE


class _Look:
    def __init__(self, layout: Layout, vault: Vault, database: Database) -> None:
        self.layout, self.vault, self.database = layout, vault, database
        self.files = {BLOCKS: Files(layout.blocks, Disk()), SUB_MODELS: Files(layout.sub_models, Disk())}

    def problems(self, notes: list[str]) -> Iterator[Problem]:
        damaged = self.database.check()
        for line in damaged:
            yield Problem(f"the ledger is damaged: {line}", RESTORE)
        for table, row, parent, _ in self.database.rows("PRAGMA foreign_key_check"):
            yield Problem(f"row {row} of table {table!r} names a row of {parent!r} that is not there", RESTORE)
        yield from self._samples()
        yield from self._sub_models()
        yield from self._requests()
        self._strays(notes)

    def _samples(self) -> Iterator[Problem]:
        held: dict[int, list[pos.Positions]] = {}
        firsts: dict[int, bytes] = {}
        for name, upload in self.database.rows("SELECT key, upload FROM blocks ORDER BY upload, part"):
            firsts.setdefault(upload, bytes(name))
            problem = self._block(bytes(name), held.setdefault(upload, []))
            if problem and self._still("blocks", bytes(name)):
                yield Problem(f"samples in {self.files[BLOCKS].path(bytes(name)).name}: {problem}", RESTORE)
                held[upload].append(range(-1, 0))  # the positions cannot be compared
        for upload, sealed in self.database.rows("SELECT id, sealed_user FROM uploads"):
            first = firsts.get(upload)
            try:
                if first is None:
                    raise VaultError("it has no block")
                open_sealed(self.vault.key(first), bytes(sealed), b"user" + first)
            except VaultError as error:
                if self._still("uploads", upload, "id"):
                    yield Problem(f"upload {upload} does not tell whose it is: {error}", RESTORE)
        for upload, parts in self._pieces().items():
            there = held.get(upload, [])
            if any(part[0] < 0 for part in there if len(part)):
                continue
            wanted = pos.union(parts)
            if len(pos.minus(wanted, pos.union(there))) and self._still("uploads", upload, "id"):
                yield Problem(f"upload {upload} has samples in the ledger that no block holds", RESTORE)

    def _pieces(self) -> dict[int, list[pos.Positions]]:
        found: dict[int, list[pos.Positions]] = {}
        for upload, runs in self.database.rows("SELECT upload, positions FROM pieces"):
            found.setdefault(upload, []).append(pos.from_runs(bytes(runs)))
        return found

    def _block(self, name: bytes, held: list[pos.Positions]) -> str | None:
        if name not in self.vault:
            return "their key is gone"
        try:
            block = open_block(name, self.vault.key(name), self.files[BLOCKS].read(name))
        except UNREADABLE as error:
            return str(error)
        held.append(pos.of(block.positions.tolist()))
        return None

    def _sub_models(self) -> Iterator[Problem]:
        for shard, round_, name in self.database.rows("SELECT shard, round, key FROM sub_models"):
            name = bytes(name)
            try:
                self.vault.open_sealed(name, self.files[SUB_MODELS].read(name), PLACE)
            except UNREADABLE as error:
                if self._still("sub_models", name):
                    yield Problem(f"sub-model ({shard},{round_}): {error}", REPLAY)

    def _requests(self) -> Iterator[Problem]:
        for each, name in self.database.rows("SELECT id, key FROM requests WHERE effective IS NULL"):
            if name is None or (bytes(name) not in self.vault and self._still("requests", bytes(name))):
                yield Problem(f"request {each} is not in effect and cannot be read any more", "ask for it again")

    def _strays(self, notes: list[str]) -> None:
        named = {
            bytes(key)
            for (key,) in self.database.rows(
                "SELECT key FROM blocks UNION ALL SELECT key FROM sub_models "
                "UNION ALL SELECT key FROM requests WHERE key IS NOT NULL"
            )
        }
        keys = self.vault.names() - named - {DEVICE_KEY}
        strays = [name for files in self.files.values() if files.folder.exists() for name in files.names()]
        unknown = [name for name in strays if name not in {each.hex() for each in named}]
        if keys:
            notes.append(f"{len(keys)} keys that nothing uses: the next opening for writing destroys them")
        if unknown:
            notes.append(f"{len(unknown)} files that nothing uses: the next opening for writing removes them")

    def _still(self, table: str, value: bytes | int, column: str = "key") -> bool:
        """Whether the ledger still names it: another process may have let go of it meanwhile."""
        return self.database.row(f"SELECT 1 FROM {table} WHERE {column}=?", [value]) is not None
