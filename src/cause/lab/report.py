"""The results page, made from the committed results: `python -m cause.lab.report`."""

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from cause.lab.provenance import short
from cause.lab.reproduce import paper
from cause.lab.reproduce.archive import load
from cause.lab.reproduce.figures.ablation import VARIANTS
from cause.lab.reproduce.page import markdown
from cause.lab.reproduce.size import SYSTEMS

REPORTED_ACCURACY = {"CAUSE, the paper's figure": "cause", "without SC, the paper's": "cause-no-sc"}


def tables(folder: Path) -> dict[str, str]:
    """Return every table in Markdown by name, and for each result file the line that says where it comes from."""
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    by_name = {
        "compare": _compare(records["compare"]["result"]),
        "paper": _paper(records["compare"]["result"]),
        "ablation": _ablation(records["ablation"]["result"]),
        "balance": _balance(records["balance"]["result"]),
        "summary": _summary(records["compare"]["result"]),
        "accuracy": _accuracy(records),
        "accuracy of all": _full_size(records, folder / "reproduce"),
        "accuracy by seed": _seeds(records, folder / "reproduce"),
        "accuracy at 20 epochs": _systems(records, "accuracy-20-epochs-{}-{}"),
        "speed on a card": _speed(records["gpu"]["result"]),
        "readings": _readings(folder / "reproduce"),
        "maps": _maps(folder / "reproduce"),
        "processes on a card": _sharing(records),
    }
    return by_name | {f"{name} source": _source(record) for name, record in records.items()}


READ = ("rsn-rounds", "controller", "policies", "rsn-memory", "rsn-rho", "rsn-shards")
MAPS = ("map-fibor", "map-controller")
OFF = re.compile(r"In the paper's reading ([+-][\d.]+ %)")


