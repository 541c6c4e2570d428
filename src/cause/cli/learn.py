"""`cause learn`."""

import csv
import io
import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, training_bar
from cause.cli.pending_effects import note_effect
from cause.device.error_notes import add_to_errors

if TYPE_CHECKING:
    from cause.data.uploads import Rows
    from cause.engine.results import Learned


def learn(
    home: h.HomeFolder,
    data: h.DataFiles,
    user: Annotated[str | None, typer.Option(help="Whose samples these are, where the files do not say.")] = None,
    split: h.Split = "train",
    class_names: h.ClassNames = None,
    repair: h.Repair = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="A text of your own for this call: made again with it, it takes nothing in a second time."),
    ] = None,
    handles: Annotated[
        Path | None,
        typer.Option(
            help="Write the handle of each row, in the order of the files: JSON, or CSV if it ends with .csv."
        ),
    ] = None,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Learn one round: all these files, several users in one file or one user in several."""
    from cause.common.files import check_writable, refuse_same, write_text

    if handles is not None:
        check_writable(handles)
        refuse_same(handles, [*data, *h.key_files(home)])
    from cause.data.uploads import read_files

    # before the learner's library is imported, which takes seconds, so that a wrong file is refused at once
    classes, when = h.classes_of(home), h.repair_of(home, repair)
    uploads, rows = read_files(data, classes, user=user, split=split, class_names=h.names_of(class_names))
    with (
        training_bar("learning") as watch,
        h.opened(home, watch=watch, executor=h.executor_of(ray, per_worker, other_environments, lease)) as device,
    ):
        done = device.learn(uploads, repair=when, idempotency_key=idempotency_key)
        note_effect(f"round {done.round} is recorded: do not learn it again")
        quarantined = [piece for piece in device.ledger.quarantined() if piece.round == done.round]
        waiting, clock = device.waiting(), device.home.time.doubt() if device.home else None
    listed = handles_by_file(done, rows)
    if handles is not None:
        with add_to_errors(f"round {done.round} is recorded: do not learn it again, `cause samples` lists its handles"):
            write_text(handles, _table(listed) if handles.suffix.lower() == ".csv" else _object(done.round, listed))
    result = {
        "round": done.round,
        "users": len(uploads),
        "samples": done.samples,
        "active_shards": done.active_shards,
        "trained": [h.key_of(key) for key in done.trained],
        "waiting": waiting,
        "quarantined": [h.quarantined(piece) for piece in quarantined],
        "clock": clock,
        "repeated": done.repeated,
        "expired": done.expired,
        "handles": [{"file": file["file"], "handles": file["handles"]} for file in listed],
    }
    if json:
        print_json(result)
        return
    trained = f"{len(done.trained)} segments trained"
    if done.repeated:
        print(
            f"round {done.round} was recorded by an earlier call with this key; nothing was taken in again, {trained}"
        )
    else:
        print(f"round {done.round}: {done.samples:,} samples of {len(uploads):,} users, {trained}")
    if done.expired:
        print(f"note: {done.expired:,} samples were deleted: they were older than this home keeps samples (`retain`)")
    for piece in quarantined:
        print(
            f"note: {piece.samples:,} samples of user {piece.user!r} are in quarantine: trained on alone they end with "
            f"{piece.verdict} (`cause drop {home} --upload {piece.upload}` destroys them)"
        )
    if clock is not None:
        print(f"note: {clock}")
    if waiting:
        print(f"shards that wait for a repair: {', '.join(map(str, waiting))}")
    if handles is not None:
        print(f"wrote {handles}")


def handles_by_file(learned: "Learned", rows: "list[Rows]") -> list[dict[str, Any]]:
    """Return for each file the user and the handle of each row, in the order of the rows."""
    left = {user: iter(handles) for user, handles in learned.handles.items()}
    return [
        {
            "file": str(file.path),
            "users": file.owners,
            "handles": [next(left[owner]) for owner in file.owners],
        }
        for file in rows
    ]


def _object(round_: int, listed: list[dict[str, Any]]) -> str:
    return json_.dumps({"round": round_, "files": listed}, ensure_ascii=False, indent=1) + "\n"


def _table(listed: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["file", "row", "user", "handle"])
    for file in listed:
        owned = enumerate(zip(file["users"], file["handles"], strict=True))
        lines.writerows([file["file"], row, user, handle] for row, (user, handle) in owned)
    return text.getvalue()
