"""Checks whether a home is whole: every key has its file, every file opens, and the ledger agrees. Only reads."""

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cause.common import positions as pos
from cause.device.config import Config, parse_config, read_config
from cause.device.disk import Disk
from cause.device.home.check_rows import log_problems, row_problems
from cause.device.home.rollback_check import REMEDY, find_rollback
from cause.device.settings import ACCEPTED, PENDING, differences, format_changes, recorded
from cause.device.store.anchor import Anchor, Mark
from cause.device.store.blocks import Files, open_block
from cause.device.store.clock import Clock
from cause.device.store.database import Database
from cause.device.store.layout import BLOCKS, DEVICE_KEY, SUB_MODELS, Layout, not_a_home
from cause.device.store.named_keys import named_keys
from cause.device.store.queries import Queries, StoredRows
from cause.device.store.seals import open_identity
from cause.device.store.shelf import PLACE
from cause.device.vault import Vault, open_sealed
from cause.errors import CauseError, FormatError, HomeError, VaultError

UNREADABLE = (VaultError, HomeError, ValueError, KeyError, IndexError, TypeError, struct.error)
"""What opening sealed bytes raises if they are damaged, cut off or not sealed bytes at all."""
OTHER_FORMAT = "nothing is lost: `cause repair` upgrades a home of an older format; a newer one needs a newer program"
RESTORE = "`cause restore` with a backup puts it back, and with --discard-later drops what it does not hold"
LOST_KEYS = "check the master key; lost keys cannot be brought back"
LOST_DEVICE_KEY = "without it the home does not open; lost keys cannot be brought back"
MENDED = "the next opening for writing puts the second copy in its place"
REPLAY = "`cause repair` trains it again"
ADD_UP = "delete the files in its folder `sub-models` while no process uses the home: `cause repair` adds up again"


