"""`cause forget`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table, training_bar
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.home.status import RepairCost
    from cause.plan import ShardPlan
    from cause.requests import Request


def forget(
    home: h.HomeFolder,
    user: Annotated[str, typer.Option(help="Whose samples.")],
    rounds: Annotated[str | None, typer.Option(help="Of which rounds, as 1,2. [default: everything]")] = None,
    count: Annotated[int | None, typer.Option(help="How many of one round: the lowest positions.")] = None,
    samples: Annotated[str | None, typer.Option(help="Which samples, as round:position: 1:0,1:5.")] = None,
    repair: h.Repair = None,
    nonce: Annotated[
        str | None, typer.Option(help="A random text of up to 128 characters that the receipts commit to.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what it would touch and cost.")] = False,
    calibration: h.CalibrationFile = None,
    json: o.AsJson = False,
) -> None:
    """Forget a user's samples: destroyed at once, with every sub-model that saw them; retrained now or later."""
    from cause.requests import Request

    chosen, named = h.numbers_of(rounds, "--rounds"), h.samples_of(samples)
    request = Request(
        user, None if chosen is None else tuple(chosen), count, None if named is None else tuple(named), nonce=nonce
    )
    if plan and repair is not None:
        raise InputError("--plan changes nothing, so --repair says nothing: leave one out")
    if plan:
        _plan(home, request, calibration, json)
        return
    if calibration is not None:
        raise InputError("--calibration is for --plan; `cause status` tells the cost of what waits")
    with training_bar("retraining") as watch, h.opened(home, watch=watch) as device:
        when = h.repair_of(home, repair)
        (done,) = device.serve([request], repair=when)
        waiting = device.waiting()
    forgotten = done.samples
    told = {
        "request": done.ids[0],
        "samples": forgotten,
        "shards": [_shard(shard) for shard in done.shards],
        "destroyed": [h.key_of(key) for key in done.dropped],
        "rsn": done.rsn,
        "waiting": waiting,
    }
    if json:
        print_json(told)
        return
    print(f"request {done.ids[0]}: {forgotten:,} samples and {len(done.dropped)} sub-models are destroyed")
    if waiting:
        print(f"shards that wait for a repair: {', '.join(map(str, waiting))} (`cause repair {home}`)")
    else:
        print(f"retrained samples: {done.rsn:,}")


def _plan(home: Any, request: "Request", calibration: Any, json: bool) -> None:
    from cause.home.status import estimated

    model = h.model_of(calibration)
    with h.opened(home, read_only=True) as device:
        shards = device.plan(request)
        tainted = [
            h.key_of(key) for shard in shards for key in device.memory.stored_of(shard.shard) if key >= shard.first
        ]
        # what never was trained is trained with it: it takes time, but is no retraining
        left = sum(
            sum(segment.count for segment in device.ledger.lineage(shard.shard).after(shard.restart)) - shard.forgotten
            for shard in shards
        )
    rsn = sum(shard.rsn for shard in shards)
    estimate = estimated(sum(len(shard.replay) for shard in shards), max(rsn, left), rsn, model)
    told = {
        "plan": True,
        "samples": sum(shard.forgotten for shard in shards),
        "shards": [_shard(shard) for shard in shards],
        "destroyed": tainted,
        "rsn": rsn,
        "seconds": estimate.seconds,
        "joules": estimate.joules,
        "unknown": estimate.unknown,
    }
    if json:
        print_json(told)
        return
    _show(shards, told, estimate)


def _show(shards: "list[ShardPlan]", told: dict[str, Any], estimate: "RepairCost") -> None:
    note = (
        f"{told['samples']:,} samples and {len(told['destroyed'])} sub-models would be destroyed; nothing was changed."
    )
    if estimate.seconds is not None:
        joules = f"{estimate.joules:,.0f} J" if estimate.joules is not None else f"energy unknown: {estimate.unknown}"
        note += f" Retraining: about {h.duration(estimate.seconds)}, {joules}."
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


def _shard(shard: "ShardPlan") -> dict[str, Any]:
    return {
        "shard": shard.shard,
        "samples": shard.forgotten,
        "first": h.key_of(shard.first),
        "restart": None if shard.restart is None else h.key_of(shard.restart),
        "replay": [h.key_of(key) for key in shard.replay],
        "rsn": shard.rsn,
    }
