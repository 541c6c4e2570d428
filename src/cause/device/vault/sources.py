"""Where the master key comes from: a file, the environment, or a command such as a TPM's.

A key has 32 bytes, given as they are, as 64 hexadecimal digits, or in base64. `new_master_key` makes one.
"""

import base64
import binascii
import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from cause.common.files import absolute
from cause.device.disk import Disk, OpenFile
from cause.device.vault.sealing import KEY_BYTES
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.device.vault.slots import FILE_BYTES, SLOT_BYTES, Slot, read_slots, slot_file
from cause.errors import VaultError

_MAX_BYTES = 4096
_MAGIC = b"CAUSEMST"


@runtime_checkable
class KeySource(Protocol):
    """Gives the master key."""

    def read(self) -> bytes:
        """Return the 32 bytes of the key; changes nothing."""


@runtime_checkable
class RotatingKeySource(KeySource, Protocol):
    """A source that can replace its key and destroy the old one: other media, a TPM's counter, an RPMB block."""

    def rotate(self, new: bytes) -> None:
        """Replace the key, durably and atomically. Afterwards the old one cannot be recovered."""

    def settle(self) -> None:
        """Finish a `rotate` that was interrupted."""


def new_master_key() -> str:
    """Return a fresh key, as hexadecimal digits for a file or a variable."""
    return os.urandom(KEY_BYTES).hex()


def parse_key(data: bytes, origin: str) -> bytes:
    r"""Parse a key in one of its three forms; VaultError if it is none.

    >>> parse_key(b"00" * 32 + b"\n", "key.hex") == bytes(32)
    True
    """
    if len(data) == KEY_BYTES:
        return data
    text = data.strip()
    if re.fullmatch(rb"[0-9a-fA-F]{64}", text):
        return bytes.fromhex(text.decode())
    try:
        key = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise VaultError(f"{origin} gives {len(data)} bytes that are no key: give 32 bytes, 64 hex digits or base64")
    return key


class FileKeySource:
    """A key in a file that nothing here ever writes."""

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.path = absolute(path)
        self._disk = disk or Disk()

    def read(self) -> bytes:
        """Read the key from the file; VaultError if that fails."""
        try:
            data = self._disk.read(self.path)
        except OSError as error:
            raise VaultError(f"cannot read the key file {str(self.path)!r}: {error.strerror}") from None
        return parse_key(data[: _MAX_BYTES + 1], f"key file {str(self.path)!r}")


