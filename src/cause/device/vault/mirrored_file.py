"""A file of the vault together with its second copy, which has the same bytes."""

from pathlib import Path

from cause.device.disk import Disk, OpenFile

COPY = ".copy"


class MirroredFile:
    """Two files that are read and written together."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.paths = (path, path.with_name(path.name + COPY))
        self.files: list[OpenFile] = []

    @property
    def path(self) -> Path:
        """The path of the first copy."""
        return self.paths[0]

    def missing(self) -> list[Path]:
        """Return the paths of the missing copies."""
        return [path for path in self.paths if not self._disk.exists(path)]

    def read(self) -> list[bytes]:
        """Return the bytes of each copy, empty for a missing one; FileNotFoundError if both are missing."""
        missing = self.missing()
        if len(missing) == 2:
            raise FileNotFoundError(str(self.path))
        return [b"" if path in missing else self._disk.read(path) for path in self.paths]

    def read_part(self, offset: int, size: int) -> list[bytes]:
        """Return a part of each copy, filled up with zeros where a copy is missing or too short."""
        missing = self.missing()
        return [
            (b"" if path in missing else self._disk.read_part(path, offset, size)).ljust(size, b"\0")
            for path in self.paths
        ]

    def sizes(self) -> list[int]:
        """Return how long each copy is."""
        missing = self.missing()
        return [0 if path in missing else self._disk.size(path) for path in self.paths]

    def open(self) -> None:
        """Open both for writing; a missing one is made, empty."""
        for path in self.paths:
            self.files.append(self._disk.open(path) if self._disk.exists(path) else self._disk.create(path))

    def write_at(self, offset: int, data: bytes | bytearray) -> None:
        """Write to both. Not durable before `Disk.sync`."""
        for file in self.files:
            file.write_at(offset, data)

    def grow(self, size: int) -> bool:
        """Extend both with zeros to the same size, at least this one; return whether anything changed."""
        size = max(size, *(file.size() for file in self.files))
        short = [(file, has) for file in self.files if (has := file.size()) < size]
        for file, has in short:
            file.write_at(has, bytes(size - has))
        return bool(short)

    def close(self) -> None:
        """Close both."""
        while self.files:
            self.files.pop().close()
