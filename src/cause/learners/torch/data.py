"""The samples of a segment as inputs of a network, in an order that follows from their ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cause.engine.samples import Piece, arrays_of
from cause.errors import ArrivalError, InputError, LearnerError
from cause.learners.recipe import Recipe
from cause.learners.torch.augment import crop_flip, crop_flip_rows


def gather(pieces: Sequence[Piece], shape: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return inputs and labels of all pieces in the recipe's shape; the inputs of some users may come flat."""
    arrays = [arrays_of(upload, positions) for upload, positions in pieces]
    inputs = [shaped(x, shape).reshape(-1, *shape) for x, _ in arrays]
    return np.concatenate(inputs), np.concatenate([y for _, y in arrays])


def finite(x: NDArray[Any], recipe: Recipe) -> NDArray[np.bool_]:
    """Return which values a network can be given: those that are finite as it sees them."""
    x = x.astype(np.float32, copy=False)
    means, stds = np.broadcast_arrays(np.asarray(recipe.mean, np.float32), np.asarray(recipe.std, np.float32))
    fits: NDArray[np.bool_] = np.isfinite(x)
    for mean, std in zip(means.flat, stds.flat, strict=True):  # of each channel: inputs may have theirs last
        fits = fits & np.isfinite((x - mean) / std)
    return fits


def shaped(x: NDArray[Any], shape: tuple[int, ...], whose: str = "") -> NDArray[Any]:
    """Return inputs in the recipe's shape, channels first."""
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
        x = np.moveaxis(x, -1, 1)  # images as most tools hold them: height, width, channels
    if len(x) and int(np.prod(x.shape[1:])) != int(np.prod(shape)):
        raise ArrivalError(f"inputs{whose} of shape {x.shape[1:]} do not fit the recipe's {shape}")
    return x


def whole_numbers(x: NDArray[Any], whose: str = "") -> NDArray[np.int64]:
    """Return inputs as int64, for an embedding.

    Raises
    ------
    InputError
        If one of them is not a whole number.

    Examples
    --------
    >>> whole_numbers(np.array([[3.0, 1.0]]))
    array([[3, 1]])
    """
    if x.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            whole = x.astype(np.int64)
        if not (whole == x).all():
            value = x[whole != x][0]
            raise ArrivalError(f"inputs{whose} must be whole numbers (the recipe's input_dtype is int64), not {value}")
        return whole
    return x.astype(np.int64)


def check_tokens(x: NDArray[np.int64], tokens: int | None, whose: str) -> None:
    """Raise an `ArrivalError` for whole numbers that the network's embedding has no row for."""
    if x.size and (x.min() < 0 or (tokens is not None and x.max() >= tokens)):
        value = x.min() if x.min() < 0 else x.max()
        most = "" if tokens is None else f" to {tokens - 1}, as many as the embedding has"
        raise ArrivalError(f"inputs{whose} must be whole numbers from 0{most}, not {value}")


def check_answers(answers: torch.Tensor, inputs: "Samples") -> None:
    """Raise an error if probabilities are not finite: NaN of one head would make the whole vote NaN.

    Raises
    ------
    InputError
        If the input was not finite.
    LearnerError
        If it was finite: the network's values overflow on it.
    """
    if bool(torch.isfinite(answers).all()):
        return
    row = int((~torch.isfinite(answers).all(dim=1)).nonzero()[0])
    given = torch.cat(list(inputs.parts(len(answers))))[row]
    if given.is_floating_point() and not torch.isfinite(given).all():
        raise InputError(f"input {row} has a value that is not finite: the network cannot answer")
    seen = f" (its largest number, scaled, is {float(given.abs().max()):.3g})" if given.is_floating_point() else ""
    raise LearnerError(f"the network answers input {row} with NaN{seen}: scale inputs by mean and std, or check it")


def scaling(recipe: Recipe, device: torch.device, *, channels_last: bool = False) -> tuple[Any, Any]:
    """Return mean and std as numbers, or as tensors that fit a batch."""
    mean, std = (_constants(part, len(recipe.shape), device, channels_last) for part in (recipe.mean, recipe.std))
    return mean, std


