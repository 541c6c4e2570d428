"""`cause repair`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, training_bar
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.energy import Meter
    from cause.device.energy.model import EnergyModel
    from cause.device.repairing import Repaired


def repair(
    home: h.HomeFolder,
    when: Annotated[
        str, typer.Option(help="now, idle (if the machine is, or a deadline is near) or deadline (if one is near).")
    ] = "now",
    within: Annotated[str | None, typer.Option(help="Begin no segment that would end later, as 10m or 2h.")] = None,
    energy: Annotated[str | None, typer.Option(help="Begin no segment that would take more, as 500J or 2kJ.")] = None,
    margin: Annotated[str, typer.Option(help="With --when deadline or idle: how near a deadline counts.")] = "7d",
    threshold: Annotated[float, typer.Option(help="With --when idle: load average a core below which it is.")] = 0.5,
    calibration: h.CalibrationFile = None,
    from_scratch: Annotated[
        list[int] | None,
        typer.Option(
            metavar="SHARD",
            help="Train this shard from scratch, in the environment of this machine whichever it had; can be repeated.",
        ),
    ] = None,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Train what waits: what was forgotten or learned with --repair later, each shard once."""
    from cause.common.registry import check_choice
    from cause.device.schedule import TIMES, Allowance, may_begin, parse_duration, parse_energy

    check_choice("when", when, TIMES)
    margin_s = parse_duration(margin)
    allowance = Allowance(
        None if within is None else parse_duration(within), None if energy is None else parse_energy(energy)
    )
    if not threshold > 0:
        raise InputError(f"a threshold is a load above 0, not {threshold}")
    model = h.model_of(calibration)
    meter = _meter(h.trains_on(home), model) if energy is not None else None
    if when == "idle" and not may_begin(
        when, is_idle=lambda: not _busy(threshold, own_workers=0), is_due=lambda: _due(home, margin_s)
    ):
        _report_nothing_done(f"the machine is not idle: its load a core is not below {threshold}", json)
        return
    with (
        training_bar("repairing") as watch,
        h.opened(home, watch=watch, executor=h.executor_of(ray, per_worker, other_environments, lease)) as device,
    ):
        from cause.device.core import home_of
        from cause.device.repairing import drop_damaged, start_over
        from cause.device.repairing import repair as repaired

        deadlines = home_of(device).queries.open_deadlines()
        near = when != "now" and _near(deadlines, margin_s)
        if when == "deadline" and not near:
            nearest = f", the next one is {h.format_time(min(deadlines))} UTC" if deadlines else ""
            _report_nothing_done(f"no deadline is nearer than {margin}{nearest}", json)
            return
        own_workers = max(1, h.config_of(home).settings.workers)
        busy = (lambda: _busy(threshold, own_workers)) if when == "idle" and not near else None
        damaged = drop_damaged(device)
        if from_scratch:
            start_over(device, from_scratch)
        outcome = repaired(device, allowance, meter=meter, model=model, busy=busy)
    if json:
        from dataclasses import asdict

        print_json({"begun": True, "damaged": [list(key) for key in damaged], **asdict(outcome)})
    else:
        if damaged:
            print(f"{len(damaged)} damaged or lost sub-models dropped: what serves of them was trained again")
        _show(outcome)


def _due(home: Path, margin_s: float) -> bool:
    """Return whether a deadline is near. The learner, which takes long to import, is not needed."""
    with h.opened_home(home) as reader:
        return _near(reader.queries.open_deadlines(), margin_s)


def _near(deadlines: list[float], margin_s: float) -> bool:
    import time

    from cause.device.schedule import due

    return due(deadlines, time.time(), margin_s)


def _busy(threshold: float, own_workers: int) -> bool:
    import os

    from cause.common.machine import cores
    from cause.device.schedule import idle

    return not idle(os.getloadavg()[0], cores(), threshold, own_workers)


def _meter(device: str, model: "EnergyModel | None") -> "Meter | None":
    """Return the meter for an energy budget; None where a calibration must replace it."""
    from cause.device.energy import find_meter

    meter = find_meter(device)
    if meter.unavailable is None:
        return meter
    if model is None:
        raise InputError(
            f"an energy budget needs a meter or a --calibration with joules; there is no meter ({meter.unavailable})"
        )
    if model.joules_line is None:
        raise InputError(f"an energy budget needs joules, and the calibration has none ({model.unavailable})")
    return None


def _report_nothing_done(reason: str, json: bool) -> None:
    if json:
        print_json({"begun": False, "stopped": reason})
    else:
        print(f"nothing done: {reason}")


def _show(done: "Repaired") -> None:
    joules = "" if done.joules is None else f", {done.joules:,.0f} J"
    print(f"{done.trained} segments trained, {done.rsn:,} samples again, in {h.format_duration(done.seconds)}{joules}")
    if done.waiting:
        print(f"shards that still wait: {', '.join(map(str, done.waiting))} ({done.stopped or 'stopped'})")
    else:
        print("nothing waits")