@dataclass(frozen=True)
class Problem:
    """A problem, and how to solve it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class Health:
    """The result of an examination."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks on what is normal after a crash, or while another process writes."""
    blocks: int = 0
    sub_models: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a dict for JSON."""
        return asdict(self) | {"healthy": not self.problems}


def examine_home(folder: str | Path) -> Health:
    """Examine a home, and list all its problems. Changes nothing.

    Raises
    ------
    HomeError
        If the folder is not a home.
    """
    layout = Layout(folder)
    problems: list[Problem] = []
    notes: list[str] = []
    if not layout.folder.is_dir() or not (layout.config.exists() or layout.vault.exists() or layout.ledger.exists()):
        raise not_a_home(folder)
    try:
        config = read_config(layout.config)
        config.source(layout.folder)
    except CauseError as error:
        return Health([Problem(str(error), "`cause restore` writes it anew from a backup; or write it yourself")])
    for path in (layout.ledger, layout.vault, layout.blocks, layout.sub_models):
        if not path.exists():
            problems.append(Problem(f"{path.name!r} is missing", _remedy(path.name)))
    if not layout.ledger.exists():
        return Health([*problems, *_vault_problems(layout, config)])
    try:
        anchor = _anchor(layout, config)
        notes += anchor.notes
        problems += anchor.problems
        with contextlib.closing(Database(layout.ledger, read_only=True)) as database:
            problems += [Problem(f"the ledger is damaged: {line}", RESTORE) for line in database.check()]
            # before the keys: a key that is erased meanwhile is not taken for lost
            rows = Queries(database).stored_rows()
            try:
                vault = Vault.open(layout.vault, config.source(layout.folder), read_only=True)
            except VaultError as error:
                return Health([*problems, Problem(str(error), LOST_KEYS)])
            with vault:
                if DEVICE_KEY in vault:  # nothing of this can be checked without it
                    problems += _age(vault, database, anchor)
                    problems += _settings(database, vault, config)
                    problems += [Problem(line, RESTORE) for line in row_problems(database, vault)]
                    problems += [Problem(line, RESTORE) for line in log_problems(database, vault)]
                problems += [Problem(line, MENDED) for line in vault.damage]
                look = _Look(layout, vault, database, rows)
                problems += look.problems()
                notes += look.strays()
                notes += filter(None, [Clock(database).doubt()])
    except FormatError as error:
        return Health([*problems, Problem(error.reason, OTHER_FORMAT)], notes)
    except HomeError as error:
        return Health([*problems, Problem(error.reason, RESTORE)], notes)
    except (ValueError, TypeError, KeyError, IndexError, struct.error, OverflowError) as error:
        return Health([*problems, Problem(f"the ledger holds a value that makes no sense: {error}", RESTORE)], notes)
    if not problems and (config.learner or {}).get("kind") == "additive":
        from cause.device.sums_check import wrong_sums

        wrong, unknown = wrong_sums(layout.folder)
        problems += [Problem(f"state {key} is not the sum of the samples that are held", ADD_UP) for key in wrong]
        notes += [] if unknown is None else [f"the samples could not be added up and compared: {unknown}"]
    return Health(problems, notes, len(rows.blocks), len(rows.sub_models))


@dataclass(frozen=True)
class _AnchorState:
    """The anchor as it was before the ledger was read: a writer advances both."""

    mark: Mark | None = None
    readable: bool = True
    """Whether the mark is that of the anchor, or of its absence."""
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def _anchor(layout: Layout, config: Config) -> _AnchorState:
    try:
        with Vault.open(layout.vault, config.source(layout.folder), read_only=True) as vault:
            anchor = Anchor(layout.vault, vault, Disk(), read_only=True)
    except FileNotFoundError:
        return _AnchorState()
    except VaultError:  # the caller reports keys that do not open
        return _AnchorState(readable=False)
    except HomeError as error:
        return _AnchorState(readable=False, problems=[Problem(error.reason, RESTORE)])
    torn = ["a copy of the anchor is damaged or torn: the next opening for writing mends it"] if anchor.damaged else []
    return _AnchorState(anchor.mark, notes=torn)


def _age(vault: Vault, database: Database, anchor: _AnchorState) -> list[Problem]:
    problem = find_rollback(vault, database, anchor.mark) if anchor.readable else None
    return [] if problem is None else [Problem(problem, REMEDY)]


def _settings(database: Database, vault: Vault, config: Config) -> list[Problem]:
    """Return whether `cause.toml` says what was accepted."""
    texts = [recorded(database, vault, name) for name in (ACCEPTED, PENDING)]
    accepted = [parse_config(text, "the ledger") for text in texts if text is not None]
    if not accepted or any(not differences(text, config) for text in accepted):
        return []
    edited = f"cause.toml was edited: {format_changes(differences(accepted[0], config))}"
    return [Problem(edited, "put it back, or take it over with `cause config HOME --accept`")]


def _vault_problems(layout: Layout, config: Config) -> list[Problem]:
    try:
        Vault.open(layout.vault, config.source(layout.folder), read_only=True).close()
    except VaultError as error:
        return [Problem(str(error), LOST_KEYS)]
    return []


def _remedy(name: str) -> str:
    return "put it back: without its keys a home is lost" if name == "vault" else RESTORE


class _Look:
    def __init__(self, layout: Layout, vault: Vault, database: Database, rows: StoredRows) -> None:
        self.layout, self.vault, self.database, self.rows = layout, vault, database, rows
        self.files = {BLOCKS: Files(layout.blocks, Disk()), SUB_MODELS: Files(layout.sub_models, Disk())}

    def problems(self) -> Iterator[Problem]:
        if DEVICE_KEY not in self.vault:
            yield Problem("the device's own key is missing", LOST_DEVICE_KEY)
        for table, row, parent, _ in self.rows.dangling:
            yield Problem(f"row {row} of table {table!r} names a row of {parent!r} that is not there", RESTORE)
        yield from self._samples()
        yield from self._sub_models()
        yield from self._requests()

    def _samples(self) -> Iterator[Problem]:
        held: dict[int, list[pos.Positions]] = {}
        firsts: dict[int, bytes] = {}
        unreadable: set[int] = set()
        for name, upload in self.rows.blocks:
            firsts.setdefault(upload, bytes(name))
            problem = self._block(bytes(name), held.setdefault(upload, []))
            if problem:
                unreadable.add(upload)  # its positions cannot be compared
                if self._still("blocks", bytes(name)):
                    yield Problem(f"samples in {self.files[BLOCKS].path(bytes(name)).name}: {problem}", RESTORE)
        for name, _ in self.rows.staged:
            problem = self._block(bytes(name), [])
            if problem and self._still("staged", bytes(name)):
                yield Problem(f"staged samples in {self.files[BLOCKS].path(bytes(name)).name}: {problem}", RESTORE)
        for upload, sealed in self.rows.uploads:
            first = firsts.get(upload)
            try:
                if first is None:
                    raise VaultError("it has no block")
                open_sealed(self.vault.key(first), bytes(sealed), b"user" + first)
            except VaultError as error:
                if self._still("uploads", bytes(sealed), "sealed_user"):  # a forget seals the name anew
                    yield Problem(f"the user of upload {upload} cannot be read: {error}", RESTORE)
        pieces = self._pieces()
        for upload in sorted({*pieces, *held} - unreadable):
            named, there = pos.union(pieces.get(upload, [])), pos.union(held.get(upload, []))
            if len(pos.minus(named, there)):
                yield Problem(f"upload {upload} has samples in the ledger that no block holds", RESTORE)
            if len(pos.minus(there, named)) and self._still("uploads", upload, "id"):
                yield Problem(f"upload {upload} has samples in its blocks that the ledger does not name", RESTORE)

    def _pieces(self) -> dict[int, list[pos.Positions]]:
        pieces: dict[int, list[pos.Positions]] = {}
        for upload, runs in self.rows.pieces:
            pieces.setdefault(upload, []).append(pos.from_runs(bytes(runs)))
        return pieces

    def _block(self, name: bytes, held: list[pos.Positions]) -> str | None:
        if name not in self.vault:
            return "their key is gone"
        try:
            block = open_block(name, self.vault.key(name), self.files[BLOCKS].read(name))
        except UNREADABLE as error:
            return str(error)
        held.append(pos.from_values(block.positions.tolist()))
        return None

    def _sub_models(self) -> Iterator[Problem]:
        for shard, round_, name, identity in self.rows.sub_models:
            name = bytes(name)
            try:
                open_identity(self.vault, name, bytes(identity))
                self.vault.open_sealed(name, self.files[SUB_MODELS].read(name), PLACE)
            except UNREADABLE as error:
                if self._still("sub_models", name):
                    yield Problem(f"sub-model ({shard},{round_}): {error}", REPLAY)

    def _requests(self) -> Iterator[Problem]:
        for id_, name, effective in self.rows.requests:
            lost = name is None or (bytes(name) not in self.vault and self._still("requests", bytes(name)))
            if effective is None and lost:
                yield Problem(f"request {id_} is not in effect and cannot be read any more", "ask for it again")

    def strays(self) -> Iterator[str]:
        """Yield notes on keys and files that nothing uses: left by a crash, or of evicted sub-models."""
        named = named_keys(self.database)
        keys = self.vault.names() - named
        in_use = {name.hex() for name in named}
        present = [files for files in self.files.values() if files.folder.exists()]
        strange = [files.folder / name for files in present for name in files.names() if name not in in_use]
        folders = [path for path in strange if path.is_dir() and not path.is_symlink()]
        unknown = len(strange) - len(folders)
        if keys:
            yield f"{len(keys)} keys that nothing uses: the next opening for writing destroys them"
        if unknown:
            yield f"{unknown} files that nothing uses: the next opening for writing removes them"
        for path in folders:
            yield f"{str(path)!r} is a folder that is not the home's: it is left alone"

    def _still(self, table: str, value: bytes | int, column: str = "key") -> bool:
        """Return whether a table still has a row: another process may have deleted it meanwhile."""
        return Queries(self.database).has(table, value, column)
