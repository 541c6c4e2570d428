"""`cause advise`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import check_files, deliver, print_table

if TYPE_CHECKING:
    from cause.device.energy.model import EnergyModel
    from cause.lab.advice import Advice
    from cause.lab.advice.candidates import Candidate

STOPPED = 130
"""The exit code of a program that was interrupted."""


def advise(
    data: Annotated[str, typer.Argument(help="A data set by name or path, as for `cause learn`.", show_default=False)],
    memory: Annotated[str, typer.Option(help="What the device has for sub-models, as 2GB.")] = "2GB",
    rho: Annotated[float, typer.Option(help="How likely a user asks to forget in a round.")] = 0.1,
    samples: Annotated[int, typer.Option(help="How many samples are drawn of the data.")] = 5_000,
    minutes: Annotated[float, typer.Option(help="How long to measure; what does not fit is named.")] = 9.5,
    rounds: Annotated[int, typer.Option(help="Rounds in which the data arrives.")] = 10,
    users: Annotated[int, typer.Option(help="Users, where the data names none.")] = 100,
    data_root: Annotated[Path | None, typer.Option("--data", help="The folder of named data sets.")] = None,
    keep: Annotated[
        Path, typer.Option(help="Measurements are kept here: the same command goes on where it was stopped.")
    ] = Path("cause-advice.json"),
    device: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda.")] = "cpu",
    calibration: h.CalibrationFile = None,
    seed: Annotated[int, typer.Option(help="Of the draw, the users and their requests.")] = 0,
    json: o.AsJson = False,
    out: o.OutFile = None,
    plot: o.PlotFile = None,
) -> None:
    """Measure which learner, system and number of shards suit your data, and recommend one."""
    from cause.common.files import check_writable
    from cause.common.units import parse_bytes
    from cause.data.loading import load
    from cause.errors import InputError
    from cause.lab.advice import advise as measured
    from cause.lab.advice import sample_of
    from cause.lab.advice.cache import MeasurementCache
    from cause.lab.advice.measure import Demand
    from cause.lab.advice.plot import plot as draw

    check_files(plot, out)
    check_writable(keep)
    parse_bytes(memory)
    if not 0 <= rho <= 1:
        raise InputError(f"--rho is a probability from 0 to 1, not {rho}")
    for name, value in (("--samples", samples), ("--rounds", rounds), ("--users", users)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    model, cache = h.model_of(calibration), MeasurementCache(keep)
    sample = sample_of(load(data, root=data_root), samples, seed)
    demand = Demand(memory, rho, rounds, users, seed)

    def started(candidate: "Candidate", done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"{done + 1} of {total}: {candidate.name}", file=sys.stderr, flush=True)

    try:
        advice = measured(sample, demand, minutes=minutes, cache=cache, started=started, device=device)
    except KeyboardInterrupt:
        print(f"stopped; what was measured is in {str(keep)!r}: the same command goes on from there", file=sys.stderr)
        raise typer.Exit(STOPPED) from None
    watts = _watts(model)
    result: dict[str, Any] = {
        "data": data, "samples": len(sample.y), "held_out": len(sample.y_test), **advice.as_dict(),
        "watts": watts,
    }  # fmt: skip
    deliver(
        result,
        show=lambda: _show(advice, result, watts),
        draw=lambda path: draw(advice, path),
        json=json,
        plot=plot,
        out=out,
    )


def _watts(model: "EnergyModel | None") -> float | None:
    """Return the power above idle while training, of a calibration; None without one."""
    if model is None or model.joules_line is None or model.seconds_line.slope <= 0:
        return None
    return model.joules_line.slope / model.seconds_line.slope


def _show(advice: "Advice", result: dict[str, Any], watts: float | None) -> None:
    from cause.common.units import format_bytes

    columns = ["candidate", "accuracy", "±", "RSN", "≈ s of retraining", "learning s", "sub-model", "held"]
    rows = []
    for row in sorted(advice.rows, key=lambda row: -row.accuracy):
        joules = [] if watts is None else [f"{watts * row.retrain_s:,.0f}"]
        numbers = [
            f"{100 * row.accuracy:.1f} %",
            f"{100 * row.half_width:.1f}",
            f"{row.rsn:,}",
            f"{row.retrain_s:,.0f}",
        ]
        sizes = [f"{row.learn_s:.1f}", format_bytes(row.sub_model_bytes), str(row.sub_models)]
        rows.append([row.name, *numbers, *joules, *sizes])
    if watts is not None:
        columns.insert(5, "≈ J")
    simulated = advice.rows[0].simulated if advice.rows else 0
    note = (
        f"{result['samples']:,} samples learned, {result['held_out']:,} held out; RSN simulated for {simulated:,} "
        f"samples, ρ = {advice.demand.rho:g}, {advice.demand.rounds} rounds, {advice.demand.memory}"
    )
    print_table("Measured candidates", columns, rows, note)
    for name, why in advice.not_measured.items():
        print(f"not measured: {name} ({why})")
    if advice.chosen is None:
        print(advice.reason)
        return
    print(f"recommended: {advice.chosen.name}")
    print(advice.reason)
    print(advice.command)
