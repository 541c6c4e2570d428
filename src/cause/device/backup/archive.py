"""The file of a backup: a tar of sealed samples and sub-models, the ledger and the configuration, without any key.

Its manifest has a commitment made with the device's own key, which only the home's vault holds: an archive of another
home, or one that was changed, is refused. Blocks and sub-models need no digest there: they are authenticated by their
seals.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cause.common.files import absolute
from cause.device import disk
from cause.device.store.layout import BLOCKS, CONFIG, LEDGER, SUB_MODELS
from cause.errors import InputError

MANIFEST = "manifest.json"
VERSION = 1
BLOCK = tarfile.BLOCKSIZE
MOST_MANIFEST_BYTES = 1 << 16
MOST_ENTRIES = 20_000_000
_SEALED = re.compile(rf"({BLOCKS}|{SUB_MODELS})/([0-9a-f]{{32}})")


@dataclass(frozen=True)
class Manifest:
    """The description of an archive."""

    version: int
    """Of the format."""
    cause: str
    """The version of the program that made it."""
    made: float
    """When, in seconds since 1970."""
    round: int
    """The last round in it."""
    ledger: str
    """The SHA-256 of the ledger, in hexadecimal."""
    config: str
    """The SHA-256 of the configuration, in hexadecimal."""

    def digest(self) -> bytes:
        """Return the digest that the commitment is made to."""
        return hashlib.sha256(b"backup\0" + json.dumps(asdict(self), sort_keys=True).encode()).digest()


class ArchiveWriter:
    """Writes the entries of an archive into an open file, one after the other."""

    def __init__(self, file: Any) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 closed by close

    def add(self, name: str, data: bytes) -> None:
        """Write an entry."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o600
        self._tar.addfile(entry, io.BytesIO(data))

    def close(self) -> None:
        """Write the end of the archive; the file stays open."""
        self._tar.close()


def manifest_bytes(manifest: Manifest, commitment: bytes) -> bytes:
    """Return the contents of the entry `manifest.json`."""
    return json.dumps({**asdict(manifest), "commitment": commitment.hex()}, indent=1).encode()


class Archive:
    """An archive whose list of entries was checked; the entries themselves are read on demand.

    Raises
    ------
    InputError
        If the file cannot be read, is not a backup, is cut off, or holds anything that no backup holds.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = absolute(path)
        try:
            self._size = self.path.stat().st_size
            self._tar = tarfile.open(self.path, "r:")  # noqa: SIM115 closed by close
        except OSError as error:
            raise InputError(f"cannot read the backup {str(path)!r}: {error.strerror or 'cut off'}") from None
        except (tarfile.TarError, ValueError, EOFError):
            raise self._bad("not a backup: no tar archive, or damaged") from None
        try:
            self._entries = self._checked_entries()
            self.manifest, self.commitment = self._manifest()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._tar.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def sealed(self, folder: str) -> set[bytes]:
        """Return the names of the sealed files of one folder."""
        return {bytes.fromhex(name.rpartition("/")[2]) for name in self._entries if name.startswith(folder + "/")}

    @property
    def size_bytes(self) -> int:
        """How many bytes all entries have."""
        return sum(entry.size for entry in self._entries.values())

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry; InputError if they are damaged, cut off or cannot be read."""
        for left in reversed(range(disk.ATTEMPTS)):
            try:
                file = self._tar.extractfile(self._entries[name])
                data = b"" if file is None else file.read()
                break
            except (tarfile.TarError, EOFError, ValueError):
                raise self._bad(f"damaged at {name!r}") from None
            except OSError as error:  # its contents may be intact
                if not left:
                    raise self._bad(f"cannot read {name!r}: {error.strerror}: try again") from None
                disk.pause(disk.FIRST_PAUSE_S)
        if len(data) != self._entries[name].size:
            raise self._bad(f"cut off within {name!r}")
        return data

    def checked(self, name: str, digest: str) -> bytes:
        """Return the bytes of an entry; InputError if they do not have this SHA-256."""
        data = self.read(name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._bad(f"{name!r} was changed or is damaged")
        return data

    def _checked_entries(self) -> Mapping[str, tarfile.TarInfo]:
        """Return all entries by name, each of a name, type and size that a backup has."""
        entries: dict[str, tarfile.TarInfo] = {}
        for entry in self._members():
            name = entry.name
            if name not in (MANIFEST, CONFIG, LEDGER) and not _SEALED.fullmatch(name):
                raise self._bad(f"refused: it holds {name!r}, which no backup holds")
            if not entry.isreg() or entry.issparse():
                raise self._bad(f"refused: {name!r} is not a plain file")
            if name in entries:
                raise self._bad(f"refused: it holds {name!r} twice")
            if not 0 <= entry.size <= self._size - entry.offset_data:
                raise self._bad(f"cut off within {name!r}")
            entries[name] = entry
            if len(entries) > MOST_ENTRIES:
                raise self._bad(f"more than {MOST_ENTRIES:,} entries")
        if self._size < 1024 + max((entry.offset_data + entry.size for entry in entries.values()), default=0):
            raise self._bad("cut off: it does not end as an archive does")  # tarfile does not notice a missing end
        for name in (MANIFEST, CONFIG, LEDGER):
            if name not in entries:
                raise self._bad(f"not a backup: there is no {name!r} in it")
        last = max(entries.values(), key=lambda entry: entry.offset_data)
        self._refuse_without_end(last.offset_data + -(-last.size // BLOCK) * BLOCK)
        return entries

    def _refuse_without_end(self, at: int) -> None:
        """Refuse an archive without the two blocks of zeros at its end.

        tarfile reads one that was cut off between two entries as whole.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(at)
                end = file.read(2 * BLOCK)
        except OSError as error:
            raise self._bad(f"cannot be read: {error.strerror}: try again") from None
        if end != bytes(2 * BLOCK):
            raise self._bad("cut off: its end is missing")

    def _members(self) -> Iterable[tarfile.TarInfo]:
        try:
            yield from self._tar
        except (tarfile.TarError, EOFError, ValueError, OverflowError):
            raise self._bad("damaged or cut off") from None
        except OSError as error:
            raise self._bad(f"cannot be read: {error.strerror}: try again") from None

    def _manifest(self) -> tuple[Manifest, bytes]:
        if self._entries[MANIFEST].size > MOST_MANIFEST_BYTES:
            raise self._bad("its manifest is too long")
        try:
            payload = json.loads(self.read(MANIFEST))
            commitment = bytes.fromhex(payload.pop("commitment"))
            manifest = Manifest(**payload)
            version = manifest.version
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._bad("its manifest is damaged") from None
        if version != VERSION:
            raise self._bad(f"it has version {version!r}, this program knows {VERSION}")
        return manifest, commitment

    def _bad(self, problem: str) -> InputError:
        return InputError(f"{str(self.path)!r}: {problem}")
