"""The function of the shard controller."""

from typing import Any

from cause.engine.controller import ShardController
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.resources import Resources


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Return S_t of every round."""
    controller = ShardController(settings["shards"], settings["p"], settings["gamma"])
    return {"active": [controller.at(t) for t in range(1, settings["rounds"] + 1)]}
