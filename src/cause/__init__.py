"""CAUSE: exact machine unlearning on resource-constrained devices.

The laboratory (traces, simulation, the paper's evaluation) is `cause.lab`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cause.common.version import __version__ as __version__

if TYPE_CHECKING:
    from cause.device.device import Cause
    from cause.device.estimator import CauseClassifier as CauseClassifier
    from cause.engine.arrays import ArrayUpload
    from cause.engine.learner import Learner
    from cause.engine.presets import PRESETS, System
    from cause.engine.requests import Request
    from cause.learners.additive import AdditiveLearner
    from cause.learners.sklearn import SklearnLearner as SklearnLearner
    from cause.learners.torch import TorchLearner as TorchLearner

# Imported on first use: the command line must start fast on a small board.
_MODULES = {
    "PRESETS": "engine.presets",
    "AdditiveLearner": "learners.additive",
    "ArrayUpload": "engine.arrays",
    "Cause": "device.device",
    "CauseClassifier": "device.estimator",
    "Learner": "engine.learner",
    "Request": "engine.requests",
    "SklearnLearner": "learners.sklearn",
    "System": "engine.presets",
    "TorchLearner": "learners.torch",
}

# without what needs scikit-learn or torch: `from cause import *` works where they are not installed
__all__ = ["PRESETS", "AdditiveLearner", "ArrayUpload", "Cause", "Learner", "Request", "System"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"cause.{_MODULES[name]}"), name)
    if name in import_module("cause.lab").__all__:
        raise AttributeError(f"module 'cause' has no attribute {name!r}: it is in the laboratory, `cause.lab`")
    raise AttributeError(f"module 'cause' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, "__version__"])
