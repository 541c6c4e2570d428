"""The files and folders of a home."""

from os import PathLike

from cause.common import home_paths
from cause.common.files import absolute
from cause.errors import HomeError

FORMAT = 7
"""Raised when an older program could not read what this one writes."""

DEVICE_KEY = b"device signature"
"""The vault's name for the device's own key, which signs receipts: not a data key, never erased."""
CONFIG = home_paths.CONFIG
LEDGER = home_paths.LEDGER
LOCK = "lock"
RESERVE = "reserve"
UNFINISHED = "unfinished"
"""A file in a home that is being made. A folder that lost its configuration otherwise is not touched."""
VAULT = "vault"
ANCHOR = "anchor"
BLOCKS = "blocks"
SUB_MODELS = "sub-models"


def not_a_home(folder: str | PathLike[str]) -> HomeError:
    """Return the error for a folder that is not a home."""
    return HomeError(f"{str(folder)!r} is not a home", "`cause init` makes one")


class Layout:
    """Absolute paths of a home's files, so that a change of the working directory has no effect."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = absolute(folder)
        self.config = self.folder / CONFIG
        self.ledger = self.folder / LEDGER
        self.lock = self.folder / LOCK
        self.reserve = self.folder / RESERVE
        self.vault = self.folder / VAULT
        self.anchor = self.vault / ANCHOR
        self.blocks = self.folder / BLOCKS
        self.sub_models = self.folder / SUB_MODELS

    def check(self) -> None:
        """Refuse a home that has lost a part: opening it would destroy what the other parts still hold."""
        for path in (self.ledger, self.vault, self.blocks, self.sub_models):
            if not path.exists():
                raise HomeError(f"{str(self.folder)!r} has lost {path.name!r}: put it back, or restore a backup")
