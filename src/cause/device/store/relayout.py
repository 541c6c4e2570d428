"""Gives an upload random positions, so that gaps among them reveal nothing about the deleted samples.

Uploads of formats 1 to 4 have positions that are ranks of the samples' digests. While such an upload is whole it tells
nothing, and its blocks stay as they are, so that older backups can bring it back. The first time that it loses a sample
it is written anew.
"""

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cause.common import positions as pos
from cause.common.positions import Positions
from cause.device.store.blocks import Block
from cause.device.store.stored_upload import Blocks, cut
from cause.engine.arrays import ArrayUpload

Permutation = Callable[[int], NDArray[np.int64]]
"""Returns a random order of so many rows."""


def random_permutation(count: int) -> NDArray[np.int64]:
    """Return a random order whose seed is not kept."""
    return np.random.default_rng(int.from_bytes(os.urandom(32), "big")).permutation(count)


def permuted(
    permutation: Permutation,
    blocks: Blocks,
    user: str,
    round_: int,
    forgotten: NDArray[np.int64],
    handles: dict[int, bytes],
) -> tuple[list[Block], dict[int, int]]:
    """Return the retained samples of an upload in new blocks, with random positions from 0 on.

    Parameters
    ----------
    permutation
        Draws the new positions.
    blocks, user, round_
        The upload.
    forgotten
        Positions of rows to leave out.
    handles
        New handles of some rows, by position so far.

    Returns
    -------
    tuple
        The new blocks, and the new position of each old one.
    """
    meta = blocks.metas()
    stay = ~np.isin(meta.positions, forgotten)
    held = meta.positions[stay]
    ids, digests, kept = ([row.tobytes() for row in part[stay]] for part in (meta.ids, meta.digests, meta.handles))
    kept = [handles.get(int(position), handle) for position, handle in zip(held, kept, strict=True)]
    old = ArrayUpload.restored(user, round_, held, blocks.inputs(held), meta.labels[stay], digests, ids, kept)
    new = old.shuffled(permutation(len(held)))
    at = {name: position for position, name in enumerate(new.rows()[3])}
    return cut(new), {int(position): at[name] for position, name in zip(held, ids, strict=True)}


def moved(positions: Positions, places: dict[int, int] | None) -> Positions:
    """Return the new positions of some positions; the same ones if nothing moved."""
    return (
        positions if places is None else pos.from_values(places[position] for position in pos.array(positions).tolist())
    )
