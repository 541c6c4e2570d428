"""Partitioners, which assign uploads or samples to shards: one strategy a file."""

from cause.common.registry import Registry, subclass_of
from cause.engine.partition.balanced import Balanced
from cause.engine.partition.base import Arrivals, Assignment, Partitioner
from cause.engine.partition.by_class import ByClass
from cause.engine.partition.given import Given
from cause.engine.partition.hash import Hash
from cause.engine.partition.ucdp import Ucdp
from cause.engine.partition.uniform import Uniform

PARTITIONERS: Registry[type[Partitioner]] = Registry(
    "partition",
    {
        "ucdp": Ucdp,
        "balanced": Balanced,
        "uniform": Uniform,
        "by-class": ByClass,
        "hash": Hash,
        "given": Given,
    },
    group="cause.partitioners",
    accepts=subclass_of(Partitioner),
)

__all__ = ["PARTITIONERS", "Arrivals", "Assignment", "Partitioner"]
