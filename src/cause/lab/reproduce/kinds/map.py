"""RSN of several policies and numbers of slots on the same workloads, one for each seed."""

from typing import Any

from cause.common.hashing import derive, root_key
from cause.engine.memory import POLICIES
from cause.engine.presets import parse_system
from cause.lab.informed import informed
from cause.lab.memory_replay import play, record
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.resources import Resources
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

INFORMED = "informed"
"""The policy that knows the ages, and that no device can have."""
DRAWN = ("users", "rounds", "samples", "rho", "ages", "labels")


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Return the RSN by policy and number of slots, and the floor, each by seed."""
    _, system = parse_system(settings["system"])
    rsn: dict[str, dict[str, list[int]]] = {policy: {} for policy in settings["policies"].split(",")}
    floors = []
    for seed in range(settings["seeds"]):
        workload = Workload(**{part: settings[part] for part in DRAWN}, seed=seed)
        tape = record(workload.trace(), system, Setting(settings["shards"], seed=seed))
        floors.append(tape.floor_rsn)
        key = derive(root_key(seed), "policy")
        for policy, by_slots in rsn.items():
            make = informed(settings["ages"]) if policy == INFORMED else POLICIES[policy]
            for slots in settings["slots"].split(","):
                by_slots.setdefault(slots, []).append(play(tape, make, int(slots), key))
    return {"rsn": rsn, "floor_rsn": floors}
