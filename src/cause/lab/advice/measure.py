"""Measures one candidate: it learns a sample for real, round after round, and its retraining is simulated."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.device.device import Cause
from cause.engine.learner import Learner
from cause.engine.presets import parse_system
from cause.engine.progress import Step
from cause.errors import CauseError, InputError
from cause.lab.advice.candidates import ADDITIVE, Candidate
from cause.lab.advice.sample import Sample
from cause.lab.simulate import Setting, simulate
from cause.lab.users import Shared, share_out, share_own
from cause.learners.additive import AdditiveLearner
from cause.learners.additive.backbones import Backbone
from cause.learners.described import build

MOST_SIMULATED = 50_000
"""Samples whose retraining is simulated: the whole data set up to here, else a random part of it."""
AT_ONCE = 32
"""Inputs whose features are computed before the time is looked at."""


class TimeUpError(BaseException):
    """The time for a candidate is over: it is not measured.

    No `Exception`: a device takes one for a failing training, and trains each upload alone to find the cause.
    """


@dataclass(frozen=True)
class Demand:
    """What the user's device has and is asked for."""

    memory: str = "2GB"
    rho: float = 0.1
    rounds: int = 10
    users: int = 100
    seed: int = 0


@dataclass(frozen=True)
class Row:
    """What was measured of a candidate."""

    name: str
    kind: str
    accuracy: float
    half_width: float
    """Half of the 95 % confidence interval of the accuracy."""
    rsn: int
    """Samples that a device with the whole data set would train again, over all rounds, in a simulation."""
    simulated: int
    """The samples of that device."""
    retrain_s: float
    """Seconds of that on this machine: the RSN times the seconds of learning a sample."""
    learn_s: float
    sub_model_bytes: int
    sub_models: int
    """How many sub-models are held in the end."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain data for JSON."""
        return asdict(self)


