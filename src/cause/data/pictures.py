"""Decoding pictures with Pillow: only common formats, and none larger than a limit."""

import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import bad
from cause.data.parts import too_many_parts
from cause.errors import InputError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm")
MOST_PIXELS = 2**26


def decode(data: bytes, source: object, most_pixels: int | None = None) -> NDArray[np.uint8]:
    """Pixels as (height, width) if grey, else as (height, width, 3)."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError("pictures need Pillow: pip install 'cause[plot]'") from None
    most_pixels = MOST_PIXELS if most_pixels is None else most_pixels
    if told := too_many_parts(data):
        raise bad(source, f"{told} in one picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of what is refused below, in one line, anyway
            picture: Any = Image.open(io.BytesIO(data), formats=FORMATS)
            width, height = picture.size
            if width * height > most_pixels:
                raise bad(source, f"{width}×{height} pixels: at most {most_pixels:,} in one picture")
            return np.array(picture if picture.mode == "L" else picture.convert("RGB"), dtype=np.uint8)
    except InputError:
        raise
    except Exception:  # decoders raise whatever they meet in a damaged file
        raise bad(source, f"damaged, or not a picture as {', '.join(FORMATS)}") from None
