"""`cause verify`, `cause receipts` and `cause log`."""

import json as json_
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table, progress_bar

if TYPE_CHECKING:
    from cause.device.receipts.receipts import Bundle

HomeFolder = Annotated[Path, typer.Argument(metavar="HOME", help="The device's home.", show_default=False)]
LARGEST_BYTES = 1 << 20  # of a receipt's file


def verify(
    receipt: Annotated[
        str | None,
        typer.Argument(help="A receipt: its number, its request's id, or a file with its proof.", show_default=False),
    ] = None,
    home: Annotated[Path | None, typer.Option(help="The device's home.", show_default=False)] = None,
    key: Annotated[
        str | None, typer.Option(help="Without a home: the device's verifier key, as `cause log` prints it.")
    ] = None,
    nonce: Annotated[
        str | None, typer.Option(help="With --key: that the receipt answers the request that this was sent with.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Fresh processes for the replay; 0: in this one.")] = 1,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Replay from the retained data and compare all stored sub-models; with RECEIPT check its signature and proof."""
    from cause.errors import InputError

    if home is None:
        if receipt is None or key is None:
            raise InputError("name the device's --home, or a receipt's file and the device's --key")
        _verify_without_home(receipt, key, nonce, json)
        return
    if nonce is not None:
        raise InputError("--nonce goes with --key and the file of a receipt")
    # on a cluster, the home is open for writing: an erasure by another process could not reach the workers
    with (
        h.executor_of(ray, per_worker, other_environments, lease) or nullcontext() as executor,
        h.opened(home, read_only=executor is None) as device,
        progress_bar("replaying shards") as progress,
    ):
        receipt_: Any = None if receipt is None else _receipt(receipt)
        report = device.verify(receipt_, processes=processes, progress=progress, executor=executor)
    counts = {
        "sub_models": report.sub_models,
        "identical": len(report.identical),
        "mismatched": len(report.mismatched) + len(report.wrong),
        "unverifiable": len(report.unverifiable),
        "superseded": len(report.superseded),
    }
    if json:
        print_json(counts)
    else:
        print_table(
            "Replayed from the retained data", list(counts), [[str(value) for value in counts.values()]], names=0
        )
        if not report.sub_models:
            signed = "" if receipt is None else "; the receipt is signed by the device and in its log"
            print(f"nothing was replayed: there is no sub-model to compare{signed}")
        for name in (*map(str, report.mismatched), *report.wrong):
            print(f"mismatched: {name}")
        for name in report.superseded:
            print(f"superseded: {name} has changed since")
    if not report.holds:
        raise typer.Exit(1)


def _verify_without_home(receipt: str, key: str, nonce: str | None, json: bool) -> None:
    from cause.device.log import VerifierKey

    fields = _bundle(Path(receipt)).check(VerifierKey.parse(key), nonce)
    if json:
        print_json(fields)
    else:
        what = f"{fields['kind']} of request {fields['request']}, {fields['in_effect']}"
        print(f"signed by the device and in its log: {what}")


def _receipt(text: str) -> "int | str | Bundle":
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return _bundle(Path(text)) if Path(text).is_file() else text


def _bundle(path: Path) -> "Bundle":
    from cause.device.receipts.receipts import Bundle
    from cause.errors import InputError

    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise InputError(f"{str(path)!r} is too long for a receipt ({LARGEST_BYTES:,} bytes)")
        return Bundle.parse(json_.loads(data))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{str(path)!r} is not a receipt with its proof") from None


PAGE = 50
"""Receipts that the list shows by default."""


def receipts(
    home: HomeFolder,
    number: Annotated[int | None, typer.Argument(help="One of them, with its proof.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to a file, to be checked elsewhere.")] = None,
    first: o.First = None,
    most: o.Most = None,
    json: o.AsJson = False,
) -> None:
    """List the receipts of a home, or give one with its proof."""
    from cause.common.files import check_writable, refuse_same, write_text
    from cause.errors import InputError

    if out is not None:
        if number is None:
            raise InputError("--out needs the number of a receipt")
        check_writable(out)
        refuse_same(out, h.key_files(home))
    with h.opened(home, read_only=True, without_learner=True) as device:
        assert device.home is not None
        receipt_log = device.home.receipts
        if number is not None:
            bundle = receipt_log.bundle(number)
            if out is not None:
                write_text(out, json_.dumps(bundle.json(), indent=1) + "\n")
            if json:
                print_json(bundle.json())
            elif out is None:
                print(bundle.receipt.decode(), end="")
            else:
                print(f"wrote {out}")
            return
        size = receipt_log.size
        if json and most is None:
            most = size  # all of them by default
        most = PAGE if most is None else most
        start = max(0, size - most) if first is None else first
        listed = receipt_log.listed(start, most)
    if json:
        print_json({"receipts": listed})
        return
    rows = [
        [str(r["number"]), r["kind"], r["request"], r["received"], r["in_effect"], r.get("repaired", "–"),
         str(r["samples"]), str(sum(len(s.get("destroyed", ())) for s in r["shards"]))]
        for r in listed
    ]  # fmt: skip
    columns = ["no.", "kind", "request", "received", "in effect", "repaired", "samples", "destroyed"]
    print_table("Receipts", columns, rows, names=3)
    if len(listed) < size:
        print(f"{len(listed)} of {size} receipts: --first 0 --most 100 shows the oldest hundred")


def log(
    home: HomeFolder,
    since: Annotated[
        Path | None, typer.Option(help="An earlier checkpoint: prove that the log has only grown since.")
    ] = None,
    json: o.AsJson = False,
) -> None:
    """Print the log's signed checkpoint and the device's verifier key."""
    import base64

    from cause.device.log import open_checkpoint
    from cause.errors import InputError

    with h.opened(home, read_only=True, without_learner=True) as device:
        assert device.home is not None
        receipt_log = device.home.receipts
        verifier, note = receipt_log.verifier, receipt_log.checkpoint()
        result: dict[str, Any] = {"verifier": str(verifier), "size": receipt_log.size, "checkpoint": note.decode()}
        if since is not None:
            try:
                earlier = open_checkpoint(since.read_bytes()[:LARGEST_BYTES], verifier)
            except OSError as error:
                raise InputError(f"cannot read {str(since)!r}: {error.strerror}") from None
            proof = receipt_log.consistency(earlier)
            result["since"] = earlier.size
            result["consistency"] = [base64.b64encode(node).decode() for node in proof]
    if json:
        print_json(result)
        return
    print(note.decode(), end="")
    print(f"\nverifier key: {verifier}")
    if since is not None:
        print(f"the log has only grown since it had {result['since']} entries")
