"""Trains shards on the machines of a Ray cluster. Ray starts processes; no sample, sub-model or key goes through it."""

from cause.executors.cluster.executor import RayExecutor

__all__ = ["RayExecutor"]
