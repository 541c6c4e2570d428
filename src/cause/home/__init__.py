"""A durable device: its home on the disk."""

from cause.home.attach import attach, create
from cause.home.config import Config, Settings, read_config
from cause.home.home import Home

__all__ = ["Config", "Home", "Settings", "attach", "create", "read_config"]
