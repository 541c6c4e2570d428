"""The cost of retraining on this machine: seconds and joules against the number of samples."""

from typing import Any

from cause.device.energy import find_meter, with_idle
from cause.engine.presets import System
from cause.lab.energy_calibration import calibrate
from cause.lab.recipes import paper
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.kinds.prune import lesson_of
from cause.lab.reproduce.recipes import scaling
from cause.lab.reproduce.resources import Resources
from cause.learners.torch import TorchLearner


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Measure trainings of several sizes."""
    data, backbone = resources.data(settings["dataset"]), settings["backbone"]
    recipe = paper(backbone, data.classes, data.shape, epochs=settings["epochs"], **scaling(data))
    learner = TorchLearner(recipe, device=resources.device).composed(System(pruning=settings["pruning"]))
    meter = with_idle(find_meter(resources.device))
    calibration = calibrate(
        learner, lambda samples: lesson_of(data, samples), settings["sizes"], meter,
        name=f"{backbone}, {settings['pruning']}", repeats=settings["repeats"],
    )  # fmt: skip
    model = calibration.model
    return {
        "points": [[run.samples, run.seconds, run.measurement.above_idle_joules] for run in calibration.runs],
        "trainings": [run.trainings for run in calibration.runs],
        "unavailable": model.unavailable,
        "meter": model.source,
        "idle_watts": model.idle_watts,
        "environment": learner.environment,
    }
