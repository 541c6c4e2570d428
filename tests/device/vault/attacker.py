"""An attacker who has a master key and some bytes of files: which data keys can be recovered?

This reader has its own account of the formats (of this version and of 0.1) and uses nothing of the vault's code. It
ignores checksums, sequences, sizes of pages and the order of records, and returns everything that opens.
"""

import hmac
import struct
from collections.abc import Iterable, Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ROW = 48


def recoverable(masters: Iterable[bytes], blobs: Iterable[bytes]) -> dict[bytes, bytes]:
    """Every data key in the blobs that any of the masters leads to, by any key on the way that is in the blobs."""
    blobs = [blob for blob in blobs if blob.strip(b"\0")]
    recovered = {}
    for master in masters:
        for head, root in roots(master, blobs):
            for page, generation, key in table(head, root, blobs):
                del page
                recovered.update(data_keys(head[:10] + generation + head[18:], key, blobs))
        for head, wrapping in wrapping_keys(master, blobs):
            recovered.update(data_keys(head, wrapping, blobs))
    return recovered


def roots(master: bytes, blobs: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The header of the table and the root key of each generation that the master key opens."""
    own = AESGCM(hmac.digest(master, b"cause vault 1: root", "sha256"))
    for blob in blobs:
        for start in places(blob, b"CAUSROOT"):
            sequence, payload = blob[start + 12 : start + 20], blob[start + 20 :][: 16 + 4 + 12 + 48]
            head = b"CAUSEKEY\0\1" + sequence + payload[:16]
            plain = opened(own, payload[20:32], payload[32:], head + payload[16:20])
            if plain is not None:
                yield head, plain


def wrapping_keys(master: bytes, blobs: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The header of the key file and the wrapping key of each generation of the old format."""
    own = AESGCM(hmac.digest(master, b"cause vault 1: wrap", "sha256"))
    for blob in blobs:
        for start in places(blob, b"CAUSEWRP"):
            sequence, payload = blob[start + 12 : start + 20], blob[start + 20 :][: 16 + 12 + 48]
            head = b"CAUSEKEY\0\1" + sequence + payload[:16]
            plain = opened(own, payload[16:28], payload[28:], head)
            if plain is not None:
                yield head, plain


def table(head: bytes, root: bytes, blobs: list[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Page, generation and key of each row of each record that the root key opens."""
    for rows in records(head, root, blobs):
        for at in range(0, len(rows), ROW):
            yield rows[at : at + 8], rows[at + 8 : at + 16], rows[at + 16 : at + ROW]


def data_keys(head: bytes, key: bytes, blobs: list[bytes]) -> dict[bytes, bytes]:
    """Names and data keys in each record that a key of a page opens."""
    all_rows = records(head, key, blobs)
    return {rows[at : at + 16]: rows[at + 16 : at + ROW] for rows in all_rows for at in range(0, len(rows), ROW)}


def records(head: bytes, key: bytes, blobs: list[bytes]) -> Iterator[bytes]:
    own = AESGCM(key)
    for blob in blobs:
        for start in places(blob, b"KREC"):
            count = struct.unpack_from(">I", blob[start:].ljust(16, b"\0"), 12)[0]
            body = blob[start + 16 : start + 16 + 12 + count * ROW + 16]
            plain = opened(own, body[:12], body[12:], head + blob[start : start + 16])
            if plain is not None:
                yield plain


def opened(cipher: AESGCM, nonce: bytes, sealed: bytes, aad: bytes) -> bytes | None:
    try:
        return cipher.decrypt(nonce, sealed, aad) if len(sealed) >= 16 else None
    except InvalidTag:
        return None


def places(blob: bytes, mark: bytes) -> list[int]:
    starts, start = [], blob.find(mark)
    while start >= 0:
        starts.append(start)
        start = blob.find(mark, start + 1)
    return starts
