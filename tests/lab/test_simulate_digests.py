"""`cause simulate --json` prints the same bytes for the same trace, whatever happens to the code behind it.

The digests were made at the commit before the evaluation was rebuilt (a28a7fe), those of `frugal` again when its policy
became `adaptive`; `frugal:policy=cost` is what it was before. To write those of a new case:
`python -m tests.lab.test_simulate_digests`, and see that no other changes.
"""

import contextlib
import io
import json
from hashlib import sha256
from pathlib import Path

import pytest

from cause.cli import main
from tests.quick import quick_only

FOLDER = Path(__file__).parents[1] / "fixtures" / "traces"
DIGESTS = FOLDER / "digests.json"
PRESETS = (
    "cause", "cause-no-sc", "cause-u", "cause-c", "sisa", "arcane", "omp-70", "omp-95", "frugal:policy=cost", "frugal",
    "recommended",
)  # fmt: skip
DEVICES = {
    "default": (),
    "tight": ("--slots", "8"),
    "shards": ("--shards", "3", "--slots", "7", "--seed", "5"),
    "coalesced": ("--slots", "9", "--requests", "coalesced"),
    "small memory": ("--memory", "0.5GB", "--submodel-size", "60MB"),
    "slices": ("--slots", "10", "--slices", "2", "--rehearsal", "0.5"),
}
SLOW = {f"workload, {preset}, slices" for preset in ("cause-u", "cause-c", "arcane", "omp-70", "omp-95")} | {
    f"workload, {preset}, {device}"
    for preset in PRESETS
    if preset not in ("cause", "sisa", "frugal")
    for device in ("shards", "coalesced", "small memory")
}
"""These take longest; the other cases have every preset and every device."""
POLICIES = ("fibor", "fifo", "random", "static", "latest", "cost", "unlimited")


def cases() -> dict[str, tuple[str, ...]]:
    """Return the arguments of each case by its name."""
    every = {}
    for trace in ("workload", "few-users"):
        for preset in PRESETS:
            for name, options in DEVICES.items():
                if trace == "few-users" and name not in ("tight", "shards"):
                    continue
                every[f"{trace}, {preset}, {name}"] = ("--trace", f"{trace}.jsonl", "--system", preset, *options)
    for policy in POLICIES:
        composed = ("--system", "cause", "--partition", "given", "--policy", policy, "--slots", "5")
        every[f"given-shards, {policy}"] = ("--trace", "given-shards.jsonl", *composed)
    return every


def output(arguments: tuple[str, ...]) -> str:
    """Return what `cause simulate --json` prints."""
    printed = io.StringIO()
    full = [str(FOLDER / part) if part.endswith(".jsonl") else part for part in arguments]
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        main(["simulate", *full, "--json"])
    assert not ended.value.code
    return printed.getvalue()


@pytest.mark.parametrize("name", quick_only(cases(), cases().keys() - SLOW))
def test_a_simulation_prints_the_same_bytes(name):
    expected = json.loads(DIGESTS.read_text())[name]
    assert sha256(output(cases()[name]).encode()).hexdigest()[:16] == expected


if __name__ == "__main__":
    digests = {name: sha256(output(arguments).encode()).hexdigest()[:16] for name, arguments in cases().items()}
    DIGESTS.write_text(json.dumps(digests, indent=0) + "\n")
