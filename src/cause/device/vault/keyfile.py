"""The format of a page of keys: a header, then sealed records, then zeros that are kept in reserve.

The first record holds the rows of the time when the page was written, each later one those that were added together.
A record is bound to its vault, generation and place. Each page exists in two copies with the same bytes: a record that
does not authenticate in one copy is taken from the other. Bytes after the last record that opens were torn by a power
loss and are cut off; if a record that opens follows them, the page is damaged.

A row has 48 bytes: in pages of data keys 16 of name and 32 of key, in the table of pages the page's number, the
generation of its writing, and its key.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.device.vault.secrets_in_memory import Buffer, wipe
from cause.errors import VaultError

MAGIC = b"CAUSEKEY"
VERSION = 1
ID_BYTES = 16
NAME_BYTES = 16
ROW_BYTES = NAME_BYTES + 32
_HEAD = struct.Struct(f">8sHQ{ID_BYTES}s")  # magic, version, generation, the vault's id
_RECORD = struct.Struct(">4sQI")  # mark, number of the record, rows in it
_MARK = b"KREC"
_NONCE_BYTES = 12
_TAG_BYTES = 16
HEAD_BYTES = _HEAD.size


@dataclass(frozen=True)
class Contents:
    """The contents of a page, put together from its copies.

    Attributes
    ----------
    rows : bytearray
        All rows, in the order of their records.
    records : int
        How many records there are.
    last : int
        Where the last record starts.
    image : bytes
        Header and records as they are stored; the next record goes to `len(image)`.
    whole : list of bool
        For each copy, whether it starts with the image and is zeros afterwards.
    damaged : list of bool
        For each copy, whether it differs by more than a torn last record.
    """

    rows: bytearray
    records: int
    last: int
    image: bytes
    whole: list[bool]
    damaged: list[bool]


def head(generation: int, vault_id: bytes) -> bytes:
    """Return the header of a page."""
    return _HEAD.pack(MAGIC, VERSION, generation, vault_id)


def record_bytes(rows: int) -> int:
    """Return how long a record of that many rows is."""
    return _RECORD.size + _NONCE_BYTES + rows * ROW_BYTES + _TAG_BYTES


def rows_in(size: int) -> int:
    """Return how many rows fit into a page of that size that is written at once."""
    return max(0, (size - HEAD_BYTES - record_bytes(0)) // ROW_BYTES)


def record(key: Buffer, page_head: bytes, number: int, rows: Buffer) -> bytes:
    """Seal rows into record `number` of a page.

    Parameters
    ----------
    key
        The key of the page.
    page_head
        The header of the page.
    number
        The number of the record.
    rows
        Its rows.
    """
    record_head = _RECORD.pack(_MARK, number, len(rows) // ROW_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    return record_head + nonce + AESGCM(key).encrypt(nonce, rows, page_head + record_head)


def read(where: str, copies: Sequence[bytes], key: Buffer, generation: int, vault_id: bytes) -> Contents:
    """Return the rows of a page, each record checked.

    Parameters
    ----------
    where : str
        What an error calls the page.
    copies : sequence of bytes
        The page as each file has it.

    Raises
    ------
    VaultError
        A record opens in no copy.
    """
    expected = head(generation, vault_id)
    distinct = list(dict.fromkeys(copies))
    cipher = AESGCM(key)
    parts = [expected]
    rows = bytearray(max(map(len, copies)))  # long enough never to be moved: a copy would stay behind
    number, used, start, last = 0, 0, len(expected), 0
    while (opened := _open_any(cipher, expected, distinct, start, number)) is not None:
        plain, data = opened
        memoryview(rows)[used : used + len(plain)] = plain
        used += len(plain)
        wipe(plain)
        parts.append(data)
        number, last, start = number + 1, start, start + len(data)
    if number == 0:
        for data in distinct:
            _check_head(where, data, expected)
        raise VaultError(f"{where} is damaged: its keys do not open")
    if any(_record_follows(cipher, expected, data, start) for data in distinct):
        raise VaultError(f"{where} is damaged at byte {start}: keys follow that were written later")
    image = b"".join(parts)
    result = bytearray(memoryview(rows)[:used])
    wipe(rows)
    padded = {data: image.ljust(len(data), b"\0") for data in distinct}
    faults = {
        data: data != padded[data] and _is_damage(data, image, last if number > 1 else start) for data in distinct
    }
    return Contents(
        result, number, last, image, [data == padded[data] for data in copies], [faults[data] for data in copies]
    )


def is_flip(differing: int) -> bool:
    """Return whether this number of wrong bytes is that of a flipped bit, and not of an interrupted write."""
    return differing == 1


def _is_damage(data: bytes, image: bytes, last: int) -> bool:
    """Return whether a copy differs by more than a last record, or the next one, that a power loss tore."""
    if data[:last] != image[:last]:
        return True
    tail = data[last : len(image)].ljust(len(image) - last, b"\0")
    differing = [seen for seen, expected in zip(tail, image[last:], strict=True) if seen != expected]
    after = data[len(image) :]
    return any(differing) or is_flip(len(differing)) or is_flip(len(after) - after.count(0))


def _record_follows(cipher: AESGCM, page_head: bytes, data: bytes, start: int) -> bool:
    later = data.find(_MARK, start)
    while later >= 0:
        if (opened := _open(cipher, page_head, data, later)) is not None:
            wipe(opened[1])
            return True
        later = data.find(_MARK, later + 1)
    return False


def _open_any(
    cipher: AESGCM, page_head: bytes, copies: Sequence[bytes], start: int, number: int
) -> tuple[bytes, bytes] | None:
    """Return the rows of the record with that number that starts there, from any copy, and its bytes."""
    for data in copies:
        opened = _open(cipher, page_head, data, start)
        if opened is not None and opened[0] == number:
            return opened[1], data[start : start + record_bytes(len(opened[1]) // ROW_BYTES)]
    return None


def _check_head(where: str, data: bytes, expected: bytes) -> None:
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise VaultError(f"{where} is not a key file: it is damaged or foreign")
    _, version, generation, vault_id = _HEAD.unpack_from(data)
    if version > VERSION:
        raise VaultError(f"{where} has format {version}, this version reads up to {VERSION}: update cause")
    _, _, expected_generation, expected_id = _HEAD.unpack(expected)
    if vault_id != expected_id:
        raise VaultError(f"{where} belongs to another vault")
    if not data.startswith(expected):
        raise VaultError(
            f"{where} is of generation {generation}, expected {expected_generation}: an old copy opens no more"
        )


def _open(cipher: AESGCM, page_head: bytes, data: bytes, start: int) -> tuple[int, bytes] | None:
    """Return the number and rows of the record that starts there, if one does."""
    if start + _RECORD.size > len(data):
        return None
    mark, number, rows = _RECORD.unpack_from(data, start)
    end = start + record_bytes(rows)
    if mark != _MARK or end > len(data):
        return None
    body = memoryview(data)[start + _RECORD.size : end]
    try:
        plain = cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], page_head + data[start : start + _RECORD.size])
    except InvalidTag:
        return None
    return number, plain
