"""Pictures that would take hours to decode are refused, even if they have few pixels."""

import io
import re
import struct
import zlib

import numpy as np
import pytest

from cause.data import pictures
from cause.data.parts import MOST_PARTS, MOST_SCANS
from cause.errors import InputError

Image = pytest.importorskip("PIL.Image")


def saved(form, **options):
    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, form, **options)
    return buffer.getvalue()


def scans(count):
    """A progressive JPEG whose last scan comes so often."""
    data = saved("JPEG", progressive=True)
    last = data[[match.start() for match in re.finditer(b"\xff\xda", data)][-1] : -2]
    return data[:-2] + last * count + data[-2:]


def segments(part, count):
    data, first = saved("JPEG"), 20  # after its beginning and a segment of 18 bytes
    return data[:first] + part * count + data[first:]


def chunks(count):
    data, kind = saved("PNG"), b"teSt"
    chunk = struct.pack(">I", 0) + kind + struct.pack(">I", zlib.crc32(kind))
    return data[:33] + chunk * count + data[33:]


@pytest.mark.parametrize(
    ("made", "few", "many", "unit"),
    [
        (scans, MOST_SCANS - 10, MOST_SCANS, "scans"),
        (lambda count: segments(b"\xff\xe3\x00\x02", count), MOST_PARTS - 20, MOST_PARTS, "segments"),
        (lambda count: segments(b"\xff\xd0", count), MOST_PARTS - 20, MOST_PARTS, "segments"),
        (lambda count: segments(b"\xff", count), MOST_PARTS - 20, MOST_PARTS, "segments"),
        (lambda count: segments(b"\x00", count), MOST_PARTS - 20, MOST_PARTS, "segments"),
        (lambda count: segments(b"\xff\x00", count), MOST_PARTS - 20, MOST_PARTS, "segments"),
        (chunks, MOST_PARTS - 20, MOST_PARTS, "chunks"),
    ],
)
def test_a_picture_of_too_many_parts_is_refused_and_one_of_many_is_not(made, few, many, unit):
    assert pictures.decode(made(few), "p").shape == (8, 8)
    with pytest.raises(InputError, match=f"'p': more than .* {unit} in one picture"):
        pictures.decode(made(many), "p")


def test_pillow_reads_bare_markers_as_they_are_counted():
    from PIL.JpegImagePlugin import MARKER

    from cause.data.parts import _BARE

    assert {marker & 0xFF for marker, (_, _, handler) in MARKER.items() if handler is None} == _BARE
