"""A backup's file: a plain tar of sealed samples and sub-models, the ledger and the configuration. Never a key.

Its manifest carries a commitment made with the device's own key, which only the live vault holds: an archive of another
home, or one that somebody changed, is refused. Blocks and sub-models need no digest there: what seals them tells.
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

from cause.device.store import disk
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
    """What an archive says of itself."""

    version: int
    cause: str
    made: float
    round: int
    ledger: str
    config: str

    def digest(self) -> bytes:
        """What the commitment is made to."""
        return hashlib.sha256(b"backup\0" + json.dumps(asdict(self), sort_keys=True).encode()).digest()


class ArchiveWriter:
    """Writes the entries one after the other."""

    def __init__(self, file: Any) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 closed by close

    def add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o600
        self._tar.addfile(entry, io.BytesIO(data))

    def close(self) -> None:
        self._tar.close()


def manifest_bytes(manifest: Manifest, commitment: bytes) -> bytes:
    """The manifest's entry."""
    return json.dumps({**asdict(manifest), "commitment": commitment.hex()}, indent=1).encode()


class Archive:
    """An archive that was read and looked over; its entries are read when they are asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._size = self.path.stat().st_size
            self._tar = tarfile.open(self.path, "r:")  # noqa: SIM115 closed by close
        except OSError as error:
            raise InputError(f"cannot read the backup {str(path)!r}: {error.strerror or 'cut off'}") from None
        except (tarfile.TarError, ValueError, EOFError):
            raise self._bad("not a backup: no tar archive, or damaged") from None
        try:
            self._entries = self._looked_over()
            self.manifest, self.commitment = self._manifest()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._tar.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def sealed(self, folder: str) -> set[bytes]:
        """The names of the sealed files of one folder."""
        return {bytes.fromhex(name.rpartition("/")[2]) for name in self._entries if name.startswith(folder + "/")}

    @property
    def size_bytes(self) -> int:
        """What all entries take."""
        return sum(entry.size for entry in self._entries.values())

    def read(self, name: str) -> bytes:
        """An entry's bytes."""
        for left in reversed(range(disk.ATTEMPTS)):
            try:
                file = self._tar.extractfile(self._entries[name])
                data = b"" if file is None else file.read()
                break
            except (tarfile.TarError, EOFError, ValueError):
                raise self._bad(f"damaged at {name!r}") from None
            except OSError as error:  # nothing is known of what it holds
                if not left:
                    raise self._bad(f"cannot read {name!r}: {error.strerror}: try again") from None
                disk.pause(disk.FIRST_PAUSE_S)
        if len(data) != self._entries[name].size:
            raise self._bad(f"cut off within {name!r}")
        return data

    def checked(self, name: str, digest: str) -> bytes:
        """An entry's bytes, if they are those that the manifest names."""
        data = self.read(name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._bad(f"{name!r} was changed or is damaged")
        return data

    def _looked_over(self) -> Mapping[str, tarfile.TarInfo]:
        found: dict[str, tarfile.TarInfo] = {}
        for entry in self._members():
            name = entry.name
            if name not in (MANIFEST, CONFIG, LEDGER) and not _SEALED.fullmatch(name):
                raise self._bad(f"refused: it holds {name!r}, which no backup holds")
            if not entry.isreg() or entry.issparse():
                raise self._bad(f"refused: {name!r} is not a plain file")
            if name in found:
                raise self._bad(f"refused: it holds {name!r} twice")
            if not 0 <= entry.size <= self._size - entry.offset_data:
                raise self._bad(f"cut off within {name!r}")
            found[name] = entry
            if len(found) > MOST_ENTRIES:
                raise self._bad(f"more than {MOST_ENTRIES:,} entries")
        if self._size < 1024 + max((entry.offset_data + entry.size for entry in found.values()), default=0):
            raise self._bad("cut off: it does not end as an archive does")  # right after an entry nothing else tells
        for name in (MANIFEST, CONFIG, LEDGER):
            if name not in found:
                raise self._bad(f"not a backup: there is no {name!r} in it")
        last = max(found.values(), key=lambda entry: entry.offset_data)
        self._refuse_without_end(last.offset_data + -(-last.size // BLOCK) * BLOCK)
        return found

    def _refuse_without_end(self, at: int) -> None:
        """An archive ends with two blocks of zeros. One that was cut off between two entries is read as whole."""
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
            told = json.loads(self.read(MANIFEST))
            commitment = bytes.fromhex(told.pop("commitment"))
            manifest = Manifest(**told)
            version = manifest.version
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._bad("its manifest is damaged") from None
        if version != VERSION:
            raise self._bad(f"it has version {version!r}, this program knows {VERSION}")
        return manifest, commitment

    def _bad(self, problem: str) -> InputError:
        return InputError(f"{str(self.path)!r}: {problem}")
