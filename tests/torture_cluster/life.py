"""One life of a device on the cluster: rounds, trainings, forgets, faults; and what was promised is looked at.

The checks follow docs/cluster.md, and look from outside: at processes, files and the home.
"""

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cause.device.device import Cause
from cause.executors.cluster.other_environments import REFUSE
from tests.clean_room import differences, trained_on
from tests.process_memory import Needles
from tests.torture.checks import all_in_the_log
from tests.torture_cluster.device import SHARDS, SLOTS, SYSTEM, open_home
from tests.torture_cluster.driver import Call, DeviceDied, Driver
from tests.torture_cluster.faults import Faults
from tests.torture_cluster.learners import CLASSES, FEATURES, ByProcessor, Processors, Slow
from tests.torture_cluster.nodes import Cluster, command_of, is_worker
from tests.torture_cluster.searching import Search
from tests.waiting import pass_time

AFTER_LEASE_S = 1.0
"""After a forget has returned, plus the lease, plus this, nobody holds the samples."""
DEVICE_S = 5.0
"""After so long the memory of the device holds nothing forgotten: the bound of tests/device/test_process_memory.py."""
ROWS = 4
HANG_S = 150.0
"""A training that takes longer without faults hangs: its work takes seconds."""
FORGET_S = 5.0
"""What a forget may take besides the lease: it takes a tenth of a second, and shares two processors with the nodes."""


@dataclass
class Tally:
    """What was done and what was wrong."""

    forgets: int = 0
    rounds: int = 0
    lives: int = 0
    checks: int = 0
    device_kills: int = 0
    samples_forgotten: int = 0
    processes_searched: int = 0
    lives_of_whole_shards: int = 0
    shards_elsewhere: int = 0  # shards at the end of a life that were trained in another environment than the device's
    device_held_s: float = 0.0  # the longest time after a forget at which the device's memory still held something
    forget_s: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def _label(user: str, round_: int) -> str:
    """Return by what the samples of a user and round are named in a report."""
    return f"of {user[:12]} in round {round_} "


def clean_room(rounds: list[Any], learner: Slow, placed: Mapping[int, str]) -> Cause:
    """Return a device in memory that received what is retained, each shard trained in its environment.

    A shard without a record is one that the device trained before nodes of other environments were there.
    """
    settings: dict[str, Any] = {"system": SYSTEM, "shards": SHARDS, "slots": SLOTS}
    if not placed:
        return trained_on(rounds, learner, **settings)
    device = Cause(learner=learner, executor=Processors(), **settings)
    device.memory.environments.update(dict.fromkeys(range(SHARDS), learner.environment) | dict(placed))
    for uploads in rounds:
        device.learn(uploads, empty=True)
    return device