def shared_of(
    x: NDArray[Any], y: NDArray[np.int64], owners: NDArray[np.str_] | None, sample: Sample, demand: Demand
) -> Shared:
    """Spread samples over rounds: by their users if these are known, else over users of the paper's workload."""
    if owners is not None:
        return share_own(x, y, owners, rounds=demand.rounds, rho=demand.rho, seed=demand.seed)
    users = max(1, min(demand.users, len(y) // demand.rounds))
    settings: dict[str, Any] = {"users": users, "rounds": demand.rounds, "rho": demand.rho, "seed": demand.seed}
    return share_out(x, y, classes=sample.classes, **settings)


class Features:
    """Features of a sample by frozen backbones, computed once for all heads. `close` deletes the files that it made."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._found: dict[str, tuple[NDArray[Any], NDArray[Any], float]] = {}
        self._late: set[str] = set()  # backbones that were given up

    def of(
        self, backbone: Backbone, sample: Sample, check: Callable[[], None]
    ) -> tuple[NDArray[Any], NDArray[Any], float]:
        """Return the features of the training and of the test samples, and the seconds that the first took."""
        key = repr(sorted(backbone.identity.items()))
        if key in self._late:
            raise TimeUpError
        if key not in self._found:
            self._late.add(key)
            started = time.perf_counter()
            train = self._computed(backbone, sample.x, check)
            seconds = time.perf_counter() - started
            self._found[key] = train, self._computed(backbone, sample.x_test, check), seconds
            self._late.discard(key)
        return self._found[key]

    def exported(self, candidate: Candidate) -> Path:
        """Return the file that the candidate's learner names, as `cause backbone export` makes it.

        Raises
        ------
        InputError
            If it cannot be made.
        """
        from cause.learners.additive.backbones.export import NAME, export_backbone

        self._folder = self._folder or TemporaryDirectory(prefix="cause-advise-")
        path = Path(self._folder.name) / str(candidate.learner["backbone"])
        if not path.exists():
            try:
                export_backbone(NAME, path, candidate.exported)
            except CauseError:
                raise
            except Exception as error:  # of the exporter
                line = (str(error).splitlines() or [""])[0]
                raise InputError(f"{NAME} cannot be exported: {type(error).__name__}: {line}") from None
        return path

    def close(self) -> None:
        """Delete the exported files."""
        if self._folder is not None:
            self._folder.cleanup()

    @staticmethod
    def _computed(backbone: Backbone, x: NDArray[Any], check: Callable[[], None]) -> NDArray[Any]:
        parts = []
        for start in range(0, len(x), AT_ONCE):
            check()
            part = x[start : start + AT_ONCE]
            flat = len(backbone.input_shape) == 1 and part.ndim > 2
            parts.append(backbone.compute(part.reshape(len(part), prod(part.shape[1:])) if flat else part))
        return np.concatenate(parts)


class Computed(Backbone):
    """A backbone whose features are the inputs: they were computed before."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The features."""
        return (self.features,)

    @property
    def features(self) -> int:
        """As many as the backbone has."""
        return self._backbone.features

    @property
    def scale(self) -> tuple[float, float] | None:
        """That of the backbone."""
        return self._backbone.scale

    @property
    def regularization(self) -> float:
        """That of the backbone."""
        return self._backbone.regularization

    @property
    def typical(self) -> tuple[float, float] | None:
        """That of the backbone."""
        return self._backbone.typical

    @property
    def identity(self) -> dict[str, Any]:
        """That of the backbone."""
        return self._backbone.identity

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs."""
        return x


def measure(
    candidate: Candidate, sample: Sample, demand: Demand, features: Features, deadline: float, device: str = "cpu"
) -> Row:
    """Let a candidate learn the sample, test it, and simulate what it would retrain.

    Parameters
    ----------
    candidate, sample, demand
        What is measured, on what.
    features
        Of backbones, shared by candidates.
    deadline
        When to give up, on the clock of `time.monotonic`.
    device
        Where networks are trained.

    Raises
    ------
    TimeUpError
        If it takes longer.
    CauseError
        If the candidate does not fit the memory or the data.
    """

    def check() -> None:
        if time.monotonic() > deadline:
            raise TimeUpError

    def watch(step: Step) -> None:
        check()

    _, system = parse_system(candidate.system)
    settings = dict(candidate.learner)
    if settings["kind"] == "torch":
        settings["device"] = device
    if candidate.exported is not None:
        settings["backbone"] = str(features.exported(candidate))
    learner: Learner = build(settings)
    x, x_test, made_s = sample.x, sample.x_test, 0.0
    if candidate.kind == ADDITIVE:
        assert isinstance(learner, AdditiveLearner)
        x, x_test, made_s = features.of(learner.backbone, sample, check)
        arguments = {k: v for k, v in settings.items() if k not in ("kind", "backbone", "size", "shape", "features")}
        arguments["regularization"] = learner.head.setting.regularization
        learner = AdditiveLearner(Computed(learner.backbone), **arguments)
    elif learner.input_shape is not None and len(learner.input_shape) == 1:
        x, x_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
    shared = shared_of(x, sample.y, sample.owners, sample, demand)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = Cause(
            learner=learner, system=system, shards=candidate.shards, memory=demand.memory, classes=sample.classes,
            seed=demand.seed, watch=watch,
        )  # fmt: skip
    started = time.perf_counter()
    for round_ in shared.trace.rounds:
        check()
        trained.learn(shared.uploads(round_))
    answers = trained.predict(x_test)
    learn_s = time.perf_counter() - started + made_s
    accuracy = float((answers == sample.y_test).mean())
    check()
    rsn, simulated = _simulated(candidate, sample, demand, trained)
    return Row(
        name=candidate.name,
        kind=candidate.kind,
        accuracy=accuracy,
        half_width=1.96 * (accuracy * (1 - accuracy) / len(x_test)) ** 0.5,
        rsn=rsn,
        simulated=simulated,
        retrain_s=rsn * learn_s / len(sample.y),
        learn_s=learn_s,
        sub_model_bytes=trained.learner.sub_model_bytes,
        sub_models=len(trained.memory.stored()),
    )


def _simulated(candidate: Candidate, sample: Sample, demand: Demand, trained: Cause) -> tuple[int, int]:
    """Return the RSN over all rounds of a device with the whole data set, and how many samples that is."""
    count = min(len(sample.all_y), MOST_SIMULATED)
    chosen = np.random.default_rng(demand.seed).permutation(len(sample.all_y))[:count]
    y, owners = sample.all_y[chosen], sample.all_owners
    trace = shared_of(y, y, None if owners is None else owners[chosen], sample, demand).trace
    _, system = parse_system(candidate.system)
    setting = Setting(
        candidate.shards, demand.memory, sub_model_bytes=trained.learner.sub_model_bytes, classes=sample.classes,
        seed=demand.seed,
    )  # fmt: skip
    return simulate(trace, candidate.system, system, setting).rsn, count
