"""Where things lie in a home."""

from os import PathLike
from pathlib import Path

from cause.errors import HomeError

FORMAT = 5
"""Raised when an older program could not read what this one writes."""

CONFIG = "cause.toml"
LEDGER = "ledger.db"
LOCK = "lock"
VAULT = "vault"
BLOCKS = "blocks"
SUB_MODELS = "sub-models"


class Layout:
    """The paths of a home."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config = self.folder / CONFIG
        self.ledger = self.folder / LEDGER
        self.lock = self.folder / LOCK
        self.vault = self.folder / VAULT
        self.blocks = self.folder / BLOCKS
        self.sub_models = self.folder / SUB_MODELS

    def check(self) -> None:
        """Refuse a home that has lost a part: opening it would destroy what the other parts still hold."""
        for path in (self.ledger, self.vault, self.blocks, self.sub_models):
            if not path.exists():
                raise HomeError(f"{str(self.folder)!r} has lost {path.name!r}: put it back, or restore a backup")
