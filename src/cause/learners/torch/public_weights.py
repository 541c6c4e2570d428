"""Public weights from which every first segment starts: a file named by its digest, without pickles.

A file is read once, when a learner is made, and its SHA-256 is compared with the recipe's. The recipe's digest contains
that of the file, so the weights are a constant of the recipe and a replay starts from the same ones.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from cause.common.files import absolute, write_bytes
from cause.errors import InputError

NAMED = ("efficientnet-lite0",)
"""Weights that an installed package holds: they need no file."""
SUFFIX, CHECKPOINTS = ".safetensors", (".pth", ".pt", ".bin")
Tensors = dict[str, torch.Tensor]


def located(init: str) -> str:
    """Return the name of installed weights, or the absolute path of a .safetensors file.

    Raises
    ------
    InputError
        If the file is of another kind.
    """
    if init in NAMED:
        return init
    path = absolute(init)
    if path.suffix in CHECKPOINTS:
        raise InputError(
            f"{init!r} is a checkpoint of torch: convert it once, with `cause backbone convert {path.name} "
            f"{path.stem}{SUFFIX}`, and name the new file"
        )
    if path.suffix != SUFFIX:
        raise InputError(f"public weights are a {SUFFIX} file or one of {', '.join(NAMED)}, not {init!r}")
    return str(path)


def read(init: str, digest: str | None) -> tuple[Tensors, str]:
    """Read public weights.

    Parameters
    ----------
    init
        As `located` returns it.
    digest
        The SHA-256 that the file must have, as hexadecimal digits; None for any.

    Returns
    -------
    tuple
        The tensors by name, and the SHA-256 of the file.

    Raises
    ------
    InputError
        If the file is missing, is another one, or cannot be read.
    """
    if init in NAMED:
        from cause.learners.additive.backbones.efficientnet_lite0 import SHA256, weights_file

        path = weights_file()
        _compare(init, SHA256, digest)
        return _checkpoint(path), SHA256
    data = _bytes(Path(init))
    sha256_hex = sha256(data).hexdigest()
    _compare(init, sha256_hex, digest)
    try:
        return load(data), sha256_hex
    except SafetensorError as error:
        raise InputError(f"the public weights {init!r} are no safetensors file: {error}") from None


def convert(source: str | Path, target: str | Path) -> str:
    """Convert a checkpoint of torch to safetensors; only tensors are read, never code. Return the new file's SHA-256.

    Raises
    ------
    InputError
        If the checkpoint holds anything but tensors, or a file does not fit.
    """
    source, target = Path(source), Path(target)
    if target.suffix != SUFFIX:
        raise InputError(f"weights are converted to a file that ends in {SUFFIX}, not to {target.name!r}")
    if target.exists():
        raise InputError(f"{str(target)!r} is there already: name a new file")
    _bytes(source)
    tensors = {name: tensor.contiguous().clone() for name, tensor in sorted(_checkpoint(source).items())}
    data = save(tensors, {"source_sha256": sha256(_bytes(source)).hexdigest()})
    write_bytes(target, data)
    return sha256(data).hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"the public weights {str(path)!r} cannot be read: {error.strerror}") from None


def _compare(init: str, actual: str, expected: str | None) -> None:
    if expected is not None and expected != actual:
        raise InputError(
            f"the public weights {init!r} have the digest {actual[:16]}…, but the recipe names {expected[:16]}…"
        )


def _checkpoint(path: Path) -> Tensors:
    """Return the tensors of a .pth file, which may hold nothing else."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling raises many types; a checkpoint with code in it is one of the reasons
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{str(path)!r} is refused, it holds more than tensors or is damaged: {line[:120]}") from None
    if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get("state_dict"), Mapping):
        checkpoint = checkpoint["state_dict"]
    if not isinstance(checkpoint, Mapping) or not all(isinstance(value, torch.Tensor) for value in checkpoint.values()):
        raise InputError(f"{str(path)!r} is refused: it must hold tensors by name, as a state_dict, and nothing else")
    return dict(checkpoint)


def fitting(network: nn.Module, tensors: Tensors, init: str) -> tuple[Tensors, list[str]]:
    """Return what of public weights a network starts from, and which other tensors of it start from noise.

    A tensor with another shape does not fit: the layer that answers has as many outputs as the recipe has classes. That
    layer, the last one, is not among the names that are returned.

    Raises
    ------
    InputError
        If no tensor fits.
    """
    own = network.state_dict()
    matching = {
        name: tensor.to(own[name].dtype)
        for name, tensor in tensors.items()
        if name in own and own[name].shape == tensor.shape
    }
    if not matching:
        names = f"theirs are named {next(iter(tensors), '')!r} …, the network's {next(iter(own), '')!r} …"
        raise InputError(f"the public weights {init!r} hold no tensor of the network: {names}")
    last = list(own)[-1].rpartition(".")[0]
    return matching, [name for name in own if name not in matching and name.rpartition(".")[0] != last]
