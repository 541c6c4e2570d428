"""Flip one bit anywhere in a home: it is reported, or nothing that can be seen differs.

`python -m tests.device.bit_flips --flips 1000` tries many; `test_bit_flips` a few.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.cli import main
from tests.device.homes import CLASSES, FEATURES, LEARNERS, MASTER, learn, opened

LEFT_OUT = ("lock", "ledger.db-shm", "reserve")
"""SQLite makes its shared index anew; the others hold nothing."""
COMMANDS = (
    ["status", "{}", "--json"],
    ["receipts", "{}", "--json"],
    ["log", "{}", "--json"],
    ["verify", "--home", "{}", "--processes", "0", "--json"],
    ["trace", "{}"],
)


@dataclass
class Tally:
    """What became of the flips."""

    reported: int = 0
    unseen: int = 0
    failures: list[str] = field(default_factory=list)


def make(folder: Path, kind: str = "bayes") -> Path:
    """A home whose process was killed, with a write-ahead log, receipts, something staged and a repair that waits."""
    os.environ["CAUSE_TEST_KEY"] = MASTER
    home = folder / "made"
    device = opened(home, kind=kind)
    learn(device, a=150, b=40, c=20)
    learn(device, a=30, d=25)
    device.forget("b", repair="later")
    device.repair()
    device.close()
    device = opened(home, kind=kind)
    learn(device, c=15, e=10)
    device.forget("a", rounds=[1], count=7, repair="later")
    device.stage("f", [[0.5] * FEATURES] * 3, [0, 1, CLASSES - 1], call="call")
    shutil.copytree(home, folder / "home")
    device.close()
    shutil.rmtree(home)
    assert (folder / "home" / "ledger.db-wal").stat().st_size > 4_096
    return folder / "home"


def run(command: list[str], home: Path) -> tuple[int, str, str]:
    """Exit code and output of a command; 99 for a traceback."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([part.format(home) for part in command])
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    except BaseException:
        return 99, out.getvalue(), traceback.format_exc()
    raise AssertionError("main ends the process")


def seen(home: Path) -> tuple[dict[str, str], str | None]:
    """What can be seen of a home by reading, and the first thing that was reported."""
    outputs: dict[str, str] = {}
    for command in COMMANDS:
        code, out, err = run(command, home)
        if code == 99 or err.count("\n") > 1:
            raise AssertionError(f"{command[0]}: {err}")
        if code:
            return outputs, f"{command[0]}: {err or out}"
        output: Any = json.loads(out) if out.startswith("{") and "--json" in command else out
        if command[0] == "log":
            output.pop("checkpoint", None)  # signed anew each time
        if command[0] == "status" and output.get("expected_accuracy"):
            output["expected_accuracy"] = output["expected_accuracy"]["accuracy"]  # beside it: when, and how long
        outputs[command[0]] = json.dumps(output, sort_keys=True)
    return outputs, None


def contents(home: Path, kind: str = "bayes") -> dict[str, str]:
    """What a writer finds: the retained samples and the sub-models."""
    with opened(home, kind=kind) as device:
        samples = {
            f"{piece.upload.user} {piece.upload.round} {segment.key}": [
                part.tobytes().hex()
                for part in piece.upload.arrays(piece.positions)  # type: ignore[attr-defined]
            ]
            for shard in device.ledger.shards()
            for segment in device.ledger.lineage(shard)
            for piece in segment.pieces
        }
        models = {str(key): device.memory.shelf.get(key).hex() for key in device.memory.stored()}
        waiting = {upload.id: upload.samples for upload in device.home.inbox.uploads()}
    return {"samples": json.dumps(samples), "models": json.dumps(models), "staged": json.dumps(waiting)}


def flip(path: Path, draw: random.Random) -> int:
    data = bytearray(path.read_bytes())
    place = draw.randrange(len(data) * 8)
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return place


def attempt(
    home: Path, scratch: Path, draw: random.Random, expected: dict[str, str], tally: Tally, kind: str = "bayes"
) -> None:
    """One flip, in a copy."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(home, scratch)
    files = sorted(path for path in scratch.rglob("*") if path.is_file() and path.name not in LEFT_OUT)
    files = [path for path in files if path.stat().st_size]
    ledger = [path for path in files if path.name.startswith("ledger.db")]
    path = draw.choice(ledger if draw.random() < 0.5 else files)  # most of what can be silent is there
    where = f"{path.relative_to(scratch)} bit {flip(path, draw)}"
    try:
        code, out, err = run(["doctor", "--home", "{}", "--json"], scratch)
        if code == 99 or (code == 2 and err.count("\n") != 1):
            raise AssertionError(f"doctor: {err}")
        outputs, report = seen(scratch)
        if code:
            report = report or f"doctor: {out or err}"
        if report is None:
            outputs |= contents(scratch, kind)
    except AssertionError as error:
        tally.failures.append(f"{where}: {error}")
        return
    except Exception:
        tally.failures.append(f"{where}: {traceback.format_exc()}")
        return
    if report is not None:
        tally.reported += 1
    elif outputs == expected:
        tally.unseen += 1
    else:
        names = [name for name in expected if outputs.get(name) != expected[name]]
        tally.failures.append(f"{where}: silent, but {names} differ")


def flips(count: int, seed: int = 0, kind: str = "bayes") -> Tally:
    """So many flips in copies of a home with a learner of this kind, one after the other."""
    tally, draw = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        home = make(Path(folder), kind)
        copy = Path(folder) / "copy"
        shutil.copytree(home, copy)
        expected, report = seen(copy)
        assert report is None, report
        expected |= contents(copy, kind)
        for _ in range(count):
            attempt(home, Path(folder) / "flipped", draw, expected, tally, kind)
    return tally


def command() -> None:
    """Try many, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=LEARNERS, default="bayes", help="the learner of the home")
    given = parser.parse_args()
    tally = flips(given.flips, given.seed, given.kind)
    for failure in tally.failures:
        print(failure)
    print(f"{given.flips} flips: {tally.reported} reported, {tally.unseen} change nothing that can be seen, ", end="")
    print(f"{len(tally.failures)} silent or a traceback")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    command()
