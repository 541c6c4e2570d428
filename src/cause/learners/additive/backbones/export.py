"""Exports of a backbone to a file that needs no torch: ONNX, or its weights as safetensors."""

import json
import warnings
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from cause.errors import InputError
from cause.learners.additive.backbones.efficientnet_lite0 import (
    LICENSE,
    SCALE,
    SHA256,
    efficientnet_lite0,
    weights_file,
)
from cause.learners.additive.backbones.module import ModuleBackbone, one_thread
from cause.learners.additive.backbones.onnx import METADATA

NAME = "efficientnet-lite0"
FORMS = (".onnx", ".safetensors")


def export_backbone(name: str, target: str | Path, size: int | None = None) -> dict[str, object]:
    """Write a backbone to a file.

    Parameters
    ----------
    name
        The backbone: efficientnet-lite0.
    target
        A new file; its name ends in .onnx, or in .safetensors for the weights alone.
    size
        The side to which pictures are scaled, for ONNX.

    Returns
    -------
    dict
        The file, its SHA-256, and licence and digest of the weights that it was made of.

    Raises
    ------
    InputError
        If the backbone, the file's name or an installed package does not fit.
    """
    path = Path(target)
    if name != NAME:
        raise InputError(f"the backbone that can be exported is {NAME}, not {name!r}")
    if path.suffix not in FORMS:
        raise InputError(f"a backbone is exported to a file that ends in {' or '.join(FORMS)}, not to {path.name!r}")
    if path.exists():
        raise InputError(f"{str(path)!r} is there already: name a new file")
    backbone = efficientnet_lite0(size)
    if path.suffix == ".safetensors":
        import torch
        from safetensors.torch import save_file

        states = torch.load(weights_file(), map_location="cpu", weights_only=True)
        whole = {name: value.contiguous() for name, value in states.items()}
        save_file(whole, path, {"source_sha256": SHA256, "license": LICENSE})
    else:
        _to_onnx(backbone, path)
    digest = sha256(path.read_bytes()).hexdigest()
    return {"file": str(path), "sha256": digest, "weights_sha256": SHA256, "license": LICENSE}


def _to_onnx(backbone: ModuleBackbone, path: Path) -> None:
    import onnx
    import torch

    for module in ("onnx", "onnxscript"):
        if find_spec(module) is None:
            raise InputError(f"an export to ONNX needs {module}: pip install 'cause[onnx]'")
    example = torch.zeros((1, *backbone.input_shape))
    with one_thread(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own affairs; the shape of the input is fixed
        torch.onnx.export(
            backbone.module, (example,), path, input_names=["x"], output_names=["features"], dynamo=False,
            opset_version=17,
        )  # fmt: skip
    model = onnx.load(path)
    entry = model.metadata_props.add()
    entry.key = METADATA
    entry.value = json.dumps(
        {
            "scale": SCALE,
            "size": backbone.input_shape[1],
            "regularization": backbone.regularization,
            "typical": backbone.typical,
            "weights_sha256": SHA256,
            "license": LICENSE,
        }
    )
    onnx.save(model, path)
