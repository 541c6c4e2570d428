"""The parts of `python -m benchmarks.growth`, each run in a process of its own: build a home, or measure one."""

import gc
import json
import os
import random
import sqlite3
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cases import peak_mb

KEY = "CAUSE_BENCH_KEY"
SYSTEM, SHARDS, SLOTS = "frugal", 4, 64
ROWS, FEATURES, CLASSES = 3, 8, 2
"""A tiny upload: one block of three samples, so that the number of uploads decides the cost."""
UPLOADS_A_USER = 4
RECEIPTS_A_BATCH = 1_000
OTHER = "other"


class Size(NamedTuple):
    """Uploads in so many rounds; each user has UPLOADS_A_USER of them, in rounds that lie far apart."""

    uploads: int
    rounds: int

    @classmethod
    def parse(cls, text: str) -> "Size":
        """From a text such as 1000x100."""
        uploads, sign, rounds = text.partition("x")
        if not (sign and uploads.isdigit() and rounds.isdigit() and 0 < int(rounds) <= int(uploads)):
            raise ValueError(f"a size is UPLOADSxROUNDS with an upload or more in each round, not {text!r}")
        return cls(int(uploads), int(rounds))

    def __str__(self) -> str:
        return f"{self.uploads}x{self.rounds}"

    @property
    def users(self) -> int:
        """How many users there are; of a home with few rounds at least as many as upload in one of them."""
        return max(-(-self.uploads // self.rounds), self.uploads // UPLOADS_A_USER)

    def round_of(self, upload: int) -> int:
        """The round in which an upload arrives, from 1."""
        return upload * self.rounds // self.uploads + 1

    def rounds_of(self, user: int) -> list[int]:
        """The rounds in which a user uploads."""
        return [self.round_of(upload) for upload in range(user, self.uploads, self.users)]


# Building


def without_waiting() -> None:
    """Let nothing in this process wait for the disk: a home that is being built may be lost."""
    from cause.device.disk import Disk

    Disk.sync = lambda self, *files: None
    Disk.sync_folder = lambda self, folder: None


def new_device(folder: Path) -> Any:
    """A device in a new home; its ledger does not wait for the disk either."""
    from sklearn.naive_bayes import GaussianNB

    from cause.device.device import Cause
    from cause.learners.sklearn import SklearnLearner

    learner = SklearnLearner(GaussianNB(), classes=CLASSES, features=FEATURES)
    device = Cause(folder, learner=learner, key={"env": KEY}, system=SYSTEM, shards=SHARDS, slots=SLOTS)
    device.home.database.run("PRAGMA synchronous=OFF")
    return device


def uploads_of(draw: Any, names: list[str]) -> dict[str, tuple[Any, Any]]:
    """What these users send in a round."""
    x = draw.integers(256, size=(len(names), ROWS, FEATURES), dtype="uint8")
    y = draw.integers(CLASSES, size=(len(names), ROWS))
    return {name: (x[i], y[i]) for i, name in enumerate(names)}


def build(folder: str, size: str, limit_s: str) -> dict[str, Any]:
    """Build a home of a size through the public API; stop after so many seconds.

    Returns
    -------
    dict
        `build_s`, and `unfinished` (rounds that were made) where the time was not enough.
    """
    import numpy as np

    from cause.cli.output import progress_bar

    without_waiting()
    asked, draw, start = Size.parse(size), np.random.default_rng(0), time.perf_counter()
    by_round: dict[int, list[str]] = {}
    for upload in range(asked.uploads):
        by_round.setdefault(asked.round_of(upload), []).append(f"user {upload % asked.users}")
    with new_device(Path(folder)) as device, progress_bar(f"building {size}") as progress:
        for t in range(1, asked.rounds + 1):
            device.learn(uploads_of(draw, by_round[t]))
            progress(t, asked.rounds)
            if time.perf_counter() - start > float(limit_s) and t < asked.rounds:
                return {"unfinished": t, "build_s": time.perf_counter() - start}
    return {"build_s": time.perf_counter() - start}


def build_receipts(folder: str, count: str, limit_s: str) -> dict[str, Any]:
    """Let a home have so many receipts: users upload, and all of them are forgotten and repaired, in batches.

    A home that is there goes on with the receipts that it has.
    """
    import numpy as np

    from cause.cli.output import progress_bar
    from cause.device.device import Cause
    from cause.engine.requests import Request

    without_waiting()
    wanted, draw, start = int(count), np.random.default_rng(0), time.perf_counter()
    there = Path(folder).exists()
    device = Cause(folder) if there else new_device(Path(folder))
    with device, progress_bar(f"{wanted:,} receipts") as progress:
        device.home.database.run("PRAGMA synchronous=OFF")
        while (has := device.home.receipts.size) < wanted:
            batch = min(RECEIPTS_A_BATCH, wanted - has) // 2  # one when it is in effect, one when it is repaired
            names = [f"user {has + number}" for number in range(batch)]
            device.learn(uploads_of(draw, names))
            device.serve([Request(name) for name in names], repair="now")
            progress(has, wanted)
            if time.perf_counter() - start > float(limit_s):
                return {"unfinished": device.home.receipts.size, "build_s": time.perf_counter() - start}
    return {"build_s": time.perf_counter() - start}


# Measuring


def rss_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def format_of(folder: Path) -> int:
    """The format of a home's ledger."""
    with closing(sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def import_all() -> None:
    """Import what opening and forgetting need, so that it is not counted."""
    from cause.learners.described import build as build_learner

    build_learner({"kind": "sklearn", "estimator": "GaussianNB", "classes": CLASSES, "features": FEATURES})


def open_(folder: str) -> dict[str, Any]:
    """Open a home for writing, ask for its status twice, close it.

    Returns
    -------
    dict
        Seconds, and megabytes of resident memory beyond those of the imports: after opening, after `status`, and the
        most at any moment of the opening.
    """
    import_all()
    from cause.device.device import Cause

    before, peak_before = rss_mb(), peak_mb()
    format_before = format_of(Path(folder))
    start, cpu = time.perf_counter(), time.process_time()
    device = Cause(folder)
    open_s, open_cpu_s = time.perf_counter() - start, time.process_time() - cpu
    after, peak = rss_mb(), peak_mb()
    status = []
    for _ in range(2):
        start = time.perf_counter()
        device.status()
        status.append(time.perf_counter() - start)
    with_status = rss_mb()
    keys = len(device.home.vault.names()) if device.home else 0
    device.close()
    return {
        "open_s": open_s, "open_cpu_s": open_cpu_s, "rss_mb": after - before,
        "peak_mb": max(peak, peak_before) - before, "imports_mb": before, "rss_status_mb": with_status - before,
        "status_first_s": status[0], "status_s": status[1], "keys": keys, "format": format_before,
    }  # fmt: skip


def doctor(folder: str) -> dict[str, Any]:
    """Let `cause doctor` look at a home."""
    import_all()
    from cause.device.fsck import examine_home

    before, start = rss_mb(), time.perf_counter()
    health = examine_home(folder)
    seconds = time.perf_counter() - start
    return {"doctor_s": seconds, "doctor_mb": peak_mb() - before, "problems": len(health.problems)}


class Written:
    """Bytes that this process writes into a home, by the folder in it; the ledger's are what no `OpenFile` wrote."""

    def __init__(self, home: Path) -> None:
        from cause.device.disk import OpenFile

        self._home, self._counted = home.resolve(), Counter[str]()
        write_at = OpenFile.write_at

        def counted(file: Any, offset: int, data: Any) -> None:
            write_at(file, offset, data)
            self._counted[self._part(file.path)] += len(data)

        OpenFile.write_at = counted  # type: ignore[assignment]

    def _part(self, path: Path) -> str:
        with_home = path.resolve()
        if not with_home.is_relative_to(self._home):
            return OTHER
        parts = with_home.relative_to(self._home).parts
        return parts[0] if len(parts) > 1 else OTHER

    @contextmanager
    def counting(self, into: list[dict[str, int]]) -> Iterator[None]:
        """Add what is written meanwhile to a list."""
        self._counted.clear()
        before = _written_by_process()
        yield
        total, counted = _written_by_process() - before, dict(self._counted)
        into.append({**counted, "ledger": total - sum(counted.values()), "all": total})


def _written_by_process() -> int:
    """Bytes given to write calls, SQLite's included (Linux)."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


FORGETS: dict[str, Callable[[Size, int, random.Random], dict[str, Any]]] = {
    "upload": lambda size, user, draw: {"rounds": [draw.choice(size.rounds_of(user))]},
    "user": lambda size, user, draw: {},
    "sample": lambda size, user, draw: {"rounds": [draw.choice(size.rounds_of(user))], "count": 1},
}
"""What is forgotten of a user, as arguments of `Cause.forget`."""


def freeze() -> None:
    """Keep what is imported and loaded out of later garbage collections, as `cause serve` does.

    Without it one forget in 20 to 40 takes 60 to 100 ms longer in a program that has imported scikit-learn: Python then
    looks at every object there is.
    """
    gc.collect()
    gc.freeze()


def forget(folder: str, size: str, kind: str, times: str, limit_s: str, skip: str) -> dict[str, Any]:
    """Forget of random users, each once, and leave the repair for later; the first forget is told apart.

    Stops after so many seconds; `forgets` says how many there were. Skips so many users, of whom an earlier call may
    have forgotten something.
    """
    import_all()
    from benchmarks.home import _flushes, p99
    from cause.cli.output import progress_bar
    from cause.device.device import Cause

    asked, draw = Size.parse(size), random.Random(0)
    users = draw.sample(range(asked.users), asked.users)[int(skip) :][: int(times) + 1]
    took: list[float] = []
    busy: list[float] = []
    flushes: list[float] = []
    written: list[dict[str, int]] = []
    before = rss_mb()
    with Cause(folder) as device, progress_bar(f"forgetting: {kind}") as progress:
        freeze()
        bytes_in = Written(Path(folder))
        began = time.perf_counter()
        for user in users:
            arguments = FORGETS[kind](asked, user, draw)
            with bytes_in.counting(written):
                start, cpu = time.perf_counter(), time.process_time()
                device.forget(f"user {user}", **arguments, repair="later")
                took.append(time.perf_counter() - start)
                busy.append(time.process_time() - cpu)
            flushes.append(_flushes(Path(folder).with_name("flushed")))
            progress(len(took), len(users))
            if time.perf_counter() - began > float(limit_s) and len(took) > 1:
                break
        start = time.perf_counter()
        device.status()
        status_s, rss = time.perf_counter() - start, rss_mb() - before
    rest = took[1:]
    parts = sorted({part for each in written for part in each})
    return {
        "kind": kind, "forgets": len(rest), "first_s": took[0], "first_cpu_s": busy[0], "first_bytes": written[0],
        "p50_s": statistics.median(rest), "p99_s": p99(rest), "most_s": max(rest),
        "cpu_p50_s": statistics.median(busy[1:]), "cpu_p99_s": p99(busy[1:]),
        "flushes_p50_s": statistics.median(flushes), "flushes_p99_s": p99(flushes),
        "bytes": {part: statistics.median(each.get(part, 0) for each in written[1:]) for part in parts},
        "bytes_most": {part: max(each.get(part, 0) for each in written[1:]) for part in parts},
        "status_after_s": status_s, "rss_mb": rss,
    }  # fmt: skip


def forget_newcomers(folder: str, times: str) -> dict[str, Any]:
    """Users upload to a home that has forgotten many before them, and are forgotten one after the other."""
    import_all()
    import numpy as np

    from benchmarks.home import p99
    from cause.device.device import Cause

    took: list[float] = []
    busy: list[float] = []
    names = [f"newcomer {number}" for number in range(int(times))]
    with Cause(folder) as device:
        device.learn(uploads_of(np.random.default_rng(0), [*names, "one who stays"]))
        freeze()
        for name in names:
            start, cpu = time.perf_counter(), time.process_time()
            device.forget(name, repair="later")
            took.append(time.perf_counter() - start)
            busy.append(time.process_time() - cpu)
    return {
        "forgets": len(took), "forget_p50_s": statistics.median(took), "forget_p99_s": p99(took),
        "forget_cpu_p50_s": statistics.median(busy),
    }  # fmt: skip


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "build": build,
    "build-receipts": build_receipts,
    "open": open_,
    "doctor": doctor,
    "forget": forget,
    "forget-newcomers": forget_newcomers,
}

if __name__ == "__main__":
    os.environ.setdefault(KEY, "ab" * 32)
    print(json.dumps(CASES[sys.argv[1]](*sys.argv[2:])))
