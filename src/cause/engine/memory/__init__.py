"""The bounded memory for sub-models, and its replacement policies, one a file."""

from cause.common.registry import Registry, subclass_of
from cause.engine.memory.adaptive import Adaptive
from cause.engine.memory.base import MemoryView, Policy, PolicySetting
from cause.engine.memory.cost import Cost
from cause.engine.memory.fibor import FiboR
from cause.engine.memory.fibor_printed import FiboRPrinted
from cause.engine.memory.fifo import Fifo
from cause.engine.memory.latest import Latest
from cause.engine.memory.random import Random
from cause.engine.memory.shelves import MemoryShelf, Shelf
from cause.engine.memory.static import Static
from cause.engine.memory.store import Memory, SubModel
from cause.engine.memory.unlimited import Unlimited
from cause.engine.memory.until_full import UntilFull

POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    {
        "fibor": FiboR,
        "cost": Cost,
        "adaptive": Adaptive,
        "fifo": Fifo,
        "random": Random,
        "static": Static,
        "latest": Latest,
        "fibor-printed": FiboRPrinted,
        "until-full": UntilFull,
        "unlimited": Unlimited,
    },
    group="cause.policies",
    accepts=subclass_of(Policy),
)

__all__ = [
    "POLICIES",
    "Memory",
    "MemoryShelf",
    "MemoryView",
    "Policy",
    "PolicySetting",
    "Shelf",
    "SubModel",
]
