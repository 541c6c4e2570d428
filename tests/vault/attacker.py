"""Whoever has a master key and some bytes: which data keys do they get?"""

from collections.abc import Iterable

from cause.vault import keyfile
from cause.vault.slots import SLOT_BYTES, Slot
from cause.vault.table import KeyTable
from cause.vault.vault import _open_slot

_DIGEST_BYTES, _SLOT_HEAD_BYTES, _PAYLOAD_BYTES = 32, 20, 16 + 12 + 32 + 16


def recoverable(masters: Iterable[bytes], blobs: Iterable[bytes]) -> dict[bytes, bytes]:
    """Every data key in the blobs, by any wrapping key in the blobs, by any of the masters; checksums are ignored."""
    blobs = list(blobs)
    masters = list(masters)
    generations = []
    for blob in blobs:
        for start in places(blob, b"CAUSEWRP"):
            sequence = int.from_bytes(blob[start + 12 : start + 20], "big")
            slot = Slot(sequence, blob[start + _SLOT_HEAD_BYTES :][:_PAYLOAD_BYTES])
            generations += [opened for master in masters if (opened := _open_slot(slot, master)) is not None]
    found = {}
    for generation in generations:
        cipher = keyfile.AESGCM(generation.wrapping)
        for blob in blobs:
            for start in places(blob, b"KREC"):
                opened = keyfile._open(cipher, generation.head, blob, start)
                if opened is not None:
                    table = KeyTable(opened[1])
                    found.update({name: table.key(name) for name in table.names()})
    return found


def places(blob: bytes, mark: bytes) -> list[int]:
    starts, start = [], blob.find(mark)
    while start >= 0:
        starts.append(start)
        start = blob.find(mark, start + 1)
    return starts


assert SLOT_BYTES > _DIGEST_BYTES + _SLOT_HEAD_BYTES + _PAYLOAD_BYTES
