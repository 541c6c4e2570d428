"""Put a recording disk below everything that a home does."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import cause.device.attach  # what a device imports late: its disk is to be replaced, too
import cause.device.disk
from cause.device.home.home import Home
from cause.device.store.database import Database
from tests.recording_disk import RecordingDisk
from tests.torture.vfs import connect_on


@contextmanager
def on(disk: RecordingDisk) -> Iterator[None]:
    """Whatever a home opens meanwhile, files and ledger, is on this disk."""
    connect = connect_on(disk)
    defaults = [Home.__init__.__kwdefaults__, Database.__init__.__kwdefaults__]
    before = [each["connect"] for each in defaults]
    loaded = [
        module for name, module in sys.modules.items() if name.startswith("cause.") and module is not cause.device.disk
    ]
    modules = [module for module in loaded if vars(module).get("Disk") is cause.device.disk.Disk]
    try:
        for module in modules:
            vars(module)["Disk"] = lambda: disk
        for each in defaults:
            each["connect"] = connect
        yield
    finally:
        for module in modules:
            vars(module)["Disk"] = cause.device.disk.Disk
        for each, original in zip(defaults, before, strict=True):
            each["connect"] = original
