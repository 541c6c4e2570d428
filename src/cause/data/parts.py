"""Counting the parts of a picture's file. Pillow reads them one by one, and a file may consist of nothing else."""

import struct

MOST_PARTS = 10_000
"""The most chunks of a PNG, or segments of a JPEG before its first scan."""
MOST_SCANS = 100
"""The most scans of a JPEG. Each covers the whole picture; encoders write about ten."""
_SCAN = b"\xff\xda"
_BARE = {0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)}
"""Markers of a JPEG that nothing follows, as Pillow reads them."""


def too_many_parts(data: bytes) -> str | None:
    r"""Return what a picture has too many of, for a message; None if nothing.

    >>> too_many_parts(b"\xff\xd8" + b"\xff\xe3\x00\x02" * 20_000)
    'more than 10,000 segments'
    >>> too_many_parts(b"\xff\xd8" + b"\xff\xda" * 200)
    'more than 100 scans'
    """
    if data[:2] == b"\xff\xd8":
        if data.count(_SCAN) > MOST_SCANS:
            return f"more than {MOST_SCANS:,} scans"
        return f"more than {MOST_PARTS:,} segments" if _segments(data) > MOST_PARTS else None
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return f"more than {MOST_PARTS:,} chunks" if _chunks(data) > MOST_PARTS else None
    return None


def _segments(data: bytes) -> int:
    """Count the segments before the first scan; padding and garbage count byte by byte, as Pillow reads them."""
    at, count = 2, 0
    while at + 4 <= len(data) and count <= MOST_PARTS:
        count += 1
        if data[at] != 0xFF or data[at + 1] == 0xFF:
            at += 1
        elif data[at : at + 2] == _SCAN:
            break
        elif data[at + 1] == 0 or data[at + 1] in _BARE:
            at += 2
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return count


def _chunks(data: bytes) -> int:
    at, count = 8, 0
    while at + 12 <= len(data) and count <= MOST_PARTS:
        count += 1
        at += 12 + struct.unpack_from(">I", data, at)[0]
    return count
