"""The report: one page that is written from the result files alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cause.common.files import write_text
from cause.lab.provenance import short
from cause.lab.reproduce.archive import load

NAME = "RESULTS.md"
HEAD = """# The paper's tables and figures, and ours

Made by `cause reproduce` from the result files beside this page. Each result names its size (share of the samples,
epochs, seeds), command, commit, machine and date. Simulations count what a real run would train; accuracies, times and
energies were measured. Where energy is a product of simulated samples and a measured cost per sample, it says so.
The paper leaves open when users ask and for what: "ours" is our default reading of its workload and algorithms, "the
paper's reading" the one that reproduces its numbers ([The paper and us](../../docs/paper.md)).
"""


def write_page(folder: Path, order: Sequence[str]) -> Path:
    """Write the page of the results in a folder; return its path."""
    records = {name: load(folder / f"{name}.json") for name in order if (folder / f"{name}.json").exists()}
    whole = {name: record for name, record in records.items() if _is_whole(record)}
    path = folder / NAME
    write_text(path, page(whole, folder, damaged=[name for name in records if name not in whole]))
    return path


def _is_whole(record: Mapping[str, Any]) -> bool:
    result = record.get("result")
    return isinstance(result, dict) and {"title", "where", "says", "summary", "sources"} <= result.keys()


def page(results: Mapping[str, dict[str, Any]], folder: Path, damaged: Sequence[str] = ()) -> str:
    """Return the page in Markdown."""
    summary = [
        [
            f"[{record['result']['title']}](#{name})",
            claim["claim"],
            claim["paper"],
            claim.get("reading") or "–",
            claim["ours"],
            claim["size"],
        ]
        for name, record in results.items()
        for claim in record["result"]["summary"]["claims"]
    ]
    parts = [
        HEAD,
        *(f"`{name}.json` is damaged and left out: `cause reproduce {name}` makes it anew.\n" for name in damaged),
        "## Every claim\n",
        markdown(["", "claim", "paper", "the paper's reading", "ours", "size of our runs"], summary, names=6),
        "",
    ]
    for name, record in results.items():
        parts += _section(name, record["result"], (folder / f"{name}.png").exists())
    return "\n".join(parts)


def _section(name: str, result: dict[str, Any], drawn: bool) -> list[str]:
    summary = result["summary"]
    parts = [f'<a id="{name}"></a>', f"## {result['title']}\n", f"The paper's {result['where']}: {result['says']}.\n"]
    for claim in summary["claims"]:
        sentence = f" {claim['sentence']}" if claim["sentence"] else ""
        reading = f"; in the paper's reading {claim['reading']}" if claim.get("reading") else ""
        results = f"paper {claim['paper']}; ours {claim['ours']}{reading}"
        parts.append(f"- {claim['claim']}: {results} ({claim['size']}).{sentence}")
    parts += ["", markdown(summary["columns"], summary["rows"]), ""]
    parts += [note + "\n" for note in summary["notes"]]
    parts += [f"![{result['title']}]({name}.png)\n"] if drawn else []
    parts += [f"- made by {source_line(source)}" for source in result["sources"]]
    return [*parts, ""]


def source_line(source: Mapping[str, Any]) -> str:
    """Return one line that says how and where a result was made."""
    machine = source["machine"]
    where = ", ".join(filter(None, [machine.get("card"), machine["processor"], f"{machine['cores']} cores"]))
    return f"`{source['command']}`, commit `{short(source['commit'])}`, {source['date']}, {where}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Return a table in Markdown: the first `names` columns are left-aligned, the others right-aligned.

    >>> print(markdown(["S", "RSN"], [["4", "10"]]))
    | S | RSN |
    | --- | ---: |
    | 4 | 10 |
    """
    lines = [columns, [*["---"] * names, *["---:"] * (len(columns) - names)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
