"""Networks for small images and tables: one a file. A factory takes (classes, shape) and what else its recipe says."""

from collections.abc import Callable
from typing import Any

from cause.common.importing import imported
from cause.common.registry import Registry

Factory = Callable[..., Any]

# name: module here and function; torch is imported only when one is used
MODELS: Registry[str] = Registry(
    "model",
    {
        "resnet34": "resnet34:resnet34",
        "vgg16": "vgg16:vgg16",
        "mobilenetv2": "mobilenetv2:mobilenetv2",
        "densenet121": "densenet121:densenet121",
        "efficientnet-lite0": "efficientnet_lite0:efficientnet_lite0",
        "cnn": "cnn:cnn",
        "mlp": "mlp:mlp",
    },
)


def factory(name: str) -> Factory:
    """Return a network's factory by name: that of a model of this package, or `package.module:function`."""
    name = name.removeprefix("cause.models.") if name.startswith("cause.models.") else name  # where they once were
    ours = name in MODELS or ":" not in name
    return imported(f"cause.learners.torch.models.{MODELS[name]}" if ours else name, "model")
