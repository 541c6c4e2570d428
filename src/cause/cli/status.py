"""`cause status`."""

from typing import TYPE_CHECKING

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table

if TYPE_CHECKING:
    from cause.device.retention import Expiring
    from cause.device.status import RepairCost, ShardStatus, Status


def status(home: h.HomeFolder, calibration: h.CalibrationFile = None, json: o.AsJson = False) -> None:
    """Show what serves, what waits and what it will cost, what is full, and which exports are tainted."""
    model = h.model_of(calibration)
    with h.opened(home, read_only=True, looking=True) as device:
        from cause.device.status import status as found

        now = found(device, model)
    if json:
        print_json(now.as_dict() | {"quarantined": [h.quarantined(each) for each in now.quarantined]})
    else:
        _show(now)


def _show(now: "Status") -> None:
    from cause.common.units import format_bytes

    bound = now.storage_budget_bytes
    endless = now.slots >= 2**40
    if now.clock is not None:
        print(f"note: {now.clock}")
    for note in now.notes:
        print(f"note: {note}")
    print(f"Round {now.round}: {now.samples:,} samples, {now.voting} of {len(now.shards)} shards vote")
    for line in _warnings(now):
        print(line)
    print_table(
        "",
        ["", ""],
        [
            ["sub-models", f"{now.sub_models} of {'any number' if endless else now.slots}"],
            ["their memory", format_bytes(now.memory_bytes)
             + ("" if endless else f" of {format_bytes(now.memory_budget_bytes)}")],
            ["samples on the disk", format_bytes(now.storage_bytes) + (f" of {format_bytes(bound)}" if bound else "")],
            ["to repair", _cost(now.repair)],
            ["kept for", now.retention.retain or "ever"],
            ["take new data", f"{now.active_shards} of {now.most_shards} shards"
             + (" (the shard controller: gamma, p)" if now.active_shards < now.most_shards else "")],
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


def _warnings(now: "Status") -> list[str]:
    """What somebody should do something about, or should know before it happens."""
    lines = []
    if now.degraded is not None:
        silent = ", ".join(map(str, now.degraded.not_voting))
        lines.append(f"degraded: {len(now.degraded.not_voting)} of {now.degraded.of} shards do not vote ({silent})")
    if now.overdue or now.due_soon:
        lines.append(f"overdue: {now.overdue} requests are past their deadline, {now.due_soon} more are near it")
    expiring = now.retention
    if expiring.next_round.samples:
        lines.append(f"closing the next round deletes {_expiring(expiring.next_round)}: kept for {expiring.retain}")
    if expiring.next is not None:
        lines.append(f"next to expire, from {h.moment(expiring.next.at)} UTC on: {_expiring(expiring.next)}")
    return lines


def _expiring(samples: "Expiring") -> str:
    rounds = f" of round {', '.join(map(str, samples.rounds))}" if samples.rounds else ""
    return f"{samples.samples:,} samples of {samples.users:,} users{rounds}"


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
