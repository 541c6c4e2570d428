"""`cause backbone`."""

from pathlib import Path
from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json
from cause.common.registry import check_choice


def backbone(
    action: Annotated[str, typer.Argument(help="What to do: export or convert.", show_default=False)],
    name: Annotated[
        str, typer.Argument(help="The backbone: efficientnet-lite0; to convert, a .pth file.", show_default=False)
    ],
    file: Annotated[Path, typer.Argument(help="A new file: .onnx, or .safetensors.", show_default=False)],
    size: Annotated[int | None, typer.Option(help="The side to which pictures are scaled. [default: 224]")] = None,
    json: o.AsJson = False,
) -> None:
    """Write a backbone to a file, so that a device can compute features without torch; or convert public weights.

    `cause backbone export` writes a known one. `cause backbone convert` reads a checkpoint of torch (tensors alone,
    no code) and writes the .safetensors file that `cause init --init` takes.
    """
    check_choice("action", action, ("export", "convert"))
    h.need("torch", "torch")
    if action == "convert":
        from cause.learners.torch.public_weights import convert

        digest = convert(name, file)
        if json:
            print_json({"file": str(file), "sha256": digest})
        else:
            print(f"wrote {file}: SHA-256 {digest}")
        return
    from cause.learners.additive.backbones.export import export_backbone

    exported = export_backbone(name, file, size)
    if json:
        print_json(exported)
        return
    print(f"wrote {exported['file']}: SHA-256 {exported['sha256']}")
    print(f"weights: SHA-256 {exported['weights_sha256']}, licence {exported['license']}")
