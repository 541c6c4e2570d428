"""The system's records."""

from cause.ledger.base import Ledger, Quarantined, Selection
from cause.ledger.lineage import Lineage, Segment
from cause.ledger.memory import MemoryLedger

__all__ = ["Ledger", "Lineage", "MemoryLedger", "Quarantined", "Segment", "Selection"]
