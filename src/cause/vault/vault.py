"""The vault: data keys that are added in batches and destroyed for good.

One process writes at a time; the caller sees to that. After an error of the disk the object refuses to write: open the
vault again, which finishes or undoes what was under way.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.disk import Disk, OpenFile
from cause.errors import VaultError
from cause.vault import keyfile, sealing
from cause.vault.sealing import KEY_BYTES, derive
from cause.vault.slots import Slot, other_is_empty, put_slot, read_slots, slot_file, wipe_other
from cause.vault.sources import KeySource, RotatingKeySource
from cause.vault.table import NAME_BYTES, KeyTable, Removal

WRAP = "wrap"
KEYS = ("keys.0", "keys.1")
FILES = (WRAP, *KEYS)  # what no backup may contain
CHUNK_BYTES = 64 * 1024  # by how much key files grow: 1,365 keys
_MAGIC = b"CAUSEWRP"
_NONCE_BYTES = 12
_ATTEMPTS = 5  # of a reader, while another process erases


@dataclass(frozen=True)
class _Generation:
    """What one erasure leads to: its number, its wrapping key, and the slot that holds it."""

    number: int
    wrapping: bytes
    vault_id: bytes
    slot: Slot

    @property
    def head(self) -> bytes:
        return keyfile.head(self.number, self.vault_id)

    @property
    def keys(self) -> str:
        return KEYS[self.number % 2]

    @property
    def spare(self) -> str:
        return KEYS[(self.number + 1) % 2]


@dataclass(frozen=True)
class _Loaded:
    generation: _Generation
    contents: keyfile.Contents
    wrap: bytes
    spare: bytes


class Vault:
    """Keys by name. `create` or `open` one.

    >>> import tempfile
    >>> from cause.vault.sources import EnvKeySource, new_master_key
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

    def __init__(self, folder: Path, source: KeySource, disk: Disk, chunk_bytes: int, read_only: bool) -> None:
        self.folder = folder
        self._source = source
        self._disk = disk
        self._chunk_bytes = chunk_bytes
        self._lock = threading.RLock()
        self._files: dict[str, OpenFile] = {}
        self._refusal = "was opened for reading only" if read_only else None
        self._master = source.read()
        with _failing(f"cannot read the vault {str(folder)!r}"):
            loaded = self._load()
        self._generation = loaded.generation
        self._end, self._records = loaded.contents.end, loaded.contents.records
        self._table = KeyTable(loaded.contents.rows)
        if not read_only:
            with _failing(f"cannot open the vault {str(folder)!r} for writing"):
                try:
                    self._recover(loaded)
                except BaseException:
                    self.close()
                    raise

    @classmethod
    def create(
        cls, folder: str | Path, source: KeySource, disk: Disk | None = None, *, chunk_bytes: int = CHUNK_BYTES
    ) -> "Vault":
        """A new, empty vault. What a `create` that was cut short left behind is replaced, anything else refused."""
        path, disk = Path(folder), disk or Disk()
        master = source.read()
        with _failing(f"cannot create a vault in {str(path)!r}"):
            if not disk.exists(path):
                disk.make_folder(path)
                disk.sync_folder(path.parent)
            names = disk.names(path)
            foreign = [name for name in names if name not in (*KEYS, WRAP + ".part")]
            if foreign:
                raise VaultError(f"cannot create a vault in {str(path)!r}: it has {foreign[0]!r} already")
            for name in names:  # without `wrap` nobody can open these
                disk.unlink(path / name)
            generation = _new_generation(1, os.urandom(keyfile.ID_BYTES), master)
            for name in KEYS:
                file = disk.create(path / name)
                try:
                    data = bytearray(chunk_bytes)
                    if name == generation.keys:
                        first = generation.head + keyfile.record(generation.wrapping, generation.head, 0, b"")
                        data[: len(first)] = first
                    file.write_at(0, data)
                    disk.sync(file)
                finally:
                    file.close()
            disk.sync_folder(path)
            disk.write_whole(path / WRAP, slot_file(_MAGIC, generation.slot))  # from here on it is a vault
        return cls(path, source, disk, chunk_bytes, read_only=False)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        source: KeySource,
        disk: Disk | None = None,
        *,
        read_only: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> "Vault":
        """An existing vault, after finishing what was under way. Read-only opens change nothing."""
        return cls(Path(folder), source, disk or Disk(), chunk_bytes, read_only)

    @property
    def generation(self) -> int:
        """One more than the erasures so far."""
        return self._generation.number

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: bytes) -> bool:
        return name in self._table

    def names(self) -> frozenset[bytes]:
        """The names of all keys."""
        with self._lock:
            return self._table.names()

    def key(self, name: bytes) -> bytes:
        """The data key of that name."""
        with self._lock:
            if name not in self._table:
                raise VaultError(f"no key {_show(name)}: it was destroyed or never made")
            return self._table.key(name)

    def new_key(self, name: bytes) -> bytes:
        """Make a key, durably."""
        return self.new_keys([name])[name]

    def new_keys(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """Make keys, durably: all of them or none."""
        keys = {name: os.urandom(KEY_BYTES) for name in names}
        self.put_many(keys)
        return keys

    def put_many(self, keys: Mapping[bytes, bytes]) -> None:
        """Add keys that were made elsewhere, durably: all of them or none."""
        with self._lock:
            self._check_writable()
            for name, key in keys.items():
                if len(name) != NAME_BYTES or len(key) != KEY_BYTES:
                    raise VaultError(
                        f"key {_show(name)} has a name of {len(name)} and a key of {len(key)} bytes, "
                        f"expected {NAME_BYTES} and {KEY_BYTES}"
                    )
                if name in self._table:
                    raise VaultError(f"key {_show(name)} exists already: give each block a name of its own")
            if not keys:
                return
            rows = b"".join(name + key for name, key in keys.items())
            self._reserve(self._end + keyfile.record_bytes(len(keys)))
            data = keyfile.record(self._generation.wrapping, self._generation.head, self._records, rows)
            file = self._files[self._generation.keys]
            with self._committing("keys may not have been stored"):
                file.write_at(self._end, data)
                self._disk.sync(file)
            self._end += len(data)
            self._records += 1
            self._table.extend(rows)

    def erase(self, names: Iterable[bytes]) -> frozenset[bytes]:
        """Destroy keys, durably, and say which there were; others are gone already.

        When this returns, no byte of the vault's files opens to them, nor does any older copy of a key file.
        """
        with self._lock:
            self._check_writable()
            gone = frozenset(name for name in names if name in self._table)
            if gone:
                self._rewrite(self._table.without(gone))
            return gone

    def seal(self, name: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
        """Bytes that only the key of that name opens."""
        return sealing.seal(self.key(name), plaintext, aad)

    def open_sealed(self, name: bytes, blob: bytes, aad: bytes = b"") -> bytes:
        """What was sealed under the key of that name."""
        return sealing.open_sealed(self.key(name), blob, aad)

    def commit(self, name: bytes, digest: bytes) -> bytes:
        """A commitment to a digest; once the key is destroyed, nobody can check a guess against it."""
        return sealing.commitment(self.key(name), digest)

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
            self._refusal = self._refusal or "was closed"

    def __enter__(self) -> "Vault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # How a generation follows another. At each point at least one of the two can be opened, and `_load` takes the
    # newer one: its slot and its key file are made durable before anything of the old one is touched.

    def _rewrite(self, removal: Removal) -> None:
        old = self._generation
        rotating = self._source if isinstance(self._source, RotatingKeySource) else None
        master = os.urandom(KEY_BYTES) if rotating else self._master
        new = _new_generation(old.number + 1, old.vault_id, master)
        wrap, keys, old_keys = self._files[WRAP], self._files[new.keys], self._files[old.keys]
        data = new.head + keyfile.record(new.wrapping, new.head, 0, removal.rows)
        with self._committing("an erasure may not have been finished"):
            keys.write_at(0, data)
            put_slot(wrap, _MAGIC, new.slot)
            self._disk.sync(keys, wrap)
            if rotating:
                rotating.rotate(master)
            wipe_other(wrap, new.slot)
            old_keys.write_at(0, bytes(self._end))  # opens no more, so this need not be durable: `_recover` repeats it
            self._disk.sync(wrap)
        self._table.apply(removal)
        self._generation, self._master = new, master
        self._end, self._records = len(data), 1

    def _load(self) -> _Loaded:
        for attempt in range(_ATTEMPTS):
            wrap = self._read(WRAP)
            try:
                return self._newest(wrap)
            except VaultError:
                if attempt + 1 == _ATTEMPTS or self._read(WRAP) == wrap:  # nobody erased meanwhile: it is so
                    raise
        raise AssertionError("unreachable")

    def _newest(self, wrap: bytes) -> _Loaded:
        """The newest generation that is whole."""
        slots = read_slots(self.folder / WRAP, _MAGIC, wrap)
        generations = [generation for slot in slots if (generation := _open_slot(slot, self._master)) is not None]
        if not generations:
            raise VaultError(f"the master key does not open {str(self.folder / WRAP)!r}: it is another vault's")
        for generation in generations:
            path = self.folder / generation.keys
            try:
                contents = keyfile.read(
                    path, self._read(generation.keys), generation.wrapping, generation.number, generation.vault_id
                )
            except VaultError:
                if generation is generations[-1]:
                    raise
                continue  # a power loss came before this generation was whole; the one before still is
            return _Loaded(generation, contents, wrap, self._read(generation.spare))
        raise AssertionError("unreachable")

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            raise VaultError(f"no vault in {str(self.folder)!r}: {name!r} is missing") from None

    def _recover(self, loaded: _Loaded) -> None:
        """Destroy what an erasure or an upload that was cut short left behind."""
        generation = loaded.generation
        if isinstance(self._source, RotatingKeySource):
            self._source.settle()
        for name in FILES:
            self._files[name] = self._disk.open(self.folder / name)
        changed = []
        if not other_is_empty(loaded.wrap, generation.slot):
            wipe_other(self._files[WRAP], generation.slot)
            changed.append(self._files[WRAP])
        if loaded.spare.strip(b"\0"):
            self._files[generation.spare].write_at(0, bytes(len(loaded.spare)))
            changed.append(self._files[generation.spare])
        if loaded.contents.torn:
            file = self._files[generation.keys]
            file.write_at(self._end, bytes(file.size() - self._end))
            changed.append(file)
        if changed:
            self._disk.sync(*changed)
        with contextlib.suppress(VaultError):  # a full disk must not keep a vault from being opened
            self._reserve(self._end)

    def _reserve(self, size: int) -> None:
        """Let both key files have that size, so that on a full disk the keys can still be rewritten, and so erased."""
        size = -(-size // self._chunk_bytes) * self._chunk_bytes
        with _failing(f"no room for more keys in {str(self.folder)!r}"):
            grown = []
            for name in KEYS:
                file = self._files[name]
                if (has := file.size()) < size:
                    file.write_at(has, bytes(size - has))
                    grown.append(file)
            if grown:
                self._disk.sync(*grown)

    def _check_writable(self) -> None:
        if self._refusal:
            raise VaultError(f"the vault {str(self.folder)!r} {self._refusal}: open it again to change it")

    @contextlib.contextmanager
    def _committing(self, consequence: str) -> Iterator[None]:
        """What cannot be undone from here: on an error only opening the vault anew tells what is on the disk."""
        try:
            with _failing(f"{consequence} in {str(self.folder)!r}"):
                yield
        except BaseException:
            self._refusal = "met an error of the disk"
            raise


def _new_generation(number: int, vault_id: bytes, master: bytes) -> _Generation:
    wrapping = os.urandom(KEY_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(derive(master, "wrap")).encrypt(nonce, wrapping, keyfile.head(number, vault_id))
    return _Generation(number, wrapping, vault_id, Slot(number, vault_id + nonce + sealed))


def _open_slot(slot: Slot, master: bytes) -> _Generation | None:
    """The generation of a slot; none if the master key is another one, for damage the slot's checksum has shown."""
    vault_id, rest = slot.payload[: keyfile.ID_BYTES], slot.payload[keyfile.ID_BYTES :]
    nonce, sealed = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
    try:
        wrapping = AESGCM(derive(master, "wrap")).decrypt(nonce, sealed, keyfile.head(slot.sequence, vault_id))
    except (InvalidTag, ValueError):
        return None
    return _Generation(slot.sequence, wrapping, vault_id, slot)


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VaultError(f"{what}: {error.strerror or error}") from None


def _show(name: bytes) -> str:
    return name.hex()[:32] or "''"