@cache
def _constants(part: float | tuple[float, ...], dims: int, device: torch.device, channels_last: bool) -> Any:
    if not isinstance(part, tuple):
        return part
    constants = torch.tensor(part, dtype=torch.float32).to(device)
    return constants if channels_last else constants.view(-1, *[1] * (dims - 1))


def order(pieces: Sequence[Piece], key: bytes) -> torch.Tensor:
    """Return a random order of all samples that depends only on the key and the samples' ids."""
    hashes = np.concatenate([upload.hashes(key, positions) for upload, positions in pieces])
    return torch.from_numpy(np.argsort(hashes, kind="stable"))


class Samples(Protocol):
    """Inputs of a network, a batch at a time."""

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor:
        """Return the inputs at these indices, scaled, and randomly cropped and flipped if `augmented`."""

    def parts(self, size: int) -> Iterator[torch.Tensor]:
        """Yield all inputs in their order, `size` at a time."""


@dataclass(frozen=True)
class Scaled:
    """Inputs that were scaled once: what a CPU trains on."""

    x: torch.Tensor

    @staticmethod
    def of(x: NDArray[Any], recipe: Recipe, device: torch.device) -> "Scaled":
        """Return a scaled copy of an array on a device."""
        x = shaped(x, recipe.shape)
        if recipe.input_dtype == "int64":
            return Scaled(torch.tensor(np.ascontiguousarray(whole_numbers(x))).reshape(-1, *recipe.shape).to(device))
        copy = torch.tensor(np.ascontiguousarray(x, dtype=np.float32)).reshape(-1, *recipe.shape)
        mean, std = scaling(recipe, copy.device)
        return Scaled(copy.sub_(mean).div_(std).to(device))

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor:
        """Return the inputs of these rows, cropped and flipped at random if `augmented` is set."""
        x = self.x[chosen]
        return crop_flip(x) if augmented else x

    def parts(self, size: int) -> Iterator[torch.Tensor]:
        """Return all inputs, so many at a time."""
        return iter(self.x.split(size))


@dataclass(frozen=True)
class Resident:
    """Inputs as they came (bytes stay bytes), on a GPU for a whole segment; scaled and augmented there, batch by batch.

    Images are stored with their channels last.
    """

    x: torch.Tensor
    recipe: Recipe
    images: bool
    layout: torch.memory_format = torch.contiguous_format

    @staticmethod
    def of(x: NDArray[Any], recipe: Recipe, device: torch.device) -> "Resident":
        """Return a copy of an array on a device."""
        x = shaped(x, recipe.shape)
        if recipe.input_dtype == "int64":
            whole = np.ascontiguousarray(whole_numbers(x).reshape(-1, *recipe.shape))
            return Resident(torch.tensor(whole).to(device), recipe, images=False)
        x = np.asarray(x if x.dtype == np.uint8 else x.astype(np.float32)).reshape(-1, *recipe.shape)
        images = len(recipe.shape) == 3
        channels_last = np.ascontiguousarray(np.moveaxis(x, 1, -1) if images else x)
        return Resident(torch.tensor(channels_last).to(device), recipe, images)

    def laid(self, layout: torch.memory_format) -> "Resident":
        """Return the same inputs, whose batches have another memory layout."""
        return replace(self, layout=layout)

    def batch(self, chosen: torch.Tensor, *, augmented: bool) -> torch.Tensor:
        """Return the scaled inputs of these rows, cropped and flipped at random if `augmented` is set."""
        return self._ready(self.x.index_select(0, chosen), augmented)

    def parts(self, size: int) -> Iterator[torch.Tensor]:
        """Yield all inputs in their order, `size` at a time."""
        return (self._ready(part, augmented=False) for part in self.x.split(size))

    def _ready(self, raw: torch.Tensor, augmented: bool) -> torch.Tensor:
        if self.recipe.input_dtype == "int64":
            return raw
        mean, std = scaling(self.recipe, raw.device, channels_last=self.images)
        x = raw.to(torch.float32, copy=True).sub_(mean).div_(std)
        if augmented:
            x = crop_flip_rows(x)
        return x.permute(0, 3, 1, 2).contiguous(memory_format=self.layout) if self.images else x
