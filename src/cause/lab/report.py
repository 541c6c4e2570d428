"""The results page, made from the committed results: `python -m cause.lab.report`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cause.lab.ablation import VARIANTS
from cause.lab.provenance import short
from cause.lab.reproduce.size import SYSTEMS

# The paper's table on the shard controller, at S = 1, 2, 4, 8, 16.
PAPER_RSN = {
    "cause": {1: 586_482, 2: 288_546, 4: 147_698, 8: 76_568, 16: 67_732},
    "cause-no-sc": {1: 586_482, 2: 328_311, 4: 163_855, 8: 82_797, 16: 68_324},
}


# Its accuracy on CIFAR-10 with ResNet-34, at S = 1, 4, 16: with the shard controller and without.
PAPER_ACCURACY = {"CAUSE, the paper's figure": (0.716, 0.693, 0.607), "without SC, the paper's": (0.716, 0.646, 0.552)}


def tables(folder: Path) -> dict[str, str]:
    """Every table by name, in Markdown."""
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    made = {
        "compare": _compare(records["compare"]["result"]),
        "paper": _paper(records["compare"]["result"]),
        "ablation": _ablation(records["ablation"]["result"]),
        "balance": _balance(records["balance"]["result"]),
        "summary": _summary(records["compare"]["result"]),
        "accuracy": _accuracy(records),
        "accuracy of all": _systems(records, "accuracy-paper-{}-{}", ours="accuracy-paper-{1}"),
        "accuracy at 20 epochs": _systems(records, "accuracy-20-epochs-{}-{}"),
        "speed on a card": _speed(records["gpu"]["result"]),
    }
    return made | {f"{name} source": _source(record) for name, record in records.items()}


def fill(page: str, made: dict[str, str]) -> str:
    """A page with its tables renewed: what stands between `<!-- table NAME -->` and `<!-- /table -->`."""
    parts = page.split("<!-- table ")
    filled = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition(" -->")
        _, _, after = rest.partition("<!-- /table -->")
        filled.append(f"<!-- table {name} -->\n{made[name]}\n<!-- /table -->{after}")
    return "".join(filled)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *("---:" for _ in columns[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
    return _markdown(["RSN (share of SISA's)", *(f"S = {s}" for s in shards)], table)


def _summary(result: dict[str, Any]) -> str:
    _, systems, rows = _points(result)
    table = []
    for system in systems:
        line = [f"`{system}`"]
        for s in (4, 16):
            mean = rows[system, s]["rsn"]["value"]
            line += [f"{mean:,.0f}", f"{mean / rows['sisa', s]['rsn']['value']:.1%}"]
        table.append(line)
    return _markdown(["system", "RSN, S = 4", "of SISA's", "RSN, S = 16", "of SISA's"], table)


def _paper(result: dict[str, Any]) -> str:
    shards, _, rows = _points(result)
    table = []
    for system, paper in PAPER_RSN.items():
        ours = {s: rows[system, s]["rsn"]["value"] for s in shards}
        table.append([f"{system}, paper", *(f"{paper[s]:,} ({paper[s] / paper[1]:.0%})" for s in shards)])
        table.append([f"{system}, ours", *(f"{ours[s]:,.0f} ({ours[s] / ours[1]:.0%})" for s in shards)])
    return _markdown(["RSN (share of S = 1)", *(f"S = {s}" for s in shards)], table)


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
    return _markdown(["RSN (share of CAUSE's)", *columns.values()], table)


def _balance(result: dict[str, Any]) -> str:
    found = {(row["when"], row["strategy"], row["shards"]): row["spread"] for row in result["rows"]}
    columns = list(dict.fromkeys((when, strategy) for when, strategy, _ in found))
    shards = sorted({s for _, _, s in found})
    table = [
        [
            str(s),
            *(
                f"{found[when, name, s]['value']:.1%} ± {found[when, name, s]['half_width']:.1%}"
                for when, name in columns
            ),
        ]
        for s in shards
    ]
    return _markdown(["S", *(f"{name}, {when}" for when, name in columns)], table)


def _accuracy(records: dict[str, Any]) -> str:
    rows = [[name, *(f"{value:.1%}" for value in values)] for name, values in PAPER_ACCURACY.items()]
    for name, recipe in (("CAUSE, the paper's recipe", "paper"), ("CAUSE, our recipe", "ours")):
        found = [records[f"accuracy-{recipe}-{s}"]["result"]["rounds"][-1] for s in (1, 4, 16)]
        rows.append([f"{name}, majority vote", *(f"{each['majority']:.1%}" for each in found)])
        rows.append([f"{name}, soft vote", *(f"{each['soft']:.1%}" for each in found)])
    return _markdown(["accuracy", "S = 1", "S = 4", "S = 16"], rows)


def _speed(result: dict[str, Any]) -> str:
    """Images a second; ratios are to the plain loop of the same run."""
    plain = result["dense, plain loop"]
    rows = [[name, f"{value:,}", f"{value / plain:.1f}"] for name, value in result.items() if isinstance(value, int)]
    for kind, rates in result["together"].items():
        for processes, rate in zip(result["workers"], rates, strict=True):
            name = (
                f"{kind}, recorded, batch {result['batch']}, {processes} process{'es' if processes > 1 else ''}, whole"
            )
            rows.append([name, f"{rate:,}", f"{rate / plain:.1f}"])
    return _markdown(["ResNet-34, 32×32", "images/s", "× the plain loop"], [r for r in rows if r[0] != "batch"])


def _systems(records: dict[str, Any], names: str, ours: str | None = None) -> str:
    """Accuracy of every system; CAUSE's own files may have a name of their own."""
    rows = []
    for system in SYSTEMS:
        cells = []
        for shards in (4, 16):
            name = ours if ours and system == "cause" else names
            record = records.get(name.format(system, shards))
            cells.append(f"{record['result']['rounds'][-1]['majority']:.1%}" if record else "not run")
        rows.append([system, *cells])
    return _markdown(["accuracy, majority vote", "S = 4", "S = 16"], rows)


if __name__ == "__main__":
    made = tables(Path("results"))
    for page in (Path("README.md"), Path("docs/RESULTS.md")):
        page.write_text(fill(page.read_text(encoding="utf-8"), made), encoding="utf-8")
