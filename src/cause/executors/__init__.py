"""Executors: where sub-models are trained, in this process or in worker processes."""

from cause.executors.in_process import InProcess
from cause.executors.processes import Processes

__all__ = ["InProcess", "Processes"]
