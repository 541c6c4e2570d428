"""`cause forget`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table, training_bar
from cause.cli.pending_effects import note_effect
from cause.errors import InputError, RequestError

if TYPE_CHECKING:
    from cause.device.device import Cause
    from cause.device.status import RepairCost
    from cause.engine.plan import ShardPlan
    from cause.engine.requests import Request

    MakeRequest = Callable[[Cause], tuple[Request, int | None]]
    """Returns the request, and how many rows to match equal no sample; None if rows are not matched."""


def forget(
    home: h.HomeFolder,
    user: Annotated[str, typer.Option(help="Whose samples.")],
    rounds: Annotated[str | None, typer.Option(help="Of which rounds, as 1,2. [default: everything]")] = None,
    count: Annotated[
        int | None, typer.Option(help="How many of one round: the lowest positions, which are random in a home.")
    ] = None,
    handles: Annotated[
        str | None,
        typer.Option(
            help="Which samples, by the handles that `cause learn` answered with and `cause samples` lists: a1,b2, or "
            "@FILE with one a line."
        ),
    ] = None,
    matching: Annotated[
        Path | None,
        typer.Option(
            help="All samples of the user that equal a row of this file (npz, CSV, a folder of pictures); labels count "
            "if it has them."
        ),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            help="Which samples, as round:position: 1:0,1:5. A position is a random number inside the home, not the "
            "row's number in the upload: use --handles or --matching for a row."
        ),
    ] = None,
    split: h.Split = "train",
    class_names: h.ClassNames = None,
    repair: h.Repair = None,
    nonce: Annotated[
        str | None, typer.Option(help="A random text of up to 128 characters that the receipts commit to.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what it would touch and cost.")] = False,
    calibration: h.CalibrationFile = None,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Forget a user's samples: destroyed at once, with every sub-model that saw them; retrained now or later."""
    from cause.engine.requests import Request

    rounds_, samples_, handles_ = (
        h.numbers_of(rounds, "--rounds"),
        h.samples_of(samples),
        h.handles_of(handles),
    )
    request = Request(
        user,
        None if rounds_ is None else tuple(rounds_),
        count,
        None if samples_ is None else tuple(samples_),
        None if handles_ is None else tuple(handles_),
        nonce,
    )
    make_request: MakeRequest = lambda device: (request, None)  # noqa: E731
    if matching is not None:
        if not request.everything:
            raise InputError("--matching names the samples: leave out --rounds, --count, --samples and --handles")
        make_request = partial(_matched, matching, user, split, h.names_of(class_names), nonce)
    if plan and repair is not None:
        raise InputError("--plan changes nothing, so --repair says nothing: leave one out")
    if plan:
        _plan(home, make_request, calibration, json)
        return
    if calibration is not None:
        raise InputError("--calibration is for --plan; `cause status` tells the cost of what waits")
    with (
        training_bar("retraining") as watch,
        h.opened(
            home, watch=watch, deferred=True, executor=h.executor_of(ray, per_worker, other_environments, lease)
        ) as device,
    ):
        when = h.repair_of(home, repair)
        to_forget, unmatched = make_request(device)
        if when == "now":
            _load_if_needed(device, to_forget)
        (done,) = device.serve([to_forget], repair=when)
        note_effect(f"request {done.ids[0]} is in effect: do not ask again")
        waiting = device.waiting()
    result = {
        "request": done.ids[0],
        "samples": done.samples,
        "staged": done.staged,
        "unmatched": unmatched,
        "shards": [_shard(shard) for shard in done.shards],
        "destroyed": [h.key_of(key) for key in done.dropped],
        "rsn": done.rsn,
        "waiting": waiting,
    }
    if json:
        print_json(result)
        return
    print(f"request {done.ids[0]}: {done.samples:,} samples and {len(done.dropped)} sub-models are destroyed")
    if unmatched is not None:
        print(_unmatched(unmatched))
    if waiting:
        print(f"shards that wait for a repair: {', '.join(map(str, waiting))} (`cause repair {home}`)")
    else:
        print(f"retrained samples: {done.rsn:,}")


