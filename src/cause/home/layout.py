"""Where things lie in a home."""

from pathlib import Path

FORMAT = 1
"""Raised when an older program could not read what this one writes."""

CONFIG = "cause.toml"
LEDGER = "ledger.db"
LOCK = "lock"
VAULT = "vault"
BLOCKS = "blocks"
SUB_MODELS = "sub-models"


class Layout:
    """The paths of a home."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = self.folder / CONFIG
        self.ledger = self.folder / LEDGER
        self.lock = self.folder / LOCK
        self.vault = self.folder / VAULT
        self.blocks = self.folder / BLOCKS
        self.sub_models = self.folder / SUB_MODELS
