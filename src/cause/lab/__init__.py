"""The laboratory: traces, simulation, the paper's evaluation, audits. What a researcher imports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cause.engine.samples import Part, TraceUpload
    from cause.lab.trace import Trace, read_trace
    from cause.lab.users import Shared, share_out
    from cause.lab.workload import Workload
    from cause.learners.counting import CountingLearner

_MODULES = {
    "CountingLearner": "learners.counting",
    "Part": "engine.samples",
    "Shared": "lab.users",
    "Trace": "lab.trace",
    "TraceUpload": "engine.samples",
    "Workload": "lab.workload",
    "read_trace": "lab.trace",
    "share_out": "lab.users",
}

__all__ = [
    "CountingLearner",
    "Part",
    "Shared",
    "Trace",
    "TraceUpload",
    "Workload",
    "read_trace",
    "share_out",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'cause.lab' has no attribute {name!r}")
    return getattr(import_module(f"cause.{_MODULES[name]}"), name)
