"""Ledgers: records of rounds, uploads and segments."""

from cause.engine.ledger.base import Ledger, Quarantined, Selection
from cause.engine.ledger.lineage import Lineage, Segment
from cause.engine.ledger.memory import MemoryLedger

__all__ = ["Ledger", "Lineage", "MemoryLedger", "Quarantined", "Segment", "Selection"]
