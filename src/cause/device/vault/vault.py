"""The vault: data keys that are added in batches and destroyed for good.

Only one process may write at a time; the caller must ensure that. After an error of the disk the next change first
reads the files again, as an opening does, which finishes or undoes the interrupted change; keys that could not be added
are destroyed, if they were stored all the same.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from cause.common.files import absolute
from cause.device.disk import Disk, OpenFile
from cause.device.vault import keyfile, old_format, sealing, writing
from cause.device.vault.loading import FILES, ROOT, Files, Loaded, load
from cause.device.vault.mirrored_file import COPY
from cause.device.vault.partitions import Partitions
from cause.device.vault.sealing import KEY_BYTES, derive
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.device.vault.sources import KeySource, RotatingFileKeySource, RotatingKeySource
from cause.device.vault.writing import PAGE_BYTES, Writer, failing
from cause.errors import VaultError

_CLOSED = "was closed"
_ATTEMPTS = 20  # of a reader, while another process erases


class Vault:
    """Keys by name. `create` or `open` one.

    Attributes
    ----------
    damage : list of str
        What was damaged at opening and was read from its second copy: one line each. Opening for writing has
        restored it.
    sync_with : list of OpenFile
        Further files that are synced whenever the vault's own are: in `put_many`, `erase` and `close`.
    on_recovery : list of callable
        Called when the vault goes on after an error of the disk: what waited for a sync in those files may be lost, and
        has to be written again.

    >>> import tempfile
    >>> from cause.device.vault.sources import EnvKeySource, new_master_key
    >>> master = EnvKeySource("MASTER", {"MASTER": new_master_key()})
    >>> with tempfile.TemporaryDirectory() as folder, Vault.create(Path(folder) / "vault", master) as vault:
    ...     name = os.urandom(16)
    ...     key = vault.new_key(name)
    ...     blob = vault.seal(name, b"a block of samples")
    ...     print(vault.open_sealed(name, blob), vault.generation)
    ...     destroyed = vault.erase([name])
    ...     print(name in vault, vault.generation)
    b'a block of samples' 1
    False 2
    """

    def __init__(self, folder: Path, source: KeySource, disk: Disk, read_only: bool) -> None:
        self.folder = folder
        self.damage: list[str] = []
        self._source = source
        self._disk = disk
        self._lock = threading.RLock()
        self._refusal = "was opened for reading only" if read_only else None
        self._failed = False  # the disk refused a change, and what became of it is not known
        self._unstored: frozenset[bytes] = frozenset()  # of a change that was to add them, and failed
        self._files = Files(disk, folder)
        self._writer: Writer | None = None
        self._partitions = Partitions()
        with wiping(read_master(source)) as master:
            with failing(f"cannot read the vault {str(folder)!r}"):
                loaded = self._load(master)
            if not read_only and isinstance(loaded, old_format.OldVault):
                with failing(f"cannot bring the vault {str(folder)!r} to this version's format"):
                    loaded = self._migrate(loaded, master)
            self.sync_with: list[OpenFile] = []
            self.on_recovery: list[Callable[[], None]] = []
            if isinstance(loaded, old_format.OldVault):
                self._number = loaded.number
                self._partitions = loaded.partitions()
                return
            self._number = loaded.generation.number
            self.damage = loaded.damage
            self._partitions = Partitions(dict(enumerate(loaded.partitions)))
            if not read_only:
                self._open_for_writing(loaded, master)

    @classmethod
    def create(
        cls, folder: str | Path, source: KeySource, disk: Disk | None = None, *, page_bytes: int = PAGE_BYTES
    ) -> "Vault":
        """Make a new, empty vault. The files of an interrupted `create` are replaced; any other file is refused.

        Parameters
        ----------
        page_bytes : int
            Size of a page of keys, the unit that an erasure writes anew.

        Raises
        ------
        VaultError
            The folder holds something else, or cannot be written.
        """
        path, disk = absolute(folder), disk or Disk()
        with wiping(read_master(source)) as master, failing(f"cannot create a vault in {str(path)!r}"):
            if not disk.exists(path):
                disk.make_folder(path)
            disk.sync_folder(path.parent)
            names = disk.names(path)
            pending = (ROOT + ".part", *(name for name in FILES if name not in (ROOT, ROOT + COPY)))
            foreign = [name for name in names if name not in pending]
            if foreign:
                raise VaultError(f"cannot create a vault in {str(path)!r}: it has {foreign[0]!r} already")
            for name in names:  # without `root` they cannot be opened
                disk.unlink(path / name)
            writing.create(disk, path, master, page_bytes, rows=bytearray())
        return cls(path, source, disk, read_only=False)

    @classmethod
    def open(
        cls, folder: str | Path, source: KeySource, disk: Disk | None = None, *, read_only: bool = False
    ) -> "Vault":
        """Open a vault, and finish or undo an interrupted change. Opening it for reading changes nothing.

        Parameters
        ----------
        folder
            The vault's folder.
        source
            Where the master key comes from.
        disk
            How files are reached; tests replace it.
        read_only
            Open it beside the process that writes it.

        Raises
        ------
        VaultError
            There is no vault, the master key is another one, or both copies of a file are damaged. Nothing was changed
            then.
        """
        return cls(absolute(folder), source, disk or Disk(), read_only)

    @property
    def generation(self) -> int:
        """A number that grows with each erasure (by more than one if it takes several steps)."""
        return self._number

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, name: bytes) -> bool:
        with self._lock:
            return self._partitions.place(name) is not None

    def names(self) -> frozenset[bytes]:
        """Return the names of all keys."""
        with self._lock:
            return self._partitions.names()

    def key(self, name: bytes) -> bytes:
        """Return a copy of a data key, which stays in memory (`borrow` overwrites it); VaultError if there is none."""
        with self._lock:
            return bytes(self._view(name))

    @contextlib.contextmanager
    def borrow(self, name: bytes) -> Iterator[bytearray]:
        """Lend a copy of a data key that is overwritten when the block ends; VaultError if there is none."""
        with self._lock:
            key = bytearray(self._view(name))
        try:
            yield key
        finally:
            wipe(key)

    def new_key(self, name: bytes) -> bytes:
        """Make a key, durably, and return it."""
        return self.new_keys([name])[name]

    def new_keys(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """Make keys, durably, all of them or none, and return them. `add_keys` makes no copies."""
        keys = {name: os.urandom(KEY_BYTES) for name in names}
        self.put_many(keys)
        return keys

    def add_keys(self, names: Iterable[bytes]) -> None:
        """Make keys, durably, all of them or none, without a copy of them outside the vault."""
        distinct = dict.fromkeys(names)
        with wiping(os.urandom(KEY_BYTES * len(distinct))) as drawn:
            view = memoryview(drawn)
            self._put({name: view[at * KEY_BYTES : (at + 1) * KEY_BYTES] for at, name in enumerate(distinct)})

    def put_many(self, keys: Mapping[bytes, bytes]) -> None:
        """Add keys that were made elsewhere, durably: all of them or none.

        Raises
        ------
        VaultError
            A name exists or has a wrong length, there is no room (nothing has changed then), or the disk failed.
        """
        self._put(keys)

    def erase(self, names: Iterable[bytes]) -> frozenset[bytes]:
        """Destroy keys, durably, and return the names of those that existed.

        When this returns, neither the vault's files nor any older copy of a page or table can be opened to get them.
        It needs no room on the disk. Keys of many pages take several steps.

        Raises
        ------
        VaultError
            If the disk refuses. Some of the keys may be destroyed then, and the others are whole.
        """
        with self._lock:
            return self._erase(self._check_writable(), names)

    def seal(self, name: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
        """Seal bytes under a data key; VaultError if there is none."""
        with wiping(self._derived(name, "seal")) as derived:
            return sealing.seal_derived(derived, plaintext, aad)

    def open_sealed(self, name: bytes, blob: bytes, aad: bytes = b"") -> bytes:
        """Open bytes that were sealed under a data key; VaultError if there is no such key or they are damaged."""
        with wiping(self._derived(name, "seal")) as derived:
            return sealing.open_derived(derived, blob, aad)

    def commit(self, name: bytes, digest: bytes) -> bytes:
        """Commit to a digest with a data key; once the key is destroyed, no guess can be checked against it."""
        with self._lock:
            return sealing.commitment(self._view(name), digest)

    def joint_key(self, names: Iterable[bytes]) -> bytes:
        """Derive a key from several data keys, in this order."""
        with self._lock:
            return sealing.joint_key(self._view(name) for name in names)

    def close(self) -> None:
        """Sync and close the files, and overwrite all keys in memory."""
        with self._lock:
            writer, self._writer = self._writer, None
            whole = self._refusal is None and not self._failed
            self._refusal = _CLOSED
            try:
                if writer is not None and whole:
                    with failing(f"cannot sync the vault {str(self.folder)!r}"):
                        writer.sync(self._files.all, self.sync_with)
            finally:
                for twin in self._files.all:
                    twin.close()
                if writer is not None:
                    writer.wipe()
                self._partitions.wipe()

    def __enter__(self) -> "Vault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, keys: Mapping[bytes, bytes | memoryview]) -> None:
        with self._lock:
            writer = self._check_writable()
            for name, key in keys.items():
                if len(name) != keyfile.NAME_BYTES or len(key) != KEY_BYTES:
                    raise VaultError(
                        f"key {_show(name)} has a name of {len(name)} and a key of {len(key)} bytes, "
                        f"expected {keyfile.NAME_BYTES} and {KEY_BYTES}"
                    )
                if self._partitions.place(name) is not None:
                    raise VaultError(f"key {_show(name)} exists already: give each block a name of its own")
            if not keys:
                return
            rows = bytearray(len(keys) * keyfile.ROW_BYTES)
            for at, (name, key) in zip(range(0, len(rows), keyfile.ROW_BYTES), keys.items(), strict=True):
                rows[at : at + keyfile.NAME_BYTES] = name
                memoryview(rows)[at + keyfile.NAME_BYTES : at + keyfile.ROW_BYTES] = key  # makes no further copy
            with wiping(rows):
                place = writer.prepare(len(keys))
                self._unstored = frozenset(keys)
                with self._committing("keys may not have been stored"):
                    writer.put(place, rows, self.sync_with)
                self._unstored = frozenset()

    def _erase(self, writer: Writer, names: Iterable[bytes]) -> frozenset[bytes]:
        places: dict[int, set[bytes]] = {}
        for name in names:
            if (place := self._partitions.place(name)) is not None:
                places.setdefault(place, set()).add(name)
        erased = frozenset(name for page_names in places.values() for name in page_names)
        while places:
            with self._committing("an erasure may not have been finished"):
                writer.erase(places, self.sync_with)
                self._number = writer.generation.number
        return erased

    def _view(self, name: bytes) -> memoryview:
        place = self._partitions.place(name)
        if place is None and self._refusal == _CLOSED:
            raise VaultError(f"the vault {str(self.folder)!r} {_CLOSED}: open it again to use it")
        if place is None:
            raise VaultError(f"no key {_show(name)}: it was destroyed or never made")
        return self._partitions.pages[place].rows.key(name)

    def _derived(self, name: bytes, purpose: str) -> bytes:
        with self._lock:
            return derive(self._view(name), purpose)

    def _load(self, master: bytes | bytearray) -> Loaded | old_format.OldVault:
        """Read the files, and read them again if something looks damaged while another process writes.

        The two copies of a file are read one after the other: keys that are added in between are missing in the first.
        So damage counts only if the files did not change while they were read.
        """
        for attempt in range(_ATTEMPTS):
            before, roots = self._fingerprint() if attempt else b"", self._roots()
            try:
                loaded = self._read(roots, master)
                if not loaded.damage or (attempt and self._fingerprint() == before):
                    return loaded
                loaded.wipe()
            except (VaultError, FileNotFoundError):
                if attempt + 1 == _ATTEMPTS or self._roots() == roots:
                    raise
        raise VaultError(f"the vault {str(self.folder)!r} changed {_ATTEMPTS} times while it was read: try again")

    def _roots(self) -> list[bytes]:
        """Return the bytes of the slots, which change when another process erases; those of the old format too."""
        if len(self._files.root.missing()) < 2:
            return self._files.root.read()
        if self._disk.exists(self.folder / old_format.WRAP):
            return [self._disk.read(self.folder / old_format.WRAP)]
        return []

    def _fingerprint(self) -> bytes:
        """Return a digest of all files: it is the same if nothing was written in between."""
        digest = hashlib.sha256()
        for twin in self._files.all:
            for copy in twin.read() if len(twin.missing()) < 2 else ():
                digest.update(b"%d:" % len(copy) + copy)
        return digest.digest()

    def _read(self, roots: list[bytes], master: bytes | bytearray) -> Loaded | old_format.OldVault:
        if not roots:
            raise VaultError(f"no vault in {str(self.folder)!r}: {ROOT!r} is missing")
        if len(roots) == 1:
            return old_format.read(self._disk, self.folder, roots[0], master)
        return load(self._files, roots, master)

    def _migrate(self, old: old_format.OldVault, master: bytes | bytearray) -> Loaded:
        with wiping(old.rows):
            old_format.remove_new(self._disk, self.folder)
            try:
                writing.create(self._disk, self.folder, master, PAGE_BYTES, old.rows, old.number)
            except OSError:
                with contextlib.suppress(OSError):  # give the room back; the old files are as they were
                    old_format.remove_new(self._disk, self.folder)
                raise
        loaded = self._load(master)
        assert isinstance(loaded, Loaded)
        return loaded

    def _open_for_writing(self, loaded: Loaded, master: bytes | bytearray) -> None:
        with failing(f"cannot open the vault {str(self.folder)!r} for writing"):
            try:
                self._writer = self._opened(loaded, self._partitions, master)
                old_format.remove_old(self._disk, self.folder)
            except BaseException:
                self._refusal = "could not be opened"
                self.close()
                raise

    def _opened(self, loaded: Loaded, partitions: Partitions, master: bytes | bytearray) -> Writer:
        """Open the files for writing, and finish or undo what was interrupted."""
        source = self._source if isinstance(self._source, RotatingKeySource) else None
        for twin in self._files.all:
            twin.close()
            twin.open()
        writer = Writer(self._disk, self._files, partitions, loaded, source, master)
        try:
            writer.recover(loaded)
        except BaseException:
            writer.wipe()
            raise
        return writer

    def _check_writable(self) -> Writer:
        if self._refusal or self._writer is None:
            raise VaultError(f"the vault {str(self.folder)!r} {self._refusal}: open it again to change it")
        if self._failed:
            self._writer = self._recovered(self._writer)
        if self._unstored:  # they are read, but a power loss may still take them away
            self._erase(self._writer, self._unstored)
            self._unstored = frozenset()
        return self._writer

    def _recovered(self, failed: Writer) -> Writer:
        """Go on after an error of the disk: only what is on the disk says what became of the change.

        Until all of it has succeeded, the keys in memory stay as they are, and the next change tries again.
        """
        rotates = isinstance(self._source, RotatingKeySource)
        with (
            wiping(read_master(self._source) if rotates else failed.master()) as master,
            failing(f"the vault {str(self.folder)!r} still has an error of the disk"),
        ):
            loaded = self._load(master)
            assert isinstance(loaded, Loaded)
            partitions = Partitions(dict(enumerate(loaded.partitions)))
            try:
                for call in self.on_recovery:
                    call()
                writer = self._opened(loaded, partitions, master)
            except BaseException:
                loaded.wipe()
                raise
        failed.wipe()
        self._partitions.wipe()
        self._partitions, self._number, self.damage = partitions, writer.generation.number, loaded.damage
        self._failed = False
        return writer

    @contextlib.contextmanager
    def _committing(self, consequence: str) -> Iterator[None]:
        """Note an error of the disk: only reading the vault again shows what is on it."""
        try:
            with failing(f"{consequence} in {str(self.folder)!r}"):
                yield
        except BaseException:
            self._failed = True
            raise


def read_master(source: KeySource) -> bytearray:
    """Return the master key, in a buffer that can be overwritten."""
    key = source.read()
    master = bytearray(key)
    if isinstance(source, RotatingFileKeySource):  # our own class: nothing else refers to these bytes
        wipe(key)
    return master


def _show(name: bytes) -> str:
    return name.hex()[:32] or "''"
