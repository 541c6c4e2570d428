"""`cause export`."""

from pathlib import Path
from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json


def export(
    home: h.HomeFolder,
    out: Annotated[Path, typer.Option("--out", help="The folder to write: a new one.")],
    form: Annotated[
        str | None,
        typer.Option(help="safetensors or onnx (networks), npz (estimators). [default: the first that fits]"),
    ] = None,
    json: o.AsJson = False,
) -> None:
    """Write the ensemble for serving elsewhere, and record that it was: a later forget names it as tainted."""
    with h.opened(home) as device:
        from cause.device.exports import export as exported

        written = exported(device, out, form)
    if json:
        from dataclasses import asdict

        print_json(asdict(written) | {"heads": [h.key_of(key) for key in written.heads]})
    else:
        print(f"export {written.id}: {len(written.heads)} heads as {written.form} in {out}: {', '.join(written.files)}")
