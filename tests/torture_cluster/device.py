"""The device under torture: a process of its own, so that it can be killed at any moment.

    python -m tests.torture_cluster.device HOME ADDRESS LEASE LEARNER OTHER_ENVIRONMENTS

It reads commands from the standard input and answers on the standard output, one JSON object a line. Each command runs
in a thread of its own. Samples are mapped from files, so that whatever is found in the memory of the process are copies
that the device made.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from cause.device.home.home import Home
from cause.engine.requests import Request
from cause.errors import CauseError
from tests.torture_cluster import learners

SYSTEM = "frugal:partition=hash"
SHARDS, SLOTS = 3, 12
KEY = {"env": "CAUSE_TEST_KEY"}
_saying = threading.Lock()


def say(**line: Any) -> None:
    """Write one line in a single call, so that a kill leaves a whole line or none."""
    with _saying:
        os.write(1, json.dumps(line).encode() + b"\n")


def learner_named(name: str) -> learners.Slow:
    """Return the learner of a name such as `Slow` or `Printing:/folder`."""
    kind, _, argument = name.partition(":")
    made: learners.Slow = getattr(learners, kind)(*([argument] if argument else []))
    return made


def open_home(folder: Path, learner: learners.Slow, **how: Any) -> Cause:
    """Open the home in a folder; make it if there is none."""
    return Cause(folder, learner=learner, system=SYSTEM, shards=SHARDS, slots=SLOTS, key=KEY, **how)


def state(device: Cause) -> dict[str, Any]:
    """Return what the device holds and which requests it has accepted."""
    ledger, home = device.ledger, device.home
    assert home is not None
    users = {piece.upload.user for s in ledger.shards() for each in ledger.lineage(s) for piece in each.pieces}
    return {
        "round": ledger.round,
        "held": {user: sorted(ledger.rounds_of(user)) for user in users},
        "requests": [each for (each,) in home.database.rows("SELECT id FROM requests")],
        "waiting": device.waiting(),
    }


def upload(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Map an upload from its two files."""
    return np.load(f"{path}.x.npy", mmap_mode="r"), np.array(np.load(f"{path}.y.npy"))


def perform(device: Cause, command: dict[str, Any]) -> dict[str, Any]:
    """Do what a command says and return the answer."""
    if command["do"] == "learn":
        device.stage_all({user: upload(path) for user, path in command["uploads"].items()})
        return {"round": device.close_round().round}
    if command["do"] == "train":
        device.repair()
        return {}
    if command["do"] == "forget":
        rounds = command["rounds"]
        asked = Request(command["user"], None if rounds is None else tuple(rounds))
        done = device.serve([asked], ids=[command["request"]], repair=command["repair"])
        return {"samples": sum(each.samples for each in done)}
    assert command["do"] == "state"
    return state(device)


def answer(device: Cause, command: dict[str, Any]) -> None:
    """Perform a command and write what became of it."""
    try:
        say(id=command["id"], **perform(device, command))
    except CauseError as error:
        say(id=command["id"], error=f"{type(error).__name__}: {error}", recorded=error.recorded is not None)
    except BaseException as error:
        say(id=command["id"], error=f"{type(error).__name__}: {error}", unexpected=True)


def tell_accepted() -> None:
    """Write the ids of requests as soon as the home has accepted them."""
    accept = Home.accept

    def telling(self: Home, requests: Any, ids: Any = None) -> list[str]:
        accepted = accept(self, requests, ids)
        say(accepted=accepted)
        return accepted

    Home.accept = telling


def main(folder: Path, address: str, lease: float, learner: str, other_environments: str) -> None:
    """Run the device until the input ends or a command says so."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    from cause.executors.cluster import RayExecutor

    tell_accepted()
    executor = RayExecutor(address, lease=lease, workers=SHARDS, other_environments=other_environments)
    with open_home(folder, learner_named(learner), executor=executor) as device:
        say(id=0, **state(device))
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "close":
                break
            threading.Thread(target=answer, args=(device, command), daemon=True).start()
    executor.close()
    say(closed=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), *sys.argv[4:6])
