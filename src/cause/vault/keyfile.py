"""The format of a key file: a header, then sealed records, then zeros that are kept in reserve.

The first record holds the keys of the time when the file was written, each later one those that were added together.
A record is bound to its file, generation and place; what comes after the last one that opens was torn by a power loss
and is cut off, unless a record that opens follows, for then the file was damaged.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.errors import VaultError
from cause.vault.table import ROW_BYTES

MAGIC = b"CAUSEKEY"
VERSION = 1
ID_BYTES = 16
_HEAD = struct.Struct(f">8sHQ{ID_BYTES}s")  # magic, version, generation, the vault's id
_RECORD = struct.Struct(">4sQI")  # mark, number of the record, keys in it
_MARK = b"KREC"
_NONCE_BYTES = 12
_TAG_BYTES = 16


@dataclass(frozen=True)
class Contents:
    """What a key file holds."""

    rows: bytearray
    records: int
    end: int  # where the next record goes
    torn: bool  # whether something other than zeros follows


def head(generation: int, vault_id: bytes) -> bytes:
    """The header of a file."""
    return _HEAD.pack(MAGIC, VERSION, generation, vault_id)


def record_bytes(keys: int) -> int:
    """How long a record of that many keys is."""
    return _RECORD.size + _NONCE_BYTES + keys * ROW_BYTES + _TAG_BYTES


def record(wrapping: bytes, file_head: bytes, number: int, rows: bytes | bytearray) -> bytes:
    """A sealed record."""
    record_head = _RECORD.pack(_MARK, number, len(rows) // ROW_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    return record_head + nonce + AESGCM(wrapping).encrypt(nonce, rows, file_head + record_head)


def read(path: Path, data: bytes, wrapping: bytes, generation: int, vault_id: bytes) -> Contents:
    """The keys of a file, each record checked."""
    expected = head(generation, vault_id)
    _check_head(path, data, expected)
    cipher = AESGCM(wrapping)
    rows = bytearray()
    number, end = 0, len(expected)
    while (found := _open(cipher, expected, data, end)) is not None and found[0] == number:
        rows += found[1]
        number, end = number + 1, end + record_bytes(len(found[1]) // ROW_BYTES)
    if number == 0:
        raise VaultError(f"{str(path)!r} is damaged: its keys do not open")
    later = data.find(_MARK, end)
    while later >= 0:
        if _open(cipher, expected, data, later) is not None:
            raise VaultError(f"{str(path)!r} is damaged at byte {end}: keys follow that were written later")
        later = data.find(_MARK, later + 1)
    return Contents(rows, number, end, torn=bool(data[end:].strip(b"\0")))


def _check_head(path: Path, data: bytes, expected: bytes) -> None:
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise VaultError(f"{str(path)!r} is not a key file: it is damaged or foreign")
    _, version, generation, vault_id = _HEAD.unpack_from(data)
    if version > VERSION:
        raise VaultError(f"{str(path)!r} has format {version}, this version reads up to {VERSION}: update cause")
    _, _, expected_generation, expected_id = _HEAD.unpack(expected)
    if vault_id != expected_id:
        raise VaultError(f"{str(path)!r} belongs to another vault")
    if not data.startswith(expected):
        raise VaultError(
            f"{str(path)!r} is of generation {generation}, expected {expected_generation}: an old copy opens no more"
        )


def _open(cipher: AESGCM, file_head: bytes, data: bytes, start: int) -> tuple[int, bytes] | None:
    """The number and rows of the record that starts there, if one does."""
    if start + _RECORD.size > len(data):
        return None
    mark, number, keys = _RECORD.unpack_from(data, start)
    end = start + record_bytes(keys)
    if mark != _MARK or end > len(data):
        return None
    body = memoryview(data)[start + _RECORD.size : end]
    try:
        rows = cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], file_head + data[start : start + _RECORD.size])
    except InvalidTag:
        return None
    return number, rows
