"""Encoding of sub-models: safetensors, bytes shuffled by significance, zstd, and a digest that is checked.

Nothing is pickled. A decoded state has the same bits as the encoded one.
"""

import hashlib
import struct
from collections.abc import Mapping

import numpy as np
import torch
import zstandard
from safetensors.torch import load, save

from cause.errors import LearnerError

MAGIC = b"CAUSE\x01"
LEVEL = 1
_HEAD = struct.Struct(">6sBQ32s")  # magic, bytes of a number, length, digest of the plain bytes


def encode(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Return a state as bytes.

    >>> state = {"weight": torch.tensor([[1.0, -0.0]]), "steps": torch.tensor(7)}
    >>> again = decode(encode(state))
    >>> torch.equal(again["weight"], state["weight"]), again["weight"][0, 1].signbit().item(), again["steps"].item()
    (True, True, 7)
    """
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    plain = save(contiguous)
    width = max((tensor.element_size() for tensor in contiguous.values() if tensor.is_floating_point()), default=1)
    packed = zstandard.ZstdCompressor(level=LEVEL).compress(_shuffle(plain, width))
    return _HEAD.pack(MAGIC, width, len(plain), hashlib.sha256(plain).digest()) + packed


def decode(blob: bytes) -> dict[str, torch.Tensor]:
    """Return the state that was encoded; raise a `LearnerError` if the bytes are damaged."""
    try:
        magic, width, length, digest = _HEAD.unpack_from(blob)
        if magic != MAGIC:
            raise LearnerError(f"not a stored sub-model of this version: it begins with {magic!r}, not {MAGIC!r}")
        shuffled = zstandard.ZstdDecompressor().decompress(blob[_HEAD.size :], max_output_size=length)
        plain = _unshuffle(shuffled, width)
    except (struct.error, zstandard.ZstdError, ValueError):
        raise LearnerError("a stored sub-model is damaged: it cannot be unpacked") from None
    if hashlib.sha256(plain).digest() != digest:
        raise LearnerError("a stored sub-model is damaged: its digest is another")
    return load(plain)


def state_digest(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Return a digest of a state, which is equal exactly for equal names, types, shapes and bits."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    return hashlib.sha256(save(contiguous)).digest()


def _shuffle(data: bytes, width: int) -> bytes:
    """Put all first bytes first, then all second ones …: exponents compress together, mantissas do not disturb them."""
    whole = len(data) // width * width
    body = np.frombuffer(data[:whole], dtype=np.uint8).reshape(-1, width).T
    return body.tobytes() + data[whole:]


def _unshuffle(data: bytes, width: int) -> bytes:
    whole = len(data) // width * width
    body = np.frombuffer(data[:whole], dtype=np.uint8).reshape(width, -1).T
    return body.tobytes() + data[whole:]
