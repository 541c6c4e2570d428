"""Accuracy against retrained samples on CIFAR-10 at full size: the paper's systems, ours, and learners that subtract.

python -m benchmarks.frontier simulate --out results/frontier.json     # retrained samples of systems not simulated yet
python -m benchmarks.frontier draw --plot docs/figures/frontier.svg    # the picture, from committed results alone

Every accuracy is a file of `results/` that says how it was measured: 50,000 training images, ten rounds, the vote after
the last one. Retrained samples are simulated, all on the same requests: the paper's workload in the reading in which
its own numbers come out in size (100 users, ρ = 0.1, 2 GB, requests prefer the recent past). The paper's own points are
as it prints them. Learners that subtract retrain nothing.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cause.common.statistics import Mean
from cause.engine.presets import parse_system
from cause.lab.provenance import write_result
from cause.lab.reproduce import paper
from cause.lab.reproduce.draw import COLOURS
from cause.lab.simulate import Setting, simulate
from cause.lab.workload import Workload

PROGRAM = ("python", "-m", "benchmarks.frontier")
RESULTS = Path(__file__).parents[1] / "results"
SEEDS = 20
READING: dict[str, Any] = {"ages": "recent:0.2", "labels": "iid"}
"""The paper's reading of its workload, as in `cause.lab.reproduce.readings`."""
LITE0_BYTES = 13_600_000
"""Of EfficientNet-Lite0 with ten classes: 3.4 million parameters in float32."""
TRAINED_HERE = {
    # the recipe of an accuracy file: a system, the number of shards, and how large a sub-model is
    **{f"ours-{shards}": ("cause:rehearsal=9", shards, None) for shards in (1, 4, 16)},
    **{f"public-{shards}": ("cause:pruning=none,rehearsal=9,requests=coalesced", shards, LITE0_BYTES)
       for shards in (4, 16)},
}  # fmt: skip
SYSTEMS = {"cause": "CAUSE", "sisa": "SISA", "arcane": "ARCANE", "omp-70": "OMP-70", "omp-95": "OMP-95"}
PAPERS, NOISE, OURS, PUBLIC, ADDITIVE = (
    "the paper's numbers: CAUSE", "the paper's systems, measured here", "CAUSE with our recipe",
    "CAUSE from public weights", "additive: nothing is retrained",
)  # fmt: skip
STYLE = {
    PAPERS: (COLOURS[5], "o", "none"), NOISE: (COLOURS[2], "o", "full"), OURS: (COLOURS[0], "s", "full"),
    PUBLIC: (COLOURS[4], "D", "full"), ADDITIVE: (COLOURS[6], "^", "full"),
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One system on the plane."""

    group: str
    label: str
    accuracy: float
    rsn: float
    sources: tuple[str, ...]
    """The files of `results/` that it comes from."""


def simulated() -> dict[str, Any]:
    """Simulate what the systems retrain whose accuracy was measured here alone."""
    found: dict[str, Any] = {}
    for name, (system, shards, size) in TRAINED_HERE.items():
        setting: dict[str, Any] = {} if size is None else {"sub_model_bytes": size}
        costs = []
        for seed in range(SEEDS):
            trace = Workload(**READING, seed=seed).trace()
            costs.append(simulate(trace, *parse_system(system), Setting(shards, seed=seed, **setting)).rsn)
        found[name] = {"system": system, "shards": shards, "sub_model_bytes": size, "rsn": costs}
        print(name, Mean.of(costs), flush=True)
    return found


def points(results: Path = RESULTS) -> Iterator[Point]:
    """Every point of the picture, from committed files."""
    reported = paper.CONTROLLER.values
    for shards, accuracy in reported["accuracy"]["cause"].items():
        yield Point(PAPERS, f"S={shards}", accuracy, reported["rsn"]["cause"][shards], ())
    counted = _counted(results / "reproduce" / "rsn-shards.json")
    for system, label in SYSTEMS.items():
        for shards in (1, 4, 16) if system == "cause" else (4, 16):
            name = f"accuracy-paper-{shards}.json" if system == "cause" else f"accuracy-paper-{system}-{shards}.json"
            sources = (name, "reproduce/rsn-shards.json")
            accuracy = _last(results / name)["majority"]
            yield Point(NOISE, f"{label} S={shards}", accuracy, counted[system, shards], sources)
    costs = json.loads((results / "frontier.json").read_text())["result"]
    for name, cost in costs.items():
        group = OURS if name.startswith("ours") else PUBLIC
        sources = (f"accuracy-{name}.json", "frontier.json")
        yield Point(
            group, f"S={cost['shards']}", _last(results / sources[0])["soft"], Mean.of(cost["rsn"]).value, sources
        )
    yield from _additive(results)


def _counted(path: Path) -> dict[tuple[str, int], float]:
    """Mean RSN by system and number of shards, in the paper's reading."""
    found = {}
    for cell in json.loads(path.read_text())["result"]["cells"]:
        settings = cell["settings"]
        if settings.get("reading") == "paper":
            found[settings["named"], settings["shards"]] = Mean.of(cell["result"]["rsn"]).value
    return found


def _last(path: Path) -> dict[str, Any]:
    """What was measured after the last round."""
    rounds: list[dict[str, Any]] = json.loads(path.read_text())["result"]["rounds"]
    return rounds[-1]


def _additive(results: Path) -> Iterator[Point]:
    """Additive heads, with λ by leave-one-out on the training images where that was measured, else the product's."""
    wanted = (
        ("additive-contrast.json", "contrast filters, no public data", {"size": 1_024, "expand": 0}),
        ("additive-cifar10.json", "frozen Lite0, 160 px", {"size": 160, "expand": 0}),
        ("additive-cifar10-8192.json", "frozen Lite0, 224 px, 8,192 units", {"size": 224, "expand": 8_192}),
    )  # fmt: skip
    for name, label, settings in wanted:
        rows = json.loads((results / name).read_text())["result"]["rows"]
        row = next(row for row in rows if row["data"] == "cifar10" and settings.items() <= row.items())
        yield Point(ADDITIVE, label, row.get("test_own", row["test_constant"]), 0, (name,))


LOWEST = 50
"""The accuracy at the bottom of the picture, %; what is below it is named at the edge."""


def draw(found: list[Point], path: Path) -> None:
    """Draw the points, and write the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "cause"  # the same points make the same file
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(10, 6), layout="constrained", facecolor="white")
    for group, (colour, marker, fill) in STYLE.items():
        own = [point for point in found if point.group == group]
        named: dict[str, Any] = {"color": colour, "marker": marker, "fillstyle": fill, "markersize": 7}
        axis.plot([], [], linestyle="none", label=group, **named)
        for line in _lines(own):
            xs, ys = [point.rsn for point in line], [100 * point.accuracy for point in line]
            axis.plot(xs, ys, linestyle="--" if group == PAPERS else "-", linewidth=0.8, **named)
        for point in own:
            _name(axis, point, colour)
    axis.set_xscale("symlog", linthresh=20_000, linscale=0.7)
    axis.set_xlim(-3_000, 5_000_000)
    axis.set_xticks([0, 20_000, 100_000, 1_000_000], ["0", "20,000", "100,000", "1,000,000"])
    axis.set_ylim(LOWEST, 100)
    axis.grid(alpha=0.25)
    axis.set_xlabel("samples retrained for the requests of ten rounds (RSN; fewer is better)")
    axis.set_ylabel("accuracy on CIFAR-10's test images, %")
    axis.set_title("What forgetting costs: CIFAR-10, 50,000 images of 100 users, ten rounds, S shards", fontsize=11)
    axis.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0.0, 0.02))
    named = {"Description": description(found), "Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=120, metadata=named)
    plt.close(figure)


def description(found: list[Point]) -> str:
    """The points as JSON; the picture carries them, so that a test can compare it with the results."""
    return json.dumps([[point.group, point.label, round(point.accuracy, 4), round(point.rsn)] for point in found])


def _lines(own: list[Point]) -> Iterator[list[Point]]:
    """The points that are joined: one system at several numbers of shards."""
    systems = dict.fromkeys(point.label.partition(" S=")[0] if " S=" in point.label else "" for point in own)
    for system in systems:
        line = [point for point in own if point.label.startswith(f"{system} S=" if system else "")]
        if own[0].group == ADDITIVE:
            yield from ([point] for point in line)
        else:
            yield line


PLACES: dict[tuple[str, str], tuple[int, int]] = {
    (ADDITIVE, "frozen Lite0, 160 px"): (9, -11),
    (PAPERS, "S=1"): (-6, -13), (PAPERS, "S=2"): (-6, 8), (PAPERS, "S=4"): (-6, -13), (PAPERS, "S=8"): (-22, 4),
    (PAPERS, "S=16"): (-30, -2), (NOISE, "CAUSE S=1"): (-12, 8), (NOISE, "CAUSE S=4"): (-20, 8),
    (NOISE, "CAUSE S=16"): (7, -8), (NOISE, "OMP-70 S=4"): (-64, -14), (NOISE, "SISA S=4"): (8, 2),
    (NOISE, "OMP-70 S=16"): (-30, -14), (NOISE, "OMP-95 S=16"): (-20, -14), (NOISE, "OMP-95 S=4"): (-30, 8),
    (OURS, "S=1"): (-4, 9), (OURS, "S=4"): (-8, 9), (OURS, "S=16"): (-10, 9),
    (PUBLIC, "S=4"): (-6, 9), (PUBLIC, "S=16"): (-10, 9),
}  # fmt: skip
"""Where labels go that would cover each other otherwise, in points from the mark."""


def _name(axis: Any, point: Point, colour: str) -> None:
    percent = 100 * point.accuracy
    if percent < LOWEST:
        mark = {"arrowstyle": "->", "color": colour, "linewidth": 0.8}
        text, at, place = f"{point.label}: {percent:.0f} %", (point.rsn, LOWEST), (-70 if percent > 20 else 12, 12)
        axis.annotate(text, at, xytext=place, textcoords="offset points", fontsize=8, color=colour, arrowprops=mark)
        return
    place = PLACES.get((point.group, point.label), (9, -3))
    axis.annotate(point.label, (point.rsn, percent), xytext=place, textcoords="offset points", fontsize=8, color=colour)


def main() -> None:
    """Simulate, or draw."""
    parser = argparse.ArgumentParser(prog=" ".join(PROGRAM), description=__doc__)
    parser.add_argument("what", choices=["simulate", "draw"])
    parser.add_argument("--out", type=Path, default=RESULTS / "frontier.json")
    parser.add_argument("--plot", type=Path, default=RESULTS.parent / "docs" / "figures" / "frontier.svg")
    asked = parser.parse_args()
    if asked.what == "simulate":
        write_result(asked.out, simulated(), PROGRAM)
    else:
        draw(list(points()), asked.plot)


if __name__ == "__main__":
    main()