def _load_if_needed(device: "Cause", request: "Request") -> None:
    """Build the learner if something is to be retrained, before anything is destroyed: it may fail."""
    from cause.learners.deferred import DeferredLearner

    try:
        replayed = any(shard.replay for shard in device.plan(request))
    except RequestError:
        return  # `serve` refuses it, or it is about staged samples only
    if isinstance(device.learner, DeferredLearner) and (replayed or device.waiting()):
        device.learner.loaded()


def _matched(
    path: Path, user: str, split: str, class_names: list[str] | None, nonce: str | None, device: "Cause"
) -> "tuple[Request, int]":
    """Return the request for the samples that equal rows of a file, and how many rows equal none."""
    from cause.data.uploads import read_rows

    x, y = read_rows(path, device.classes, user=user, split=split, class_names=class_names)
    matches = device.match(user, x, y)
    return matches.request(nonce), len(matches.unmatched)


def _unmatched(rows: int) -> str:
    return f"rows of the file that equal no sample of the user: {rows:,}"


def _plan(home: Any, make_request: "MakeRequest", calibration: Any, json: bool) -> None:
    from cause.device.status import estimated

    model = h.model_of(calibration)
    with h.opened(home, read_only=True, without_learner=True) as device:
        to_forget, unmatched = make_request(device)
        shards = device.plan(to_forget)
        staged = device.home.inbox.count(to_forget) if device.home else 0
        tainted = [
            h.key_of(key) for shard in shards for key in device.memory.stored_of(shard.shard) if key >= shard.first
        ]
        # segments that were never trained take time, too, but do not count as retrained
        left = sum(
            sum(segment.count for segment in device.ledger.lineage(shard.shard).after(shard.restart)) - shard.forgotten
            for shard in shards
        )
    rsn = sum(shard.rsn for shard in shards)
    estimate = estimated(sum(len(shard.replay) for shard in shards), max(rsn, left), rsn, model)
    result = {
        "plan": True,
        "samples": sum(shard.forgotten for shard in shards) + staged,
        "staged": staged,
        "unmatched": unmatched,
        "shards": [_shard(shard) for shard in shards],
        "destroyed": tainted,
        "rsn": rsn,
        "seconds": estimate.seconds,
        "joules": estimate.joules,
        "unknown": estimate.unknown,
    }
    if json:
        print_json(result)
        return
    _show(shards, result, estimate)


def _show(shards: "list[ShardPlan]", result: dict[str, Any], estimate: "RepairCost") -> None:
    destroyed = f"{result['samples']:,} samples and {len(result['destroyed'])} sub-models"
    note = f"{destroyed} would be destroyed; nothing was changed."
    if estimate.seconds is not None:
        joules = f"{estimate.joules:,.0f} J" if estimate.joules is not None else f"energy unknown: {estimate.unknown}"
        note += f" Retraining: about {h.format_duration(estimate.seconds)}, {joules}."
    print_table(
        "What it would do",
        ["shard", "samples", "first touched", "restart from", "segments to retrain", "RSN"],
        [
            [
                str(shard.shard),
                f"{shard.forgotten:,}",
                f"round {shard.first.round}",
                "scratch" if shard.restart is None else f"round {shard.restart.round}",
                str(len(shard.replay)),
                f"{shard.rsn:,}",
            ]
            for shard in shards
        ],
    )
    print(note)
    if result["unmatched"] is not None:
        print(_unmatched(result["unmatched"]))


def _shard(shard: "ShardPlan") -> dict[str, Any]:
    return {
        "shard": shard.shard,
        "samples": shard.forgotten,
        "first": h.key_of(shard.first),
        "restart": None if shard.restart is None else h.key_of(shard.restart),
        "replay": [h.key_of(key) for key in shard.replay],
        "rsn": shard.rsn,
    }
