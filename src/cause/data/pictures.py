"""Decoding pictures with Pillow: common formats only, up to a limit of pixels."""

import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.data.dataset import input_error
from cause.data.parts import too_many_parts
from cause.errors import InputError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm")
MOST_PIXELS = 2**26


def decode(data: bytes, source: object, most_pixels: int | None = None) -> NDArray[np.uint8]:
    """Return the pixels of a picture, as (height, width) if it is grey, else as (height, width, 3).

    Parameters
    ----------
    data
        The bytes of the file.
    source
        What errors call it.
    most_pixels
        The largest picture; by default `MOST_PIXELS`.

    Raises
    ------
    InputError
        If Pillow is missing, or the picture is damaged, too large or of another format.
    """
    try:
        from PIL import Image
    except ImportError:
        raise InputError("pictures need Pillow: pip install 'cause[plot]'") from None
    most_pixels = MOST_PIXELS if most_pixels is None else most_pixels
    if excess := too_many_parts(data):
        raise input_error(source, f"{excess} in one picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warnings are about pictures that are refused below
            picture: Any = Image.open(io.BytesIO(data), formats=FORMATS)
            width, height = picture.size
            if width * height > most_pixels:
                raise input_error(source, f"{width}×{height} pixels: at most {most_pixels:,} in one picture")
            return np.array(picture if picture.mode == "L" else picture.convert("RGB"), dtype=np.uint8)
    except InputError:
        raise
    except Exception:  # decoders raise errors of any type on damaged files
        raise input_error(source, f"damaged, or not a picture as {', '.join(FORMATS)}") from None
