"""`cause calibrate`."""

from typing import TYPE_CHECKING, Annotated

import typer

from cause.cli import options as o
from cause.cli.output import check_files, deliver, print_table, progress_bar

if TYPE_CHECKING:
    from cause.lab.energy_calibration import Calibration


def calibrate(
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    epochs: Annotated[int, typer.Option(help="Epochs for each training: as in the recipe that you will use.")] = 5,
    repeats: Annotated[int, typer.Option(help="Readings of each size; the first of several is not counted.")] = 3,
    json: o.AsJson = False,
    out: o.OutFile = None,
) -> None:
    """Fit joules and seconds per retrained sample on this machine, by training the demo's network on the digits."""
    from dataclasses import asdict
    from importlib.util import find_spec

    from cause.errors import InputError

    for module in ("torch", "safetensors", "zstandard", "sklearn"):
        if find_spec(module) is None:
            raise InputError(f"calibration needs {module}: pip install 'cause[demo]'")
    check_files(None, out)
    from cause.device.energy import find_meter, with_idle
    from cause.lab import energy_calibration as measuring
    from cause.lab.calibration import SIZES, check_device, learner_for, lesson_of

    check_device(device)
    learner = learner_for(epochs, device)
    with progress_bar("idle power") as progress:
        meter = with_idle(find_meter(device), progress=progress)
    with progress_bar("training") as progress:
        calibration = measuring.calibrate(
            learner, lesson_of, SIZES, meter, name=f"digits cnn, {epochs} epochs, {device}", repeats=repeats,
            progress=progress,
        )  # fmt: skip
    result = {"model": calibration.model.as_dict(), "runs": [asdict(run) for run in calibration.runs]}
    deliver(result, show=lambda: _show(calibration), draw=lambda path: None, json=json, plot=None, out=out)


def _show(calibration: "Calibration") -> None:
    model = calibration.model
    lines = [("joules", model.joules_line), ("seconds", model.seconds_line)]
    rows = [
        [name, "unknown", "", "", ""]
        if line is None
        else [name, f"{line.slope:.3g}", f"{line.half_width:.1g}", f"{line.intercept:.3g}", f"{line.r2:.4f}"]
        for name, line in lines
    ]
    idle = "" if model.idle_watts is None else f" Idle: {model.idle_watts:.1f} W, subtracted."
    note = f"No meter: {model.unavailable}" if model.unavailable else f"Meter: {model.source}.{idle}"
    sizes = sorted({run.samples for run in calibration.runs})
    trainings = sum(run.trainings for run in calibration.runs)
    print_table(
        f"Cost of a retrained sample: {model.learner}, {trainings} trainings of {sizes[0]} to {sizes[-1]} samples",
        ["", "per sample", "± 95 %", "per training", "R²"],
        rows,
        note=note,
    )
