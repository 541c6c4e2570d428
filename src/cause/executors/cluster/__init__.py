"""Trains shards on the machines of a Ray cluster. Ray starts processes; no sample, sub-model or key goes through it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cause.executors.cluster.executor import RayExecutor

__all__ = ["RayExecutor"]


def __getattr__(name: str) -> Any:
    """Import the executor when it is used: it needs the package `cryptography`."""
    if name == "RayExecutor":
        from cause.executors.cluster.executor import RayExecutor

        return RayExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
