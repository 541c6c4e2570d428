"""Exports: copies of the serving heads, with everything that is needed to vote with them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from cause.common.files import absolute
from cause.common.home_paths import refuse_inside_home
from cause.common.version import __version__
from cause.device.core import home_of
from cause.device.exports.head import Head
from cause.engine.samples import SegmentKey
from cause.errors import CauseError, HomeError, InputError

if TYPE_CHECKING:
    from cause.device.device import Cause

FORMS = ("safetensors", "onnx", "npz")
CARD = "ensemble.json"


@dataclass(frozen=True)
class Exported:
    """An export that was written."""

    id: str
    form: str
    folder: str
    files: tuple[str, ...]
    heads: tuple[SegmentKey, ...]


def form_of(device: "Cause", form: str | None) -> str:
    """Return the form to export in: `form`, or the learner's usual one; raise an `InputError` if it does not fit."""
    fitting = ("safetensors", "onnx") if device.learner.has_network else ("npz",)
    chosen = fitting[0] if form is None else form
    if chosen not in FORMS:
        raise InputError(f"unknown form {chosen!r}: one of {', '.join(FORMS)}")
    if chosen not in fitting:
        raise InputError(f"a {device.learner.type_name} is exported as {' or '.join(fitting)}, not as {chosen}")
    return chosen


def export(device: "Cause", folder: str | Path, form: str | None = None) -> Exported:
    """Write the serving heads into a new folder. The export is recorded first, so that no copy is unrecorded.

    Parameters
    ----------
    device
        A device with a home.
    folder
        A new or empty folder.
    form
        `safetensors`, `onnx` or `npz`; the learner's usual one if it is None.

    Raises
    ------
    InputError
        If the folder is not empty, or the learner cannot be exported in this form.
    CauseError
        If no shard has a sub-model.
    HomeError
        If the folder cannot be written. Nothing stays recorded then.
    """
    home, target, form = home_of(device, "export"), absolute(folder), form_of(device, form)
    refuse_inside_home(target, "an export")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{str(target)!r} is there already: name a new folder for the export")
    heads = _heads(device)
    if not heads:
        raise CauseError("nothing to export: no shard has learned anything, or all of it was forgotten")
    made = Exported(token_hex(8), form, str(folder), (), tuple(head.key for head in heads))
    database = home.database
    with database.transaction():
        home.queries.add_export(made.id, home.clock(), form, made.heads)
    existed = target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        files = _write(device, target, form, heads)
        (target / CARD).write_text(json.dumps(_card(device, made, heads), indent=1, ensure_ascii=False) + "\n")
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if existed:
            target.mkdir(exist_ok=True)
        with database.transaction():
            home.queries.delete_export(made.id)
        if isinstance(error, OSError):
            raise HomeError(f"cannot write the export {str(target)!r}: {error.strerror}") from None
        raise
    return Exported(made.id, form, str(folder), (*files, CARD), made.heads)


def _heads(device: "Cause") -> list[Head]:
    heads = []
    for shard, head in device.heads().items():
        weight = device.ledger.lineage(shard).samples_upto(head.key)
        heads.append(Head(head.key, weight, device.learner.decode(device.memory.shelf.get(head.key))))
    return heads


def _write(device: "Cause", target: Path, form: str, heads: Sequence[Head]) -> tuple[str, ...]:
    if form == "npz":
        from cause.device.exports.arrays import write
    elif form == "onnx":
        from cause.device.exports.onnx import write
    else:
        from cause.device.exports.tensors import write
    return write(device, target, heads)


def _card(device: "Cause", exported: Exported, heads: Sequence[Head]) -> dict[str, Any]:
    """Return the description that a user of the export needs to vote with the heads; it names no user of the device."""
    recipe = device.learner.recipe
    card: dict[str, Any] = {
        "cause": __version__,
        "export": exported.id,
        "form": exported.form,
        "classes": device.classes,
        "vote": device.system.vote,
        "heads": [{"name": head.name, "learned_rounds_up_to": head.key.round, "weight": head.weight} for head in heads],
    }
    if recipe is not None:
        card["recipe"] = asdict(recipe)
        card["input"] = {"shape": list(recipe.shape), "mean": recipe.mean, "std": recipe.std}
    elif (description := device.learner.described()) is not None:
        card["learner"] = description
        card["input"] = {"function": device.learner.input_function}
    return card
