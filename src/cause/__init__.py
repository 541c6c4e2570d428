"""CAUSE: exact machine unlearning on resource-constrained devices."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cause.estimator import CauseClassifier as CauseClassifier
    from cause.learners import CountingLearner
    from cause.presets import PRESETS, System
    from cause.requests import Request
    from cause.samples import Part, TraceUpload
    from cause.system import Cause
    from cause.trace import Trace, read_trace
    from cause.workload import Workload

__version__ = "0.1.0"

# Imported on first use: the command line must start fast on a small board.
_HOME = {
    "Cause": "system",
    "CauseClassifier": "estimator",
    "CountingLearner": "learners",
    "PRESETS": "presets",
    "Part": "samples",
    "Request": "requests",
    "System": "presets",
    "Trace": "trace",
    "TraceUpload": "samples",
    "Workload": "workload",
    "read_trace": "trace",
}

# without CauseClassifier: `from cause import *` works where scikit-learn is not
__all__ = [
    "PRESETS",
    "Cause",
    "CountingLearner",
    "Part",
    "Request",
    "System",
    "Trace",
    "TraceUpload",
    "Workload",
    "read_trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cause' has no attribute {name!r}")
    return getattr(import_module(f"cause.{_HOME[name]}"), name)
