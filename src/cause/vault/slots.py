"""A small secret in a file that is replaced in place, so that the old one is overwritten and not only let go.

The file has two slots, each a page of its own. A new secret goes into the slot that is empty and is synced; then the
other slot is overwritten with zeros. A torn write is seen by its checksum, and hits one slot only.
"""

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from cause.disk import Disk, OpenFile
from cause.errors import VaultError

SLOT_BYTES = 4096
VERSION = 1
_HEAD = struct.Struct(">8sHHQ")  # magic, version, length of the payload, sequence
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Slot:
    """A secret and its place in the order of secrets. It lies in slot `sequence % 2`."""

    sequence: int
    payload: bytes

    def encode(self, magic: bytes) -> bytes:
        body = _HEAD.pack(magic, VERSION, len(self.payload), self.sequence) + self.payload
        return (hashlib.sha256(body).digest() + body).ljust(SLOT_BYTES, b"\0")


def slot_file(magic: bytes, slot: Slot) -> bytes:
    """A whole new file with one secret in it."""
    page, empty = slot.encode(magic), bytes(SLOT_BYTES)
    return empty + page if slot.sequence % 2 else page + empty


def read_slots(path: Path, magic: bytes, data: bytes) -> list[Slot]:
    """The secrets of a file, the newest first; torn and empty slots have none."""
    if len(data) != 2 * SLOT_BYTES:
        raise VaultError(f"{str(path)!r} has {len(data)} bytes, expected {2 * SLOT_BYTES}: it is damaged or foreign")
    found = []
    for position in (0, 1):
        page = data[position * SLOT_BYTES :][:SLOT_BYTES]
        head = page[_DIGEST_BYTES:][: _HEAD.size]
        seen, version, length, sequence = _HEAD.unpack(head)
        if seen == magic and version > VERSION:
            raise VaultError(f"{str(path)!r} has format {version}, this version reads up to {VERSION}: update cause")
        body = page[_DIGEST_BYTES:][: _HEAD.size + length]
        if seen == magic and sequence % 2 == position and hashlib.sha256(body).digest() == page[:_DIGEST_BYTES]:
            found.append(Slot(sequence, body[_HEAD.size :]))
    if not found:
        raise VaultError(f"{str(path)!r} holds no key: it is damaged or foreign")
    return sorted(found, key=lambda slot: -slot.sequence)


def put_slot(file: OpenFile, magic: bytes, slot: Slot) -> None:
    """Write a secret beside the current one. Not durable before the file is synced."""
    file.write_at(slot.sequence % 2 * SLOT_BYTES, slot.encode(magic))


def wipe_other(file: OpenFile, keep: Slot) -> None:
    """Overwrite the slot beside the one to keep. Not durable before the file is synced."""
    file.write_at((keep.sequence + 1) % 2 * SLOT_BYTES, bytes(SLOT_BYTES))


def other_is_empty(data: bytes, keep: Slot) -> bool:
    """Whether the slot beside the one to keep is all zeros."""
    return not any(data[(keep.sequence + 1) % 2 * SLOT_BYTES :][:SLOT_BYTES])


def rotate_slot(disk: Disk, file: OpenFile, magic: bytes, new: Slot) -> None:
    """Replace the secret, durably, and overwrite the old one."""
    put_slot(file, magic, new)
    disk.sync(file)
    wipe_other(file, new)
    disk.sync(file)
