"""Run the benchmarks and print them as tables; machines are noisy, so look at growth and ratios first."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import write_long_trace
from cause.cli.output import print_json, print_table
from cause.common.machine import hardware

LONGEST = 1000  # rounds
MOST_USERS = 1_000_000


def case(*args: object) -> dict[str, Any]:
    """One case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.cases", *map(str, args)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def partition() -> list[dict[str, Any]]:
    rows = [case("partition", users) for users in (MOST_USERS // 16, MOST_USERS // 4, MOST_USERS)]
    _table("UCDP, S = 16 (asked for: 1,000,000 users in under 10 s and 1 GB)", "users", rows)
    return rows


def traces() -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = [write_long_trace(rounds, Path(folder)) for rounds in (LONGEST // 16, LONGEST // 4, LONGEST)]
        for system in ("cause-no-sc:policy=fibor", "cause-no-sc:policy=cost", "cause-no-sc:policy=adaptive"):
            found = []
            for path in files:
                size = path.stat().st_size / 2**20
                found.append(
                    {"system": system, "rounds": int(path.stem), "trace_mb": size} | case("trace", system, path)
                )
            title = (
                f"{system}: 200 users and one request a round, S = 4, 256 slots (asked for: 1,000 rounds in under 30 s)"
            )
            _table(title, "rounds", found)
            rows += found
    return rows


def paper() -> list[dict[str, Any]]:
    rows = [{"system": system} | case("paper", system) for system in ("cause", "sisa", "frugal")]
    print_table(
        "The paper's default workload, one run",
        ["system", "s", "RSN"],
        [[row["system"], f"{row['seconds']:.2f}", f"{row['rsn']:,}"] for row in rows],
    )
    return rows


def start_up() -> dict[str, Any]:
    command = [sys.executable, "-c", "from cause.cli import main; main()", "--help"]
    took = []
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append(time.perf_counter() - start)
    row = {"median_s": statistics.median(took), "least_s": min(took)}
    print_table(
        "cause --help (asked for: under 0.5 s)",
        ["", "s"],
        [["median of 9", f"{row['median_s']:.2f}"], ["least", f"{row['least_s']:.2f}"]],
    )
    return row


def learning(full: bool = False) -> dict[str, Any]:
    few = (5_000, 1) if full else (1_000, 2)
    overheads = [
        case("learning", "overhead", "digits CNN", 5_000, 3),
        case("learning", "overhead", "ResNet-20, 16×16", *few),
    ]
    workers, pruned, codec = (case("learning", name) for name in ("workers", "pruned", "codec"))
    print_table(
        "Real training, one thread each: ratios in one run",
        ["what", "s", "beside", "s", "ratio", "asked for"],
        [
            *(
                [f"learn, {row['case']}, {row['samples']:,} samples × {row['epochs']} epochs", f"{row['learn_s']:.1f}",
                 "a plain loop", f"{row['plain_s']:.1f}", f"{row['ratio']:.3f} (CPU time: {row['cpu_ratio']:.3f})",
                 "≤ 1.05" if row["samples"] == 5_000 else "≤ 1.05 at 5,000 × 10: --full"]
                for row in overheads
            ),
            ["4 shards, one worker", f"{workers['one_s']:.1f}", "two workers", f"{workers['two_s']:.1f}",
             f"{workers['ratio']:.2f}", "≥ 1.6"],
            ["ResNet-34 dense, 256 pictures", f"{pruned['dense_s']:.1f}", "pruned 70 %", f"{pruned['pruned_s']:.1f}",
             f"{pruned['ratio']:.2f}", "≥ 2.4"],
            ["ResNet-34 stored and loaded", f"{codec['encode_s'] + codec['decode_s']:.2f}", "an epoch on 1,000",
             f"{codec['epoch_s']:.1f}", f"{codec['ratio']:.3f}", "< 0.05"],
        ],
        note=f"Peak memory of that learn: {codec['peak_mb']:,.0f} MB, {codec['before_mb']:,.0f} MB before it; budget "
        f"for sub-models {codec['budget_mb']:,.0f} MB, of which {codec['stored_mb']:,.0f} MB are used; samples "
        f"{codec['samples_mb']:,.0f} MB.",
    )  # fmt: skip
    return {"overheads": overheads, "workers": workers, "pruned": pruned, "codec": codec}


def _table(title: str, unit: str, rows: list[dict[str, Any]]) -> None:
    first = rows[0]
    print_table(
        title,
        [unit, "×", "s", "s ×", "peak MB", "added MB", "added ×", *(["trace MB", "RSN"] if "rsn" in first else [])],
        [
            [
                f"{row[unit]:,}",
                f"{row[unit] / first[unit]:.1f}",
                f"{row['seconds']:.1f}",
                f"{row['seconds'] / first['seconds']:.1f}",
                f"{row['peak_mb']:.0f}",
                f"{row['peak_mb'] - row['before_mb']:.0f}",
                f"{(row['peak_mb'] - row['before_mb']) / max(1, first['peak_mb'] - first['before_mb']):.1f}",
                *([f"{row['trace_mb']:.1f}", f"{row['rsn']:,}"] if "rsn" in first else []),
            ]
            for row in rows
        ],
    )


SECTIONS = {"partition": partition, "traces": traces, "paper": paper, "start-up": start_up, "learning": learning}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="which ones; all by default")
    parser.add_argument("--full", action="store_true", help="learning at the full size: about 6 minutes more")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    wanted = parser.parse_args()
    sections: dict[str, Callable[[], object]] = {**SECTIONS, "learning": partial(learning, wanted.full)}
    results = {name: sections[name]() for name in wanted.sections or SECTIONS}
    if wanted.json:
        print_json({"machine": hardware(), **results})