class Life:
    """A device from its first round to its end.

    Parameters
    ----------
    cluster
        Where it trains.
    folder
        An empty folder, for the home and the samples.
    seed
        All choices follow from it, but not the moments at which things happen.
    lease
        The seconds of a lease.
    tally
        Counts what happens.
    learner
        The learner's name (see `tests.torture_cluster.device`).
    faults
        Whether faults are injected.
    other_environments
        What is done with nodes of another environment: "refuse" or "whole-shards".
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        seed: int,
        lease: float,
        tally: Tally,
        learner: str = "Slow",
        *,
        faults: bool = True,
        other_environments: str = REFUSE,
    ) -> None:
        self._other_environments = other_environments
        self._cluster, self._folder, self._lease, self.tally = cluster, folder, lease, tally
        self._seed, self._draw, self._learner, self._disturbed = seed, random.Random(seed), learner, faults
        self._home = folder / "home"
        (folder / "data").mkdir()
        self._round = 0
        self._kept: dict[int, list[str]] = {}  # users of each round that are retained
        self._forgotten: list[tuple[str, int]] = []  # users and rounds, of requests in effect
        self._accepted: set[str] = set()
        self._returned_at = 0.0
        self._killing = threading.Event()
        self._driver = self._open()

    def _open(self) -> Driver:
        return Driver(
            self._home, self._cluster.address, self._lease, self._learner, self._other_environments,
            self._cluster.variables, self._folder / "device.log",
        )  # fmt: skip

    # what is in the samples

    def _samples(self, user: str, round_: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what a user uploads in a round."""
        draw = np.random.default_rng([self._seed, round_, *user.encode()])
        y = np.arange(ROWS) % CLASSES
        return draw.normal(size=(ROWS, FEATURES)).astype(np.float32), y

    def _needles(self, uploads: list[tuple[str, int]], names: list[str]) -> list[Needles]:
        """Return the rows of uploads as they were uploaded and as learners hold them, and names."""
        groups: dict[str, dict[str, bytes]] = {"float32": {}, "float64": {}}
        for user, round_ in uploads:
            x, _ = self._samples(user, round_)
            for kind, named in groups.items():
                rows = x.astype(kind)
                named |= {f"row {n} {_label(user, round_)}({kind})": r.tobytes() for n, r in enumerate(rows)}
        groups["names"] = {f"the name {name[:12]}": name.encode() for name in names}
        return [Needles(named) for named in groups.values() if named]

    # what is done

    def live(self, forgets: int) -> None:
        """Learn rounds, and forget until so many forgets have returned; look at everything now and then."""
        faults = Faults(self._cluster, self._draw, self._lease, self._killing.set, self._log)
        start = self.tally.forgets
        try:
            while self.tally.forgets - start < forgets:
                self._burst(faults, forgets - (self.tally.forgets - start))
                self._check()
        finally:
            faults.close()
            self.tally.faults += faults.counts
        self._finish()
        self.tally.lives += 1
        self.tally.lives_of_whole_shards += self._other_environments != REFUSE

    def abandon(self) -> None:
        """End the device's process."""
        self._driver.kill()

    def _burst(self, faults: Faults, most: int) -> None:
        """Learn a round, and forget users while it is trained and afterwards."""
        if not self._learn():
            self._reopen([])
            return
        self._log("learned a round")
        training = self._driver.send(do="train")
        if self._disturbed:
            faults.on()
        calls: list[Call] = []
        for _ in range(min(most, self._draw.randint(16, 30))):
            self._killing.wait(self._draw.choice((0.0, 0.0, 0.05, 0.2, 0.8)))
            calls += self._forget(calls)
            waits = calls and calls[-1].command["repair"] == "later" and self._draw.random() < 0.6
            if self._killing.is_set() or (waits and not self._ended(calls[-1:])):
                break
        faults.off()
        if not self._ended([*calls, training] if self._draw.random() < 0.3 else calls):
            self._reopen(calls)
        else:
            for call in calls:
                self._note(call)
            if training.answer is not None:
                self._note(training)
        self._killing.clear()

    def _ended(self, calls: list[Call]) -> bool:
        """Wait until calls have been answered; False if the device has to be killed or was."""
        for call in calls:
            end, late = call.began_at + HANG_S, call.began_at + self._lease + FORGET_S
            while not call.event.wait(0.05):
                if self._killing.is_set():
                    return False
                if time.monotonic() > late and call.command.get("repair") == "later":
                    self._log("a forget takes long: see the stacks in device.log")
                    self._driver.show_stacks()
                    late = end
                if time.monotonic() > end:
                    self._driver.show_stacks()
                    self._violation(f"{call.command['do']} has not returned after {HANG_S:.0f} s")
                    return False
            if call.answer is None:
                self._violation(f"the device's process ended by itself during {call.command['do']}")
                return False
        return True

    def _learn(self) -> bool:
        """Record a round of new users and some who come again; False if the device was killed meanwhile."""
        round_ = self._round + 1
        users = [f"user-{self._draw.getrandbits(480):0120x}" for _ in range(self._draw.randint(24, 34))]
        earlier = sorted({user for users in self._kept.values() for user in users})
        users += self._draw.sample(earlier, min(2, len(earlier)))
        uploads = {}
        for user in users:
            path = uploads[user] = str(self._folder / "data" / f"{round_}-{user[:16]}")
            for part, array in zip("xy", self._samples(user, round_), strict=True):
                np.save(f"{path}.{part}.npy", array)
        call = self._driver.send(do="learn", uploads=uploads)
        try:
            answer = call.wait(HANG_S)
        except (DeviceDied, TimeoutError) as error:
            self._violation(f"learning a round: {type(error).__name__} {error}")
            return False
        if "error" in answer:
            self._violation(f"a round was not taken: {answer['error']}")
            return False
        self._round = answer["round"]
        self._kept[self._round] = users
        self.tally.rounds += 1
        return True

    def _forget(self, before: list[Call]) -> list[Call]:
        """Send a request for all of a user, or for one round; at most one request for a user at a time."""
        busy = {call.command["user"] for call in before}
        held = sorted({(user, t) for t, users in self._kept.items() for user in users if user not in busy})
        if not held:
            return []
        user, round_ = self._draw.choice(held)
        return [
            self._driver.send(
                do="forget",
                user=user,
                rounds=self._draw.choice((None, [round_])),
                request=f"{self._draw.getrandbits(128):032x}",
                repair=self._draw.choice(("later",) * 11 + ("now",)),
            )
        ]

    def _note(self, call: Call) -> None:
        """Note what became of a call that was answered."""
        assert call.answer is not None
        command, answer = call.command, call.answer
        self._log(
            f"{command['do']} {command.get('repair', '')} took {call.seconds:.2f} s: {answer.get('error', 'done')}"
        )
        if answer.get("unexpected"):
            self._violation(f"{command['do']}: {answer['error']}")
        elif "error" in answer:
            self.tally.errors[f"{command['do']}: {answer['error'].partition(':')[0]}"] += 1
        if command["do"] != "forget":
            return
        if "error" in answer and not answer.get("recorded"):
            if command["request"] in self._driver.accepted:
                self._violation(f"an accepted request was answered as if it were not: {answer['error']}")
            return
        self._accepted.add(command["request"])
        self._apply(command)
        if "error" in answer:
            return
        self.tally.forgets += 1
        self._returned_at = max(self._returned_at, call.done_at)
        if command["repair"] == "later":
            self.tally.forget_s.append(call.seconds)
            if call.seconds > self._lease + FORGET_S:
                self._violation(f"a forget took {call.seconds:.1f} s with a lease of {self._lease:g} s")

    def _apply(self, command: dict[str, Any]) -> None:
        """Take what a request names from what is retained."""
        rounds = command["rounds"] or list(self._kept)
        for round_ in rounds:
            if command["user"] in self._kept[round_]:
                self._kept[round_].remove(command["user"])
                self._forgotten.append((command["user"], round_))
                self.tally.samples_forgotten += ROWS

    def _reopen(self, calls: list[Call]) -> None:
        """Kill the device in the middle of calls, open its home again, and see that what was accepted holds."""
        self._log("kill the device")
        self._driver.kill()
        self.tally.device_kills += 1
        for call in calls:
            if call.answer is not None:
                self._note(call)
        accepted = set(self._driver.accepted)
        began = time.monotonic()
        self._driver = self._open()
        state = self._driver.state
        for call in calls:
            if call.answer is None and call.command["request"] in accepted:
                self._accepted.add(call.command["request"])
                self._apply(call.command)
                self.tally.forgets += 1
                self._returned_at = max(self._returned_at, time.monotonic())
            elif call.answer is None and call.command["request"] in state["requests"]:  # killed before it could say so
                self._accepted.add(call.command["request"])
                self._apply(call.command)
        self._log(f"opened in {time.monotonic() - began:.1f} s")
        self._compare(state, "after a kill")

    def _compare(self, state: dict[str, Any], when: str) -> None:
        """See that a device holds what it should, and has every accepted request."""
        held = {(user, t) for user, rounds in state["held"].items() for t in rounds}
        expected = {(user, t) for t, users in self._kept.items() for user in users}
        if state["round"] != self._round:
            self._violation(f"{when} the round is {state['round']}, not {self._round}")
        for user, round_ in sorted(held - expected)[:3]:
            self._violation(f"{when} the samples of {user[:12]} in round {round_} are held, which were forgotten")
        for user, round_ in sorted(expected - held)[:3]:
            self._violation(f"{when} the samples of {user[:12]} in round {round_} are lost")
        lost = self._accepted - set(state["requests"])
        if lost:
            self._violation(f"{when} {len(lost)} accepted requests are lost")

    # what is looked at

    def _check(self) -> None:
        """After the lease and a second: nothing forgotten in processes, shared memory, Ray's folders and the home."""
        if not self._forgotten:
            return
        self.tally.checks += 1
        self._log("check")
        pass_time(max(0.0, self._returned_at + self._lease + AFTER_LEASE_S - time.monotonic()))
        forgotten = self._forgotten
        kept = [(user, t) for t, users in self._kept.items() for user in users]
        names = sorted({user for user, _ in [*forgotten, *kept]})
        gone, everything = Search(self._needles(forgotten, [])), Search(self._needles([*forgotten, *kept], names))
        processes = dict.fromkeys(self._cluster.network.processes(), "") | self._cluster.processes()
        processes.pop(self._driver.pid, None)
        labels = [_label(user, round_) for user, round_ in forgotten]
        # workers first: Ray ends those of a node that is cut off for long, leases or not
        for pid, command in sorted(processes.items(), key=lambda each: not is_worker(each[1])):
            found, now = everything.in_process(pid), command_of(pid)
            if is_worker(command) or is_worker(now) or not now:  # a worker may hold what was not forgotten
                found = [each for each in found if any(label in each for label in labels)]
            self._report(found, f"the memory of {(now or command)[:60].strip() or f'process {pid}'}")
        self.tally.processes_searched += len(processes)
        self._report(everything.in_folder(Path("/dev/shm")), "shared memory")
        for folder in self._cluster.ray_folders:
            self._report(everything.in_folder(folder), "Ray's folder")
        self._report(gone.in_folder(self._home), "the home")
        while found := gone.in_process(self._driver.pid):
            held_s = time.monotonic() - self._returned_at
            self.tally.device_held_s = max(self.tally.device_held_s, held_s)
            if held_s > DEVICE_S:
                self._report(found, f"the memory of the device after {held_s:.1f} s")
                break
        self._log("checked")

    def _report(self, found: list[str], where: str) -> None:
        if found:
            self._violation(f"{len(found)} hits in {where}: {'; '.join(found[:3])}")

    def _finish(self) -> None:
        """Without faults everything is trained; then the home equals a clean room, bit for bit."""
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            call = self._driver.send(do="train")
            if not self._ended([call]):
                self._reopen([])
            elif call.answer is not None and "error" not in call.answer:
                break
            else:
                self._note(call)
                pass_time(1.0)  # a node of its environment may have just come back
        state = self._driver.send(do="state").wait(HANG_S)
        self._compare(state, "at the end")
        if state["waiting"]:
            self._violation(f"shards {state['waiting']} still wait for training without any fault")
        self._log("finished")
        if not self._driver.close(HANG_S):
            self._violation("the device does not close")
            self._driver.kill()
        rounds = [{user: self._samples(user, t) for user in self._kept[t]} for t in sorted(self._kept)]
        learner = (Slow if self._other_environments == REFUSE else ByProcessor)(0.0)
        with open_home(self._home, learner) as device:
            placed = dict(device.memory.environments)
            clean = clean_room(rounds, learner, placed)
            for problem in [*differences(device, clean), *all_in_the_log(device)]:
                self._violation(f"beside the clean room: {problem}")
            heads = device.heads().values()
            elsewhere = sum(head.environment != learner.environment for head in heads)
        self.tally.shards_elsewhere += elsewhere
        self._log(f"{elsewhere} of {len(heads)} shards were trained in another environment")
        shutil.rmtree(self._folder / "data")

    def _log(self, text: str) -> None:
        """Write what happens to a file, to find the cause of a violation."""
        with (self._folder / "events.log").open("a") as file:
            file.write(f"{time.monotonic():.2f} {text}\n")

    def _violation(self, text: str) -> None:
        self._log(f"VIOLATION {text}")
        self.tally.violations.append(f"life {self._seed}: {text}")
