"""`cause status`."""

from typing import TYPE_CHECKING

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table
from cause.errors import AbsentEnvironmentError

if TYPE_CHECKING:
    from cause.device.device import Cause
    from cause.device.expected_accuracy import Estimate
    from cause.device.retention import Expiring
    from cause.device.status import RepairCost, ShardStatus, Status

CHEAP_BYTES = 2**24
"""The largest state of an additive learner whose accuracy the command estimates: of about 2,000 features."""


def status(home: h.HomeFolder, calibration: h.CalibrationFile = None, json: o.AsJson = False) -> None:
    """Show what serves, what waits and what it will cost, what is full, and which exports are tainted."""
    model = h.model_of(calibration)
    with h.opened(home, read_only=True, without_learner=True) as device:
        from cause.device.status import status as status_of

        now, estimate = status_of(device, model), _estimate(device)
    if json:
        expected = None if estimate is None else estimate.as_dict()
        quarantined = [h.quarantined(piece) for piece in now.quarantined]
        print_json(now.as_dict() | {"quarantined": quarantined, "expected_accuracy": expected})
    else:
        _show(now, estimate)


def _estimate(device: "Cause") -> "Estimate | None":
    """Return the expected accuracy of an additive learner if it takes a moment; None for others, or if it fails."""
    from cause.engine.presets import ADDITIVE
    from cause.errors import CauseError

    if device.learner.law != ADDITIVE or device.learner.sub_model_bytes > CHEAP_BYTES:
        return None
    from cause.device.expected_accuracy import quick_estimate

    try:
        return quick_estimate(device)
    except CauseError:  # damaged samples: `cause doctor` names them
        return None


def _show(now: "Status", estimate: "Estimate | None" = None) -> None:
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
            *([] if estimate is None else [["expected accuracy", _expected(estimate)]]),
        ],
    )  # fmt: skip
    print_table(
        "Shards",
        ["shard", "samples", "serves", "state"],
        [[str(shard.shard), f"{shard.samples:,}", *_state(shard)] for shard in now.shards],
    )
    if now.quarantined:
        print_table(
            "In quarantine: kept, but no part of any sub-model (`cause drop HOME --upload N` destroys it)",
            ["upload", "user", "round", "shard", "samples", "alone it ends with"],
            [
                [
                    str(piece.upload),
                    piece.user,
                    str(piece.round),
                    str(piece.segment.shard),
                    f"{piece.samples:,}",
                    piece.verdict,
                ]
                for piece in now.quarantined
            ],
        )
    if now.requests:
        print_table(
            "Requests that wait for a repair (their samples are gone already)",
            ["request", "received", "samples", "deadline"],
            [
                [request.id, h.format_time(request.received),
                 "–" if request.samples is None else f"{request.samples:,}", h.format_time(request.deadline)]
                for request in now.requests
            ],
        )  # fmt: skip
    if now.exports:
        print_table(
            "Exports",
            ["export", "made", "form", "state"],
            [
                [export.id, h.format_time(export.made), export.form,
                 "clean" if export.tainted is None else f"tainted since {h.format_time(export.tainted)}: replace it"]
                for export in now.exports
            ],
        )  # fmt: skip


def _expected(estimate: "Estimate") -> str:
    of = "" if estimate.samples == estimate.held else f" of {estimate.held:,}"
    at = h.format_time(estimate.at)
    return f"{estimate.accuracy:.1%}: leave-one-out on {estimate.samples:,}{of} samples, {at}"


def _warnings(now: "Status") -> list[str]:
    """Return the lines about what needs attention, or will be deleted soon."""
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
        lines.append(f"next to expire, from {h.format_time(expiring.next.at)} UTC on: {_expiring(expiring.next)}")
    return lines


def _expiring(samples: "Expiring") -> str:
    rounds = f" of round {', '.join(map(str, samples.rounds))}" if samples.rounds else ""
    return f"{samples.samples:,} samples of {samples.users:,} users{rounds}"


def _state(shard: "ShardStatus") -> list[str]:
    serves = "nothing" if shard.serving is None else f"round {shard.serving.round}"
    since = "" if shard.since is None else f" since {h.format_time(shard.since)}"
    problem = "" if shard.problem is None else f"; training fails: {shard.problem}"
    if shard.problem == AbsentEnvironmentError.__name__:
        problem = f"; waits for a worker of its environment ({shard.environment})"
    return [serves, f"{shard.behind} segments behind{since}{problem}" if shard.behind else "up to date"]


def _cost(repair: "RepairCost") -> str:
    if not repair.trainings:
        return "nothing"
    text = f"{repair.trainings} segments, {repair.samples:,} samples, RSN {repair.rsn:,}"
    if repair.seconds is not None:
        text += f", about {h.format_duration(repair.seconds)}"
    if repair.joules is not None:
        text += f", {repair.joules:,.0f} J"
    return text
