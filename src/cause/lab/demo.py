"""The demo: every system learns the digits, forgets, and is compared with its clean room."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.learner import Learner
from cause.engine.presets import ADDITIVE_SYSTEM, parse_system
from cause.engine.progress import Progress
from cause.lab.clean_room import clean_room, compare, equals_scratch
from cause.lab.digits import BRIGHTEST, CLASSES, SHAPE, share_out
from cause.lab.reproduce.resources import check_processes
from cause.lab.reproduce.summary import Panel, Series
from cause.lab.simulate import Setting, simulate
from cause.learners.additive import AdditiveLearner
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner

SYSTEMS = ("sisa", "omp-70", "arcane", "omp-95", "cause", "frugal", ADDITIVE_SYSTEM)  # the longest first
UNITS = 256
"""The random units of the additive learner: its state is a quarter of the memory's default."""


@dataclass(frozen=True)
class Job:
    """One system to run, and its settings."""

    system: str
    users: int = 30
    rounds: int = 10
    shards: int = 4
    rho: float = 0.1
    memory: str = "1MB"
    epochs: int = 5
    seed: int = 0

    def recipe(self) -> Recipe:
        """Return the recipe of a small convolutional network."""
        return Recipe("cnn", CLASSES, SHAPE, epochs=self.epochs, batch_size=32, lr=3e-3, std=BRIGHTEST, steps=3)


@dataclass(frozen=True)
class Outcome:
    """The result of one system."""

    system: str
    accuracy: float
    rsn: int
    simulated_rsn: int
    learn_s: float
    forget_s: float
    requests: int
    used_bytes: int
    budget_bytes: int
    slots: int
    stored: int
    clean: int
    """Sub-models with the same identity and bits as in the clean room."""
    replayed: int
    """Sub-models that a replay from the retained data, in this process, reproduced."""
    unverifiable: int
    """Sub-models of another environment, which a replay cannot check."""
    from_scratch: bool | None = None
    """Whether the state equals that of a device without the same rounds, order and seed; None for other systems."""


def device_for(job: Job) -> Cause:
    """Return the device of a job; raise an error if it cannot be made."""
    return Cause(
        learner=learner_for(job),
        system=parse_system(job.system)[1],
        shards=1 if job.system == ADDITIVE_SYSTEM else job.shards,
        memory=job.memory,
        classes=CLASSES,
        seed=job.seed,
    )


def learner_for(job: Job) -> Learner:
    """Return a new learner: sums for the system `additive`, a small network for the others."""
    if job.system == ADDITIVE_SYSTEM:
        return AdditiveLearner(shape=SHAPE[1:], scale=(0, BRIGHTEST), classes=CLASSES, expand=UNITS)
    return TorchLearner(job.recipe())


def run(job: Job, tick: Callable[[], None] = lambda: None) -> Outcome:
    """Learn, forget, and check; `tick` is called after every round and after each of the two checks."""
    shared = share_out(job.users, job.rounds, job.rho, seed=job.seed)
    name, system = parse_system(job.system)
    device = device_for(job)
    learn_s = forget_s = 0.0
    rsn = 0
    for round_ in shared.trace.rounds:
        started = time.perf_counter()
        device.learn(shared.uploads(round_))
        learn_s += time.perf_counter() - started
        if round_.forgets:
            started = time.perf_counter()
            rsn += sum(result.rsn for result in device.serve(round_.forgets))
            forget_s += time.perf_counter() - started
        tick()
    rounds = [shared.uploads(round_) for round_ in shared.trace.rounds]
    clean, new = clean_room(device, learner_for(job), rounds, job.seed), learner_for(job)
    from_scratch = equals_scratch(device, new, rounds) if isinstance(new, AdditiveLearner) else None
    tick()
    replayed = verify(device, processes=0)
    tick()
    setting = Setting(job.shards, slots=device.memory.slots, classes=CLASSES, seed=job.seed)
    return Outcome(
        system=name,
        accuracy=float((device.predict(shared.x_test) == shared.y_test).mean()),
        rsn=rsn,
        simulated_rsn=simulate(shared.trace, name, system, setting).rsn,
        learn_s=learn_s,
        forget_s=forget_s,
        requests=shared.trace.requests,
        used_bytes=device.memory.used_bytes,
        budget_bytes=device.memory.budget_bytes,
        slots=device.memory.slots,
        stored=len(device.memory),
        clean=len(compare(device, clean).identical),
        replayed=len(replayed.identical),
        unverifiable=len(replayed.unverifiable),
        from_scratch=from_scratch,
    )


def run_all(jobs: Sequence[Job], processes: int, progress: Progress) -> list[Outcome]:
    """Run jobs in new processes, several at once; return their results in order."""
    check_processes(processes)
    total, done = sum(job.rounds + 2 for job in jobs), 0
    context = get_context("spawn")
    ticks = context.SimpleQueue()
    pool = ProcessPoolExecutor(min(processes, len(jobs)), context, _set_tick, (ticks,))
    try:
        futures = [pool.submit(_run, job) for job in jobs]
        while not all(future.done() for future in futures):
            wait(futures, timeout=0.2, return_when=FIRST_EXCEPTION)
            while not ticks.empty():
                ticks.get()
                done += 1
                progress(done, total)
            if any(future.done() and future.exception() for future in futures):
                break
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def panels_of(outcomes: Sequence[Outcome]) -> list[Panel]:
    """Return the plots of the demo: accuracy, retrained samples, and the time spent on requests."""
    systems = [outcome.system for outcome in outcomes]
    shown: dict[str, list[float]] = {
        "accuracy of the vote": [outcome.accuracy for outcome in outcomes],
        "retrained samples": [outcome.rsn for outcome in outcomes],
        "seconds spent on requests": [outcome.forget_s for outcome in outcomes],
    }
    return [Panel("", "", what, [Series(what, systems, values)], bars=True) for what, values in shown.items()]


_tick: Callable[[], None] = lambda: None  # noqa: E731  # set in each worker process


def _set_tick(ticks: "SimpleQueue[None]") -> None:
    global _tick
    _tick = partial(ticks.put, None)


def _run(job: Job) -> Outcome:
    return run(job, _tick)
