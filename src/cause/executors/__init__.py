"""Executors: where sub-models are trained, in this process or in worker processes."""

from cause.engine.executor import Executor, ShardError, ShardWork, Task, train_segment
from cause.executors.in_process import Here
from cause.executors.processes import Processes

__all__ = ["Executor", "Here", "Processes", "ShardError", "ShardWork", "Task", "train_segment"]
