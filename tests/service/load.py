"""`make load`: many clients, a round that trains, a repair under way, and a service that is killed again and again.

python -m tests.service.load [--clients 64] [--seconds 20] [--kills 50]
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from cause.client import Client, ServiceError
from cause.device.device import Cause
from cause.device.store.blocks import open_block
from cause.errors import VaultError
from tests.device.homes import CLASSES, FEATURES, MASTER, bayes, opened, samples
from tests.device.vault.attacker import recoverable
from tests.service.services import Daemon
from tests.torture.attack import attack
from tests.waiting import pass_time, wait_until

UPLOAD = 6
START_S = 300.0
"""How long a service may take to start on a busy machine."""


@dataclass
class Heard:
    """What the clients were told."""

    predicted: list[float] = field(default_factory=list)
    erased: list[float] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)
    """Users whose erasure is in effect, and the request's id."""
    accepted: dict[str, str] = field(default_factory=dict)
    uploaded: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    lost: int = 0
    """Calls that were cut off."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def make_home(folder: Path, kind: str, users: int, shards: int = 4) -> Daemon:
    """A home with users and a round that was trained."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    if kind == "cnn":
        from cause.learners.torch import TorchLearner

        learner = TorchLearner("cnn", classes=CLASSES, shape=(1, 2, 3), epochs=100)
        device: Cause = opened(folder, learner=learner, shards=shards, slots=None, memory="64MB")
    else:
        device = opened(folder, learner=bayes(), shards=shards, slots=64)
    for t in (1, 2):  # of these nobody goes, so that every shard can fall back
        device.learn({f"stays {number}": samples(f"stays {number}", t, 20) for number in range(8)})
    device.learn({f"user {number}": samples(f"user {number}", 1, UPLOAD) for number in range(users)})
    device.close()
    return Daemon(folder)


def attempt(work: Callable[[], object], heard: Heard) -> None:
    try:
        work()
    except httpx.HTTPError:
        with heard.lock:
            heard.lost += 1
    except ServiceError as error:
        with heard.lock:
            heard.refused.append(str(error))


def clients(
    daemon: Daemon,
    secret: str,
    heard: Heard,
    count: int,
    users: int,
    until: Callable[[], bool],
    pause: float,
    every: int,
) -> None:
    """All of them at once; returns when they are done."""
    pool = [number for number in range(users) if f"user {number}" not in heard.gone]
    random.Random(1).shuffle(pool)

    def live(number: int) -> None:
        draw = random.Random(time.time_ns() + number)
        with daemon.client(secret, timeout_s=60) as client:
            while not until():
                if number % every == 0:
                    attempt(lambda: _erase(client, heard, pool), heard)
                elif number % every == 1:
                    attempt(lambda: _upload(client, heard, f"new {number} {draw.random()}"), heard)
                else:
                    attempt(lambda: _predict(client, heard, draw), heard)
                if number % every < 2:
                    pass_time(pause)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _predict(client: Client, heard: Heard, draw: random.Random) -> None:
    x = np.array([[draw.gauss(0, 1) for _ in range(FEATURES)]], dtype=np.float32)
    start = time.perf_counter()
    client.predict(x)
    with heard.lock:
        heard.predicted.append(time.perf_counter() - start)


def _erase(client: Client, heard: Heard, pool: list[int]) -> None:
    with heard.lock:
        if not pool:
            return
        user = f"user {pool.pop()}"
    start = time.perf_counter()
    body = client.erase(user, key=user)
    took = time.perf_counter() - start
    with heard.lock:
        heard.erased.append(took)
        (heard.gone if body.in_effect else heard.accepted)[user] = body.id