def _claims(folder: Path, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the results and claims of figures in a folder; figures that were not made are left out."""
    for name in names:
        result = load(folder / f"{name}.json").get("result")
        if isinstance(result, dict):
            for claim in result["summary"]["claims"]:
                yield result, claim


def _readings(folder: Path) -> str:
    """Return the claims that have a result in the paper's reading, and how far it is from the paper's number."""
    rows = []
    for result, claim in _claims(folder, READ):
        if claim.get("reading"):
            off = OFF.search(claim["sentence"])
            where = result["where"].partition(" (")[0]
            shown = [claim["paper"], claim["reading"], off.group(1) if off else "–", claim["ours"]]
            rows.append([where, claim["claim"], *shown])
    return markdown(["in the paper", "claim", "paper", "the paper's reading", "off by", "ours"], rows, names=2)


def _maps(folder: Path) -> str:
    """Return on how much of the map each claim holds."""
    rows = [[claim["claim"], claim["paper"], claim["ours"], claim["sentence"]] for _, claim in _claims(folder, MAPS)]
    return markdown(["claim", "paper", "ours", "from … to …"], rows, names=4)


def fill(page: str, tables_by_name: dict[str, str]) -> str:
    """Return a page with new tables: what stands between `<!-- table NAME -->` and `<!-- /table -->` is replaced."""
    parts = page.split("<!-- table ")
    filled = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition(" -->")
        _, _, after = rest.partition("<!-- /table -->")
        filled.append(f"<!-- table {name} -->\n{tables_by_name[name]}\n<!-- /table -->{after}")
    return "".join(filled)


def _source(record: dict[str, Any]) -> str:
    machine = record["machine"]
    card = f"{machine['card']}, " if "card" in machine else ""
    return (
        f"`{record['command']}`, commit `{short(record['commit'])}`, {record['date']}, {card}{machine['processor']}, "
        f"{machine['cores']} cores, Python {machine['python']}"
    )


def _cell(mean: dict[str, float]) -> str:
    return f"{mean['value']:,.0f} ± {mean['half_width']:,.0f}"


def _points(result: dict[str, Any]) -> tuple[list[int], list[str], dict[tuple[str, int], dict[str, Any]]]:
    rows = {(row["system"], row["at"]): row for row in result["rows"]}
    return result["sweep"]["values"], list(dict.fromkeys(system for system, _ in rows)), rows


def _compare(result: dict[str, Any]) -> str:
    shards, systems, rows = _points(result)
    table = []
    for system in systems:
        line = [system]
        for s in shards:
            share = rows[system, s]["rsn"]["value"] / rows["sisa", s]["rsn"]["value"]
            line.append(f"{_cell(rows[system, s]['rsn'])} ({share:.1%})")
        table.append(line)
    return markdown(["RSN (share of SISA's)", *(f"S = {s}" for s in shards)], table)


def _summary(result: dict[str, Any]) -> str:
    _, systems, rows = _points(result)
    table = []
    for system in systems:
        line = [f"`{system}`"]
        for s in (4, 16):
            mean = rows[system, s]["rsn"]["value"]
            line += [f"{mean:,.0f}", f"{mean / rows['sisa', s]['rsn']['value']:.1%}"]
        table.append(line)
    return markdown(["system", "RSN, S = 4", "of SISA's", "RSN, S = 16", "of SISA's"], table)


def _paper(result: dict[str, Any]) -> str:
    shards, _, rows = _points(result)
    table = []
    for system, reported in paper.CONTROLLER.values["rsn"].items():
        theirs = {s: reported[str(s)] for s in shards}
        ours = {s: rows[system, s]["rsn"]["value"] for s in shards}
        table.append([f"{system}, paper", *(f"{theirs[s]:,} ({theirs[s] / theirs[1]:.0%})" for s in shards)])
        table.append([f"{system}, ours", *(f"{ours[s]:,.0f} ({ours[s] / ours[1]:.0%})" for s in shards)])
    return markdown(["RSN (share of S = 1)", *(f"S = {s}" for s in shards)], table)


def _ablation(result: dict[str, Any]) -> str:
    rows = {(row["system"], row["at"]): row["rsn"] for row in result["rows"]}
    columns = {None: f"{result['setting']['memory']} (67 slots)", 16: "16 slots", 8: "8 slots"}
    table = []
    for shown, system in VARIANTS:
        line = [shown]
        for at in columns:
            share = rows[system, at]["value"] / rows["cause", at]["value"]
            line.append(f"{_cell(rows[system, at])} ({share:.0%})")
        table.append(line)
    return markdown(["RSN (share of CAUSE's)", *columns.values()], table)


def _balance(result: dict[str, Any]) -> str:
    spreads = {(row["when"], row["strategy"], row["shards"]): row["spread"] for row in result["rows"]}
    columns = list(dict.fromkeys((when, strategy) for when, strategy, _ in spreads))
    shards = sorted({s for _, _, s in spreads})
    table = [
        [
            str(s),
            *(
                f"{spreads[when, name, s]['value']:.1%} ± {spreads[when, name, s]['half_width']:.1%}"
                for when, name in columns
            ),
        ]
        for s in shards
    ]
    return markdown(["S", *(f"{name}, {when}" for when, name in columns)], table)


def _accuracy(records: dict[str, Any]) -> str:
    rows = []
    for name, system in REPORTED_ACCURACY.items():
        reported = paper.CONTROLLER.values["accuracy"][system]
        rows.append([name, *(f"{Decimal(str(reported[s])):.1%}" for s in ("1", "4", "16"))])
    for name, recipe in (("CAUSE, the paper's recipe", "paper"), ("CAUSE, our recipe", "ours")):
        last_rounds = [records[f"accuracy-{recipe}-{s}"]["result"]["rounds"][-1] for s in (1, 4, 16)]
        rows.append([f"{name}, majority vote", *(f"{last['majority']:.1%}" for last in last_rounds)])
        rows.append([f"{name}, soft vote", *(f"{last['soft']:.1%}" for last in last_rounds)])
    return markdown(["accuracy", "S = 1", "S = 4", "S = 16"], rows)


def _speed(result: dict[str, Any]) -> str:
    """Return the table of images a second, and their ratios to the plain loop of the same run."""
    plain = result["dense, plain loop"]
    rows = [[name, f"{value:,}", f"{value / plain:.1f}"] for name, value in result.items() if isinstance(value, int)]
    return markdown(["ResNet-34, 32×32", "images/s", "× the plain loop"], [r for r in rows if r[0] != "batch"])


def _sharing(records: dict[str, Any]) -> str:
    """Return the table of images a second of one and several processes, with NVIDIA's MPS daemon and without."""
    rows = []
    for daemon, name in (("not running", "gpu-without-mps"), ("running", "gpu-with-mps")):
        result = records[name]["result"]
        for kind, rates in result["together"].items():
            rows.append([f"{kind}, MPS daemon {daemon}", *(f"{rate:,}" for rate in rates)])
    workers = records["gpu-with-mps"]["result"]["workers"]
    return markdown(["ResNet-34, recorded, batch 512, whole segments", *(f"{n} at once" for n in workers)], rows)


SHARDS = (1, 2, 4, 8, 16)
VARIANTS_OF_CAUSE = ("cause-no-sc", "cause-u", "cause-c")


def _full_size(records: dict[str, Any], folder: Path) -> str:
    """Return the table of every system's accuracy with all samples and epochs; the paper's figures in brackets.

    At S = 1 there is nothing to partition or to control: the variants of CAUSE are CAUSE itself and show its accuracy.
    """
    accuracies = _accuracies_at_full_size(records, folder)
    reported = paper.SHARDS.values["cifar10"] | paper.CONTROLLER.values["accuracy"]
    rows = []
    for system in (*SYSTEMS, *VARIANTS_OF_CAUSE):
        row = [system]
        for shards in SHARDS:
            papers_accuracy = reported.get(system, {}).get(str(shards))
            trained = "cause" if shards == 1 and system in VARIANTS_OF_CAUSE else system
            ours = accuracies.get((trained, shards, 0))
            shown = "not run" if ours is None else f"{ours:.1%}"
            row.append(shown if papers_accuracy is None else f"{shown} ({Decimal(str(papers_accuracy)):.1%})")
        rows.append(row)
    return markdown(["accuracy, majority vote (paper)", *(f"S = {shards}" for shards in SHARDS)], rows)


def _seeds(records: dict[str, Any], folder: Path) -> str:
    """Return the table of the accuracies of three seeds, of CAUSE and SISA at S = 4 and 16."""
    accuracies = _accuracies_at_full_size(records, folder)
    rows = []
    for shards in (4, 16):
        for system in ("cause", "sisa"):
            seeds = [accuracies.get((system, shards, seed)) for seed in range(3)]
            run = [accuracy for accuracy in seeds if accuracy is not None]
            shown = ["not run" if accuracy is None else f"{accuracy:.1%}" for accuracy in seeds]
            rows.append([f"{system}, S = {shards}", *shown, f"{sum(run) / len(run):.1%}" if run else "–"])
    return markdown(["accuracy, majority vote", "seed 0", "seed 1", "seed 2", "mean"], rows)


def _accuracies_at_full_size(records: dict[str, Any], folder: Path) -> dict[tuple[str, int, int], float]:
    """Return accuracies by system, shards and seed, with the paper's recipe, network, samples and epochs."""
    of_the_paper = {"dataset": "cifar10", "backbone": "resnet34", "recipe": "paper", "share": 1.0, "epochs": 80}
    accuracies = {}
    for name in ("shards", "controller", "partitions"):
        for run in (load(folder / f"{name}.json").get("result") or {}).get("cells", []):
            settings = run["settings"]
            if run["kind"] == "train" and of_the_paper.items() <= settings.items():
                accuracies[settings["system"], settings["shards"], settings["seed"]] = run["result"]["accuracy"]
    for system in SYSTEMS:
        for shards in SHARDS:
            name = f"accuracy-paper-{shards}" if system == "cause" else f"accuracy-paper-{system}-{shards}"
            if name in records:
                accuracies[system, shards, 0] = records[name]["result"]["rounds"][-1]["majority"]
    return accuracies


def _systems(records: dict[str, Any], names: str) -> str:
    """Return the table of every system's accuracy at S = 4 and 16."""
    rows = []
    for system in SYSTEMS:
        runs = [records.get(names.format(system, shards)) for shards in (4, 16)]
        cells = [f"{record['result']['rounds'][-1]['majority']:.1%}" if record else "not run" for record in runs]
        rows.append([system, *cells])
    return markdown(["accuracy, majority vote", "S = 4", "S = 16"], rows)


if __name__ == "__main__":
    new_tables = tables(Path("results"))
    for page in (Path("README.md"), Path("docs/RESULTS.md"), Path("docs/paper.md")):
        page.write_text(fill(page.read_text(encoding="utf-8"), new_tables), encoding="utf-8")
