"""The bounded memory for sub-models, and who goes when it is full: one policy a file."""

from cause.memory.base import MemoryView, Policy, PolicySetting
from cause.memory.cost import Cost
from cause.memory.fibor import FiboR
from cause.memory.fifo import Fifo
from cause.memory.latest import Latest
from cause.memory.random import Random
from cause.memory.shelves import FolderShelf, MemoryShelf, Shelf
from cause.memory.static import Static
from cause.memory.store import Memory, SubModel
from cause.memory.unlimited import Unlimited
from cause.registry import Registry

POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    {
        "fibor": FiboR,
        "cost": Cost,
        "fifo": Fifo,
        "random": Random,
        "static": Static,
        "latest": Latest,
        "unlimited": Unlimited,
    },
)

__all__ = [
    "POLICIES",
    "FolderShelf",
    "Memory",
    "MemoryShelf",
    "MemoryView",
    "Policy",
    "PolicySetting",
    "Shelf",
    "SubModel",
]
