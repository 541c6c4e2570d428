"""What the checksum and the migrations of a ledger need of its connection."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class LedgerConnection(Protocol):
    """A connection to a ledger; see `cause.device.store.database.Database`."""

    @property
    def change(self) -> int:
        """The number of the ledger's last change."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement and return its cursor."""

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of many rows of values."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value of the table `meta`."""

    def set(self, name: str, value: Any) -> None:
        """Set a value of the table `meta`."""

    def transaction(self, *, counts: bool = False) -> AbstractContextManager[None]:
        """Open a transaction: durable when the block ends, undone if it raises."""

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of the block see the same moment."""
