"""A segment's samples on the device that trains, in the order that their ids give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from cause.errors import ArrivalError
from cause.learners.torch.augment import crop_flip, crop_flip_rows
from cause.positions import Positions
from cause.recipe import Recipe
from cause.samples import Piece


class WithData(Protocol):
    """An upload that carries its data."""

    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]: ...


def gather(pieces: Sequence[Piece], shape: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Inputs and labels of all pieces, in the recipe's shape: one user's may be flat and another's not."""
    arrays = [cast(WithData, upload).arrays(positions) for upload, positions in pieces]
    inputs = [shaped(x, shape).reshape(-1, *shape) for x, _ in arrays]
    return np.concatenate(inputs), np.concatenate([y for _, y in arrays])


def finite(x: NDArray[Any], recipe: Recipe) -> NDArray[np.bool_]:
    """Which values a network can be given: those that are finite as it sees them."""
    scaled = (x.astype(np.float32, copy=False) - np.float32(recipe.mean)) / np.float32(recipe.std)
    return np.asarray(np.isfinite(scaled))


def shaped(x: NDArray[Any], shape: tuple[int, ...], whose: str = "") -> NDArray[Any]:
    """Inputs in the recipe's shape, channels first."""
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
        x = np.moveaxis(x, -1, 1)  # images as most tools hold them: height, width, channels
    if len(x) and int(np.prod(x.shape[1:])) != int(np.prod(shape)):
        raise ArrivalError(f"inputs{whose} of shape {x.shape[1:]} do not fit the recipe's {shape}")
    return x


def order(pieces: Sequence[Piece], key: bytes) -> torch.Tensor:
    """A shuffle that depends on nothing but the key and each sample's id."""
    hashes = np.concatenate([upload.hashes(key, positions) for upload, positions in pieces])
    return torch.from_numpy(np.argsort(hashes, kind="stable"))


class Samples(Protocol):
    """Inputs that a network can take, a batch at a time."""

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor: ...

    def parts(self, size: int) -> Iterator[torch.Tensor]: ...


@dataclass(frozen=True)
class Scaled:
    """Inputs that were scaled once: what a CPU trains on."""

    x: torch.Tensor

    @staticmethod
    def of(x: NDArray[Any], recipe: Recipe, device: torch.device) -> "Scaled":
        """Scale a copy: the array is the caller's."""
        own = torch.tensor(np.ascontiguousarray(shaped(x, recipe.shape), dtype=np.float32)).reshape(-1, *recipe.shape)
        return Scaled(own.sub_(recipe.mean).div_(recipe.std).to(device))

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor:
        x = self.x[chosen]
        return crop_flip(x) if augmented else x

    def parts(self, size: int) -> Iterator[torch.Tensor]:
        return iter(self.x.split(size))


@dataclass(frozen=True)
class Resident:
    """Inputs as they came (bytes stay bytes), on a GPU for a whole segment; scaled and augmented there, batch by batch.

    Images lie there with their channels last.
    """

    x: torch.Tensor
    recipe: Recipe
    images: bool
    layout: torch.memory_format = torch.contiguous_format

    @staticmethod
    def of(x: NDArray[Any], recipe: Recipe, device: torch.device) -> "Resident":
        """Copy an array there."""
        x = shaped(x, recipe.shape)
        x = np.asarray(x if x.dtype == np.uint8 else x.astype(np.float32)).reshape(-1, *recipe.shape)
        images = len(recipe.shape) == 3
        own = np.ascontiguousarray(np.moveaxis(x, 1, -1) if images else x)
        return Resident(torch.tensor(own).to(device), recipe, images)

    def laid(self, layout: torch.memory_format) -> "Resident":
        """The same, handed out in another layout."""
        return replace(self, layout=layout)

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor:
        return self._ready(self.x.index_select(0, chosen), augmented)

    def parts(self, size: int) -> Iterator[torch.Tensor]:
        """All of them in their own order, in parts."""
        return (self._ready(part, augmented=False) for part in self.x.split(size))

    def _ready(self, raw: torch.Tensor, augmented: bool) -> torch.Tensor:
        x = raw.to(torch.float32, copy=True).sub_(self.recipe.mean).div_(self.recipe.std)
        if augmented:
            x = crop_flip_rows(x)
        return x.permute(0, 3, 1, 2).contiguous(memory_format=self.layout) if self.images else x
