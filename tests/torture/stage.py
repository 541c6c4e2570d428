"""Put a recording disk below everything that a home does."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import cause.disk
from cause.home import Home
from cause.home.database import Database
from tests.recording_disk import RecordingDisk
from tests.torture.vfs import connect_on

MODULES = [import_module(name) for name in ("cause.home.attach", "cause.home.home", "cause.vault.vault")]


@contextmanager
def on(disk: RecordingDisk) -> Iterator[None]:
    """Whatever a home opens meanwhile, files and ledger, is on this disk."""
    connect = connect_on(disk)
    defaults = [Home.__init__.__kwdefaults__, Database.__init__.__kwdefaults__]
    before = [each["connect"] for each in defaults]
    try:
        for module in MODULES:
            vars(module)["Disk"] = lambda: disk
        for each in defaults:
            each["connect"] = connect
        yield
    finally:
        for module in MODULES:
            vars(module)["Disk"] = cause.disk.Disk
        for each, original in zip(defaults, before, strict=True):
            each["connect"] = original
