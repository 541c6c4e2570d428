"""Which shard a sample belongs to: one strategy a file."""

from cause.partition.balanced import Balanced
from cause.partition.base import Arrivals, Assignment, Partitioner
from cause.partition.by_class import ByClass
from cause.partition.given import Given
from cause.partition.hash import Hash
from cause.partition.ucdp import Ucdp
from cause.partition.uniform import Uniform
from cause.registry import Registry

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
)

__all__ = ["PARTITIONERS", "Arrivals", "Assignment", "Partitioner"]
