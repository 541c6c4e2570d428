"""A system learns for real, round after round, and serves the requests that come: the one runner of all accuracies."""

import time
from dataclasses import replace
from typing import Any

from cause.device.device import Cause
from cause.device.energy import Meter, NoMeter, find_meter, with_idle
from cause.device.verify import replay
from cause.engine.progress import Step
from cause.engine.requests import Request
from cause.engine.voting import VOTES
from cause.lab.reproduce.data import Split
from cause.lab.reproduce.kinds import Settings
from cause.lab.reproduce.recipes import RECIPES
from cause.lab.reproduce.resources import Resources
from cause.lab.simulate import Setting, simulate
from cause.lab.users import Shared, share_out
from cause.learners.torch import TorchLearner


def shared_of(data: Split, settings: Settings) -> Shared:
    """Return the users, rounds and requests of a run, over its share of the samples."""
    return share_out(
        data.x,
        data.y,
        classes=data.classes,
        users=settings["users"],
        rounds=settings["rounds"],
        samples=max(1, round(settings["share"] * len(data.y))),
        rho=settings["rho"],
        alpha=settings["alpha"],
        seed=settings["seed"],
        **{name: settings[name] for name in ("ages", "scope", "arrivals", "labels") if name in settings},
    )


class Visits:
    """Adds up the samples that were trained on, once for each epoch, over several calls."""

    def __init__(self) -> None:
        self.total = self._current = 0

    def watch(self, step: Step) -> None:
        """Note what the current call has visited so far."""
        self._current = step.done

    def close(self) -> None:
        """Add what the call that ended has visited."""
        self.total, self._current = self.total + self._current, 0


class Bill:
    """Time and energy of serving requests. A single reading that fails leaves the energy unknown."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.seconds = 0.0
        self._joules: float | None = 0.0 if meter.unavailable is None else None
        self._unavailable = meter.unavailable

    def serve(self, device: Cause, requests: list[Request]) -> int:
        """Serve requests and measure it; return how many samples were retrained."""
        with self._meter.measure() as running:
            rsn = sum(result.rsn for result in device.serve(requests))
        record = running.record
        self.seconds += record.seconds
        if record.above_idle_joules is None or self._joules is None:
            self._joules, self._unavailable = None, self._unavailable or record.unavailable
        else:
            self._joules += record.above_idle_joules
        return rsn

    def as_dict(self) -> dict[str, Any]:
        """Return the bill for JSON. Energy below idle counts as unknown: idle power was measured on a busy device."""
        plausible = self._joules is None or self._joules >= 0
        return {
            "joules": self._joules if plausible else None,
            "unavailable": self._unavailable if plausible else "less energy than idle: something else used the device",
            "source": self._meter.source,
            "idle_watts": self._meter.idle_watts,
        }


def run(settings: Settings, resources: Resources) -> dict[str, Any]:
    """Learn every round, serve its requests, and measure the accuracy of the vote and of each head."""
    data = resources.data(settings["dataset"])
    training = RECIPES[settings["recipe"]]
    recipe, system = training.compose(data, settings["backbone"], settings["system"], settings["epochs"])
    start = training.start
    make = start and start(data, recipe, settings["system"], settings["seed"], resources.device)
    shared, visits = shared_of(data, settings), Visits()
    device = Cause(
        learner=TorchLearner(recipe, make=make, device=resources.device),
        system=system,
        shards=settings["shards"],
        memory=settings["memory"],
        classes=data.classes,
        seed=settings["seed"],
        executor=resources.executor,
        watch=visits.watch,
    )
    x, y = data.tests(settings["tests"])
    has_requests = any(round_.forgets for round_ in shared.trace.rounds)
    bill = Bill(NoMeter("no request was made"))
    learn_s, rsn_per_round = 0.0, list[int]()
    for round_ in shared.trace.rounds:
        started = time.perf_counter()
        device.learn(shared.uploads(round_))
        learn_s += time.perf_counter() - started
        visits.close()
        if has_requests and round_ is shared.trace.rounds[0]:  # idle power changes after a card's first training
            bill = Bill(with_idle(find_meter(resources.device)))
        rsn_per_round.append(bill.serve(device, round_.forgets) if round_.forgets else 0)
        visits.close()
    simulated = None
    if has_requests:
        slots = Setting(settings["shards"], slots=device.memory.slots, classes=data.classes, seed=settings["seed"])
        simulated = simulate(shared.trace, settings["system"], system, slots).rsn
    weights, probabilities = device.votes(x)
    return {
        "accuracy": float((VOTES[system.vote](probabilities, weights) == y).mean()),
        "accuracy_of_heads": (probabilities.argmax(axis=2) == y).mean(axis=1).tolist(),
        "samples": shared.trace.samples,
        "samples_visited": visits.total,
        "rsn": sum(rsn_per_round),
        "rsn_per_round": rsn_per_round,
        "simulated_rsn": simulated,
        "requests": shared.trace.requests,
        "learn_s": round(learn_s, 3),
        "forget_s": round(bill.seconds, 3),
        "energy": bill.as_dict(),
        "head_bytes": [head.size_bytes for head in device.heads().values()],
        "used_bytes": device.memory.used_bytes,
        "replayed": _replayed(device, settings["verify"]),
        "workers": resources.workers,
        "environment": device.learner.environment,
    }


def _replayed(device: Cause, most: int) -> dict[str, int]:
    """Replay the first segments of a shard; return how many stored sub-models have the same bits."""
    replays = [replay(replace(chain, lessons=chain.lessons[:most])) for chain in device.chains()[: min(most, 1)]]
    return {
        "identical": sum(len(replayed.identical) for replayed in replays),
        "mismatched": sum(len(replayed.mismatched) for replayed in replays),
    }
