"""Compares what `cause reproduce` wrote to two folders, number by number.

    python -m tests.executors.cluster.same_numbers HERE THERE [--json FILE]

Ends with 1 if a number differs, or a run is in one folder only. Times, energies and the number of processes are not
results, and are left out.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.lab.provenance import write_result
from cause.lab.reproduce import kinds
from cause.lab.reproduce.archive import Archive
from cause.lab.reproduce.figures import FIGURES

MEASURED_KINDS = {"cost"}
"""Runs that only measure this machine."""
NOT_COMPARED = {"train_s", "prune_s", "learn_s", "forget_s", "energy", "workers", "together"}


@dataclass
class Comparison:
    """What was compared, and what differs."""

    figures: list[str] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    """The runs of each kind that were compared."""
    alone: dict[str, Counter[str]] = field(default_factory=dict)
    """By figure, the runs of each kind that measure energy or time, which are made on this machine in any case."""
    not_compared: Counter[str] = field(default_factory=Counter)
    """The runs of each kind that only measure."""
    numbers: int = 0
    nodes: set[int] = field(default_factory=set)
    """The numbers of Ray nodes with which the second folder's other runs were made."""
    commits: set[str] = field(default_factory=set)
    """The commits of the code that made the runs."""
    differences: list[str] = field(default_factory=list)


def compare(here: Path, there: Path) -> Comparison:
    """Compare all results of two folders."""
    comparison = Comparison()
    for name in FIGURES:
        files = [folder / f"{name}.json" for folder in (here, there)]
        if not any(file.exists() for file in files):
            continue
        comparison.figures.append(name)
        one, other = ({done.cell.key: done for done in Archive(each).of_result(name)} for each in (here, there))
        comparison.differences += [f"{name}: only one folder has {key}" for key in sorted(one.keys() ^ other.keys())]
        for key in sorted(one.keys() & other.keys()):
            cell = one[key].cell
            measures = kinds.measures(cell.kind, cell.settings)
            if measures:
                comparison.alone.setdefault(name, Counter())[cell.kind] += 1
            if cell.kind in MEASURED_KINDS:
                comparison.not_compared[cell.kind] += 1
                continue
            comparison.runs[cell.kind] += 1
            if not measures:
                comparison.nodes.add(other[key].source.get("machine", {}).get("ray_nodes", 0))
            comparison.commits |= {each[key].source["commit"] for each in (one, other)}
            _compare(one[key].result, other[key].result, f"{name}: {cell}", comparison)
    return comparison


def _compare(one: Any, other: Any, where: str, comparison: Comparison) -> None:
    if type(one) is not type(other):
        comparison.differences.append(f"{where}: {one!r} and {other!r}")
    elif isinstance(one, dict):
        for name in sorted((one.keys() | other.keys()) - NOT_COMPARED):
            _compare(one.get(name), other.get(name), f"{where} {name}", comparison)
    elif isinstance(one, list):
        if len(one) != len(other):
            comparison.differences.append(f"{where}: {len(one)} and {len(other)} values")
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            _compare(a, b, f"{where} [{number}]", comparison)
    else:
        comparison.numbers += 1
        if one != other:
            comparison.differences.append(f"{where}: {one!r} and {other!r}")


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.executors.cluster.same_numbers", description=__doc__)
    parser.add_argument("here", type=Path)
    parser.add_argument("there", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was compared to this file")
    options = parser.parse_args()
    comparison = compare(options.here, options.there)
    result = {
        "figures": comparison.figures,
        "runs": dict(comparison.runs),
        "measured_here_in_both_folders": {name: dict(runs) for name, runs in comparison.alone.items()},
        "runs_not_compared": dict(comparison.not_compared),
        "ray_nodes": sorted(comparison.nodes),
        "commits_of_the_runs": sorted(comparison.commits),
        "numbers_compared": comparison.numbers,
        "differences": comparison.differences,
    }
    print(json.dumps(result, indent=1))
    if options.json:
        write_result(options.json, result, ("python", "-m", "tests.executors.cluster.same_numbers"))
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main())