class RotatingFileKeySource:
    """A key in a file that is overwritten at each erasure. It belongs on other media than the vault.

    The file is the source's own (`create` makes it): two slots, of which one is zeros, and then the same once more as a
    second copy. A file of version 0.1 has one copy; `settle` adds the second one where there is room.
    """

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.path = absolute(path)
        self._disk = disk or Disk()

    @classmethod
    def create(cls, path: str | Path, disk: Disk | None = None) -> "RotatingFileKeySource":
        """Return a new file with a fresh key; one that exists is refused."""
        source = cls(path, disk)
        try:
            if source._disk.exists(source.path):
                raise VaultError(f"key file {str(path)!r} exists already: name another one")
            source._disk.write_whole(source.path, 2 * slot_file(_MAGIC, Slot(0, os.urandom(KEY_BYTES))))
        except OSError as error:
            raise VaultError(f"cannot write the key file {str(path)!r}: {error.strerror}") from None
        return source

    def read(self) -> bytes:
        """Read the current key from the file; VaultError if that fails."""
        current, data = self._current()
        wipe(data)
        return current.payload

    def rotate(self, new: bytes) -> None:
        """Write the new key, and then overwrite the old one; VaultError if the disk refuses."""
        current, data = self._current()
        next_ = Slot(current.sequence + 1, bytes(new))
        copies = -(-len(data) // FILE_BYTES)
        with self._open("replace the key") as file, wiping(next_.encode(_MAGIC)) as page:
            for copy in range(copies):
                file.write_at(copy * FILE_BYTES + next_.offset, page)
            self._disk.sync(file)
            for copy in range(copies):
                file.write_at(copy * FILE_BYTES + next_.other_offset, bytes(SLOT_BYTES))
            self._disk.sync(file)
        wipe(data, current.payload)

    def settle(self) -> None:
        """Keep the newest key only, in both copies.

        What is read may be in the page cache only: another process wrote it and was killed before it was synced. So the
        key that is kept is written again and synced before the other one is overwritten.
        """
        current, data = self._current()
        copies = range(-(-len(data) // FILE_BYTES))
        blobs = [memoryview(data)[copy * FILE_BYTES :][:FILE_BYTES] for copy in copies]
        with (
            self._open("overwrite the old key") as file,
            wiping(current.encode(_MAGIC)) as page,
            wiping(slot_file(_MAGIC, current)) as whole,
        ):
            if len(data) < 2 * FILE_BYTES:
                with contextlib.suppress(OSError):  # no room, or media of a fixed size: one copy, as before
                    file.write_at(FILE_BYTES, whole)
            settled = all(blob == memoryview(whole) for blob in blobs)
            for copy in copies if not settled else ():
                file.write_at(copy * FILE_BYTES + current.offset, page)
            self._disk.sync(file)
            for copy in copies:  # also where zeros are seen: after a failed sync the old key may still be on the disk
                file.write_at(copy * FILE_BYTES + current.other_offset, bytes(SLOT_BYTES))
            self._disk.sync(file)
        wipe(data, current.payload)

    @contextlib.contextmanager
    def _open(self, purpose: str) -> Iterator[OpenFile]:
        try:
            file = self._disk.open(self.path)
            try:
                yield file
            finally:
                file.close()
        except OSError as error:
            raise VaultError(f"cannot {purpose} in {str(self.path)!r}: {error.strerror}") from None

    def _current(self) -> tuple[Slot, bytes]:
        try:
            data = self._disk.read(self.path)
        except OSError as error:
            raise VaultError(f"cannot read the key file {str(self.path)!r}: {error.strerror}") from None
        if not FILE_BYTES <= len(data) <= 2 * FILE_BYTES:
            expected = f"{FILE_BYTES} or {2 * FILE_BYTES}"
            raise VaultError(f"{str(self.path)!r} has {len(data)} bytes, expected {expected}: it is damaged or foreign")
        view = memoryview(data)  # slices of bytes would be copies that stay in memory
        current = read_slots(self.path, _MAGIC, [view[:FILE_BYTES], view[FILE_BYTES:]])[0]
        if len(current.payload) != KEY_BYTES:
            raise VaultError(f"{str(self.path)!r} holds a key of {len(current.payload)} bytes, expected {KEY_BYTES}")
        return current, data


class EnvKeySource:
    """A key in an environment variable, as hexadecimal digits or base64. Cannot be replaced from here."""

    def __init__(self, variable: str, environment: Mapping[str, str] | None = None) -> None:
        self.variable = variable
        self._environment = os.environ if environment is None else environment

    def read(self) -> bytes:
        """Read the key from the variable; VaultError if that fails."""
        value = self._environment.get(self.variable)
        if not value:
            raise VaultError(f"the environment has no {self.variable!r}: set it to the master key")
        return parse_key(value.encode(errors="surrogateescape"), f"variable {self.variable!r}")


class CommandKeySource:
    """A key that a command prints, run without a shell. Cannot be replaced from here.

    >>> CommandKeySource(["printf", "%064d", "0"]).read() == bytes(32)
    True
    """

    def __init__(self, command: Sequence[str], timeout_s: float = 30) -> None:
        self.command = tuple(command)
        self.timeout_s = timeout_s
        self._folder = absolute(".")  # a program may be named relative to it
        if not self.command:
            raise VaultError("the command that prints the master key is empty: name a program")

    def read(self) -> bytes:
        """Run the command and read the key that it prints; VaultError if that fails."""
        program = self.command[0]  # arguments may hold secrets and stay out of messages
        try:
            done = subprocess.run(
                self.command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise VaultError(f"key command {program!r} gave no key within {self.timeout_s:g} s") from None
        except (OSError, ValueError) as error:
            raise VaultError(f"cannot run key command {program!r}: {error}") from None
        if done.returncode:
            line = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise VaultError(f"key command {program!r} failed with {done.returncode}, it said: {line[0][:200]}")
        return parse_key(done.stdout[: _MAX_BYTES + 1], f"key command {program!r}")
