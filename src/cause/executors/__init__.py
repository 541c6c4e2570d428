"""Where sub-models are trained."""

from cause.executors.base import Executor, ShardError, ShardWork, Task, train_segment
from cause.executors.here import Here
from cause.executors.processes import Processes

__all__ = ["Executor", "Here", "Processes", "ShardError", "ShardWork", "Task", "train_segment"]
