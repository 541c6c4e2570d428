"""Two trainings by turns, an epoch each, in two processes: what disturbs the machine meets both alike."""

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

Pause = Callable[[], None]
"""Called after each epoch: the time until the next turn is not counted."""
Work = Callable[[Pause], None]
Prepare = Callable[..., Work]
"""Does in a process what is not to be counted (imports, data, a first step), and returns what is."""


@dataclass(frozen=True)
class Took:
    """A whole training, from the call to its return, without the waiting for its turns."""

    wall_s: float
    cpu_s: float
    turns: tuple[float, ...]


def by_turns(first: Prepare, second: Prepare, *args: object, what: str = "") -> tuple[Took, Took]:
    """Run both to their ends; each stands still while the other runs."""
    spawn = multiprocessing.get_context("spawn")
    ends: list[Connection] = []
    processes = []
    for prepare in (first, second):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_run, args=(theirs, prepare, args), daemon=True)
        process.start()
        theirs.close()
        ours.recv()  # ready
        ends.append(ours)
        processes.append(process)
    took: list[list[tuple[float, float]]] = [[], []]
    running = [True, True]
    while any(running):
        for number, end in enumerate(ends):
            if running[number]:
                end.send(None)
                wall, cpu, running[number] = end.recv()
                took[number].append((wall, cpu))
        _tell(what, took)
    for process in processes:
        process.join()
    found = [Took(sum(w for w, _ in each), sum(c for _, c in each), tuple(w for w, _ in each)) for each in took]
    return found[0], found[1]


def _tell(what: str, took: Sequence[Sequence[tuple[float, float]]]) -> None:
    so_far = " and ".join(f"{sum(wall for wall, _ in each):.1f} s" for each in took)
    print(f"{what}: turn {len(took[0])}, {so_far}", file=sys.stderr, flush=True)


def _run(end: Connection, prepare: Prepare, args: Sequence[object]) -> None:
    work = prepare(*args)
    end.send(None)
    end.recv()
    wall, cpu = time.perf_counter(), time.process_time()

    def pause() -> None:
        nonlocal wall, cpu
        end.send((time.perf_counter() - wall, time.process_time() - cpu, True))
        end.recv()
        wall, cpu = time.perf_counter(), time.process_time()

    work(pause)
    end.send((time.perf_counter() - wall, time.process_time() - cpu, False))
