"""`cause status`."""

from typing import TYPE_CHECKING

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table

if TYPE_CHECKING:
    from cause.home.status import RepairCost, ShardStatus, Status


def status(home: h.HomeFolder, calibration: h.CalibrationFile = None, json: o.AsJson = False) -> None:
    """Show what serves, what waits and what it will cost, what is full, and which exports are tainted."""
    model = h.model_of(calibration)
    with h.opened(home, read_only=True, looking=True) as device:
        from cause.home.status import status as found

        now = found(device, model)
    if json:
        print_json(now.as_dict() | {"quarantined": [h.quarantined(each) for each in now.quarantined]})
    else:
        _show(now)


def _show(now: "Status") -> None:
    from cause.units import format_bytes

    bound = now.storage_budget_bytes
    endless = now.slots >= 2**40
    if now.clock is not None:
        print(f"note: {now.clock}")
    print(f"Round {now.round}: {now.samples:,} samples, {now.voting} of {len(now.shards)} shards vote")
    print_table(
        "",
        ["", ""],
        [
            ["sub-models", f"{now.sub_models} of {'any number' if endless else now.slots}"],
            ["their memory", format_bytes(now.memory_bytes)
             + ("" if endless else f" of {format_bytes(now.memory_budget_bytes)}")],
            ["samples on the disk", format_bytes(now.storage_bytes) + (f" of {format_bytes(bound)}" if bound else "")],
            ["to repair", _cost(now.repair)],
        ],
    )  # fmt: skip
    print_table(
        "Shards",
        ["shard", "samples", "serves", "state"],
        [[str(each.shard), f"{each.samples:,}", *_state(each)] for each in now.shards],
    )
    if now.quarantined:
        print_table(
            "In quarantine: kept, but no part of any sub-model (`cause drop HOME --upload N` destroys it)",
            ["upload", "user", "round", "shard", "samples", "alone it ends with"],
            [
                [
                    str(each.upload),
                    each.user,
                    str(each.round),
                    str(each.segment.shard),
                    f"{each.samples:,}",
                    each.verdict,
                ]
                for each in now.quarantined
            ],
        )
    if now.requests:
        print_table(
            "Requests that wait for a repair (their samples are gone already)",
            ["request", "received", "samples", "deadline"],
            [
                [each.id, h.moment(each.received), "–" if each.samples is None else f"{each.samples:,}",
                 h.moment(each.deadline)]
                for each in now.requests
            ],
        )  # fmt: skip
    if now.exports:
        print_table(
            "Exports",
            ["export", "made", "form", "state"],
            [
                [each.id, h.moment(each.made), each.form,
                 "clean" if each.tainted is None else f"tainted since {h.moment(each.tainted)}: replace it"]
                for each in now.exports
            ],
        )  # fmt: skip


def _state(shard: "ShardStatus") -> list[str]:
    serves = "nothing" if shard.serving is None else f"round {shard.serving.round}"
    since = "" if shard.since is None else f" since {h.moment(shard.since)}"
    problem = "" if shard.problem is None else f"; training fails: {shard.problem}"
    return [serves, f"{shard.behind} segments behind{since}{problem}" if shard.behind else "up to date"]


def _cost(repair: "RepairCost") -> str:
    if not repair.trainings:
        return "nothing"
    told = f"{repair.trainings} segments, {repair.samples:,} samples, RSN {repair.rsn:,}"
    if repair.seconds is not None:
        told += f", about {h.duration(repair.seconds)}"
    if repair.joules is not None:
        told += f", {repair.joules:,.0f} J"
    return told