def _upload(client: Client, heard: Heard, user: str) -> None:
    client.upload(user, *samples(user, 1, 3), key=user)
    with heard.lock:
        heard.uploaded[user] = 3


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def under_load(folder: Path, count: int, seconds: float) -> Heard:
    """A round trains and repairs are under way; predictions and erasures are timed."""
    users = 200
    daemon = make_home(folder, "cnn", users).start(START_S)
    heard, stop = Heard(), threading.Event()
    try:
        secret = daemon.token("operator")
        closing = daemon.client(secret, timeout_s=60)

        def rounds() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                for each in range(4):
                    user = f"round {number} {each}"
                    attempt(partial(closing.upload, user, *samples(user, 1, 60)), heard)
                attempt(closing.close_round, heard)
                stop.wait(5)

        closer = threading.Thread(target=rounds)
        closer.start()
        wait_until(lambda: closing.status()["training"] is not None, message="no round is trained")
        trained = [0, 0, 0]

        def look() -> None:
            while not stop.wait(0.25):
                body = closing.status()
                trained[0] += body["training"] is not None
                trained[1] += bool(body["repair"]["waiting"])
                trained[2] += 1

        watcher = threading.Thread(target=look)
        watcher.start()
        end = time.perf_counter() + seconds
        clients(daemon, secret, heard, count, users, lambda: time.perf_counter() > end, pause=4.0, every=16)
        stop.set()
        closer.join()
        watcher.join()
        closing.close()
    finally:
        stop.set()
        daemon.stop()
    spent = len(heard.predicted) / seconds
    for what, values in (("predict", heard.predicted), ("erase in effect", heard.erased)):
        p50, p99 = 1e3 * quantile(values, 0.5), 1e3 * quantile(values, 0.99)
        print(f"{what}: {len(values):,} answers, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"{count} clients, {seconds:.0f} s: {spent:.0f} predictions/s")
    looks = f"{trained[1]} saw shards that train or wait for it, {trained[0]} the middle of a segment"
    print(f"of {trained[2]} looks {looks}")
    print(f"refused: {len(heard.refused)} {sorted(set(heard.refused))[:3]}, cut off: {heard.lost}")
    return heard


def under_kills(folder: Path, kills: int, count: int = 8, seed: int = 0) -> list[str]:
    """Kill the service again and again while it is used; what was promised and not kept."""
    users = 40 + 5 * kills
    daemon = make_home(folder, "bayes", users)
    secret, heard, draw = daemon.token("operator"), Heard(), random.Random(seed)
    problems: list[str] = []
    for number in range(kills):
        daemon.start(START_S)
        ended = threading.Event()
        threads = [threading.Thread(target=clients, args=(daemon, secret, heard, count, users, ended.is_set, 0.05, 4))]
        threads[0].start()
        pass_time(draw.uniform(0.05, 0.6))  # killed at a random moment
        if draw.random() < 0.5:
            with daemon.client(secret) as closing:
                attempt(closing.close_round, heard)
        daemon.kill()
        ended.set()
        threads[0].join()
        problems += readable(folder, heard.gone, number)
    daemon.start(START_S)
    with daemon.client(secret, timeout_s=60) as client:
        for user, id_ in (heard.gone | heard.accepted).items():
            if not client.request(id_).in_effect:
                problems.append(f"the request for {user} is not in effect")
            if client.user(user)["samples"]:
                problems.append(f"{user} was forgotten and is there")
        client.close_round(empty=True)  # all that came may be in a round by now
        wait_until(lambda: not client.status()["repair"]["waiting"], 60, "nothing is trained")
        for user, expected in heard.uploaded.items():
            if client.user(user)["samples"] != expected:
                problems.append(f"{user} uploaded {expected} samples, {client.user(user)['samples']} are there")
        if client.verify().state != "holds":
            problems.append("a sub-model is not what a replay makes")
    if daemon.stop() != 0:
        problems.append("the service did not stop in order")
    problems += readable(folder, heard.gone, kills, thorough=True)
    body = f"{len(heard.gone)} erasures in effect, {len(heard.uploaded)} uploads, {len(heard.predicted):,} predictions"
    print(f"{kills} kills: {body}, {heard.lost} calls cut off, {len(problems)} promises broken")
    return problems


def readable(folder: Path, gone: dict[str, str], number: int, *, thorough: bool = False) -> list[str]:
    """With the master key and every byte under the home: samples of users whose erasure is in effect."""
    plain = [found.plain for found in attack(folder).found] if thorough else quick_loot(folder)
    raw = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    rows = {row.tobytes(): user for user in list(gone) for row in samples(user, 1, UPLOAD)[0]}
    found = {user for row, user in rows.items() if any(row in data for data in (*plain, *raw))}
    return [f"after kill {number}: a sample of {user} can be read" for user in sorted(found)]


def quick_loot(folder: Path) -> list[bytes]:
    """Every block of samples that opens with the key of its own name."""
    vault = [path.read_bytes() for path in (folder / "vault").iterdir()]
    keys, found = recoverable([bytes.fromhex(MASTER)], vault), []
    for path in (folder / "blocks").iterdir():
        name = bytes.fromhex(path.name)
        if name in keys:
            with contextlib.suppress(VaultError):
                found.append(open_block(name, keys[name], path.read_bytes()).x.tobytes())
    return found


def main() -> int:
    """Run both."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.load", description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        if asked.seconds:
            heard = under_load(Path(folder) / "load", asked.clients, asked.seconds)
            problems += heard.refused
        if asked.kills:
            problems += under_kills(Path(folder) / "kills", asked.kills)
    for problem in problems[:20]:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
