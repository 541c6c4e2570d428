"""The options of `cause init --learner additive`, as the table `[learner]` of a configuration."""

from pathlib import Path
from typing import Any

from cause.cli import homes as h
from cause.errors import InputError


def additive_table(options: dict[str, Any], others: dict[str, Any], classes: int | None) -> dict[str, Any]:
    """Return the table that the options describe.

    Parameters
    ----------
    options
        The options that were given, by the names of the learner's arguments.
    others
        Options of other learners that were given; only features and shape fit here.
    classes
        The number of classes; None for 10.

    Raises
    ------
    InputError
        If an option does not fit.
    """
    for name in others:
        if name not in ("features", "shape"):
            raise InputError(f"--{name.replace('_', '-')} is not for an additive learner")
    table = {"kind": "additive", "classes": 10 if classes is None else classes, **options}
    if "features" in others:
        table["features"] = others["features"]
    if "shape" in others:
        table["shape"] = h.numbers_of(others["shape"], "--shape")
    public = table.pop("scale_from", None)
    if public is not None and "scale" in table:
        raise InputError("--scale and --scale-from: give one of them")
    if "scale" in table:
        table["scale"] = _scale(table["scale"])
    elif public is not None:
        table["scale"] = _public_scale(public)
    return table


def _public_scale(path: Path) -> list[list[float]]:
    """Return a scale for each feature of the rows in a data file, which are public."""
    from cause.data.loading import load
    from cause.learners.additive import public_scale

    x = load(str(path)).x
    low, high = public_scale(x.reshape(len(x), -1))
    return [low, high]


def _scale(text: str) -> list[Any]:
    """Parse "LOW,HIGH", or "LOW,LOW,…;HIGH,HIGH,…" for one scale a feature."""
    parts = text.split(";") if ";" in text else text.split(",")
    try:
        if len(parts) != 2:
            raise ValueError
        sides = [[float(number) for number in part.split(",")] for part in parts]
    except ValueError:
        raise InputError(f"--scale is LOW,HIGH, as 0,255, or LOW,…;HIGH,… for each feature, not {text!r}") from None
    return [side[0] if len(side) == 1 else side for side in sides]
