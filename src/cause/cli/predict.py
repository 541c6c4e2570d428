"""`cause predict` and `cause evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table

if TYPE_CHECKING:
    from cause.lab.ensemble import Evaluation


def predict(
    home: h.HomeFolder,
    data: Annotated[
        Path,
        typer.Argument(help="npz (x), CSV (labels are ignored), or a folder of pictures.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="A CSV file to write the labels to.")] = None,
    json: o.AsJson = False,
) -> None:
    """Answer with the label that the heads agree on, for each sample. Works while another process changes the home."""
    from cause.common.files import check_writable, refuse_same, write_text

    if out is not None:
        check_writable(out)
        refuse_same(out, [data, *h.key_files(home)])
    with h.opened(home, read_only=True) as device:
        from cause.data.uploads import read_inputs

        labels = device.predict(read_inputs(data)).tolist()
        voters = len(device.heads())
    if out is not None:
        write_text(out, "label\n" + "".join(f"{label}\n" for label in labels))
    if json:
        print_json({"samples": len(labels), "voters": voters, **({"file": str(out)} if out else {"labels": labels})})
    elif out is not None:
        print(f"wrote {out}: {len(labels):,} labels by {voters} voters")
    else:
        for label in labels:
            print(label)


def evaluate(
    home: h.HomeFolder,
    data: h.DataFile,
    split: h.Split = "train",
    class_names: h.ClassNames = None,
    json: o.AsJson = False,
) -> None:
    """Show how many labelled samples are answered right: by vote, by class, and by each head alone."""
    with h.opened(home, read_only=True) as device:
        from cause.data.uploads import labelled
        from cause.lab.ensemble import evaluate as evaluated

        samples = labelled(data, device.classes, split=split, class_names=h.names_of(class_names))
        evaluation = evaluated(device, samples.x, samples.y)
    if json:
        print_json(evaluation.as_dict())
    else:
        _show(evaluation)


def _show(result: "Evaluation") -> None:
    print(f"{result.samples:,} samples, {result.accuracy:.1%} right by the vote of {len(result.heads)} heads")
    print_table(
        "By class",
        ["class", "samples", "right"],
        [[str(label), f"{count:,}", f"{share:.1%}"] for label, (count, share) in result.classes.items()],
    )
    print_table(
        "Each head alone",
        ["shard", "learned up to", "right"],
        [[str(head.shard), f"round {head.sub_model.round}", f"{head.accuracy:.1%}"] for head in result.heads],
    )
