"""How a home grows: opening, memory, forgetting, bytes written, status, receipts and doctor, by uploads and rounds.

python -m benchmarks.growth [--sizes 1000x100,100000x20] [--receipts 1000,10000] [--keep FOLDER [--reuse]] [--json FILE]

Homes are built through the public API without waiting for the disk, and then measured in fresh processes that do wait.
A home that `--keep` kept is copied before it is measured, so it can be used again, by a later version, too: its first
opening is told apart, for it may migrate the home to another format.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.growth_cases import FEATURES, FORGETS, KEY, ROWS, SHARDS, SLOTS, SYSTEM, UPLOADS_A_USER, Size
from benchmarks.home import WAITS
from cause.cli.output import print_table
from cause.lab.provenance import write_result

SIZES = "1000x100,10000x1000,79800x798,100000x20,100000x1000"
RECEIPTS = "1000,10000,100000"
OPENINGS, FORGETS_EACH = 5, 200
LIMIT_S, FORGET_LIMIT_S = 1200, 120
OPENING = ("open_s", "open_cpu_s", "rss_mb", "peak_mb", "rss_status_mb", "status_first_s", "status_s")
"""What is told of an opening, as a median."""
LONG_S = 20
"""A command that takes longer is not repeated."""
MANY_USERS = 10 * FORGETS_EACH
"""From here on all kinds of forgets are measured in one copy of a home: to copy 100,000 files takes minutes."""


class Skipped(Exception):
    """Building takes too long."""


def case(*args: object) -> dict[str, Any]:
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth_cases", *map(str, args)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result


def copy(source: Path, target: Path) -> Path:
    """Copy a home, and let the copy reach the disk now rather than during a measurement."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)
    os.sync()
    return target


@contextmanager
def copied(source: Path, folder: Path) -> Iterator[Path]:
    """A copy of a home that may be changed; it is removed afterwards."""
    target = folder / "copy"
    shutil.rmtree(target, ignore_errors=True)
    try:
        yield copy(source, target)
    finally:
        shutil.rmtree(target, ignore_errors=True)


class Homes:
    """Where built homes lie: a folder each, beside it what its building took."""

    def __init__(self, folder: Path, reuse: bool) -> None:
        self.folder, self._reuse = folder, reuse

    def get(self, name: str, build: Sequence[object], start: Path | None = None) -> tuple[Path, dict[str, Any]]:
        """A home, built unless an earlier one is to be used again.

        Parameters
        ----------
        name : str
            The home's folder.
        build : sequence
            A case of `growth_cases` and its arguments after the folder; the last one is the limit in seconds.
        start : Path, optional
            A home to go on from.

        Raises
        ------
        Skipped
            If building takes longer than the limit; what was made until then is removed.
        """
        home, about = self.folder / name, self.folder / f"{name}.json"
        if home.exists() and self._reuse:
            return home, json.loads(about.read_text()) if about.exists() else {}
        shutil.rmtree(home, ignore_errors=True)
        part = self.folder / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        if start is not None:
            copy(start, part)
        _log(f"{name}: building")
        built = case(build[0], part, *build[1:])
        if "unfinished" in built:
            shutil.rmtree(part)
            raise Skipped(f"after {built['build_s']:.0f} s only {built['unfinished']:,} were made")
        part.rename(home)
        about.write_text(json.dumps(built) + "\n")
        return home, built


def measure(size: Size, homes: Homes, scratch: Path, limit_s: float, forget_limit_s: float) -> dict[str, Any]:
    """All that is measured of one home."""
    kept, built = homes.get(str(size), ["build", size, limit_s])
    with copied(kept, scratch) as home:
        _log(f"{size}: opening")
        first = case("open", home)
        opened = [case("open", home) for _ in range(OPENINGS)]
        _log(f"{size}: status, doctor")
        status_command = [_command("status", str(home), "--json") for _ in range(3)]
        row: dict[str, Any] = {
            "size": str(size), "load": os.getloadavg(), "uploads": size.uploads, "rounds": size.rounds,
            "format": first["format"], "format_after": opened[-1]["format"], "keys": opened[-1]["keys"],
            "users": size.users, **built,
            "first_open_s": first["open_s"], "first_open_peak_mb": first["peak_mb"],
            "open_best_s": min(each["open_s"] for each in opened),
            **{f"{name.removesuffix('_s')}_median{'_s' if name.endswith('_s') else ''}": _median(opened, name)
               for name in OPENING},
            "status_command_s": statistics.median(status_command), "bytes_on_disk": _sizes(home),
            **case("doctor", home), "forget": {},
        }  # fmt: skip
        for number, kind in enumerate(FORGETS):
            _log(f"{size}: forgetting, one {kind} each")
            arguments = [size, kind, FORGETS_EACH, forget_limit_s]
            if size.users >= MANY_USERS:  # of other users each time, and the home stays about as large as it was
                row["forget"][kind] = case("forget", home, *arguments, number * (FORGETS_EACH + 1))
            else:
                with copied(home, scratch / "forget") as changed:
                    row["forget"][kind] = case("forget", changed, *arguments, 0)
    return row


def measure_receipts(counts: Sequence[int], homes: Homes, scratch: Path, limit_s: float) -> list[dict[str, Any]]:
    """`cause receipts` as a whole process: what it prints by default, and all of them; each home goes on from the one
    before it."""
    rows: list[dict[str, Any]] = []
    before: Path | None = None
    pages = "--most" in subprocess.run(
        [sys.executable, "-m", "cause", "receipts", "--help"], check=True, capture_output=True, text=True
    ).stdout  # fmt: skip
    for count in sorted(counts):
        try:
            before, built = homes.get(f"receipts-{count}", ["build-receipts", count, limit_s], before)
        except Skipped as why:
            _log(f"{count} receipts: skipped, {why}")
            rows.append({"receipts": count, "skipped": str(why)})
            continue
        _log(f"{count} receipts: listing")
        with copied(before, scratch) as home:
            opened = case("open", home)  # migrates a home of an older format
            page = _command("receipts", str(home))
            if page < LONG_S:
                page = statistics.median([page, *(_command("receipts", str(home)) for _ in range(2))])
            whole = _command("receipts", str(home), "--json")
            rows.append(
                {"receipts": count, "open_s": opened["open_s"], "first_page_s": page if pages else None, "all_s": whole,
                 "status_command_s": _command("status", str(home), "--json"), "help_s": _command("--help"),
                 **case("doctor", home), **case("forget-newcomers", home, FORGETS_EACH), **built}
            )  # fmt: skip
    return rows


def _command(*args: str) -> float:
    """Seconds that a command takes as a whole process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "cause", *args], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _median(rows: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.median(float(row[name]) for row in rows)


def _sizes(home: Path) -> dict[str, int]:
    """Bytes of the files in each part of a home."""
    parts: dict[str, int] = {}
    for path in home.rglob("*"):
        if path.is_file():
            part = path.relative_to(home).parts[0]
            parts[part] = parts.get(part, 0) + path.stat().st_size
    return dict(sorted(parts.items()))


def _log(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


# Tables


def show_homes(rows: Sequence[dict[str, Any]]) -> None:
    """The table of homes: a column for each size."""
    measured = [row for row in rows if "skipped" not in row]
    lines: dict[str, tuple[str, str]] = {
        "keys": ("{keys:,}", ""),
        "building, s": ("{build_s:.0f}", ""),
        "first opening (and migration), s": ("{first_open_s:.2f}", ""),
        "open: best, s": ("{open_best_s:.2f}", ""),
        "open: median, s": ("{open_median_s:.2f}", "< 1"),
        "open: CPU time, s": ("{open_cpu_median_s:.2f}", ""),
        "memory after opening, MB": ("{rss_mb_median:.0f}", ""),
        "… the most meanwhile, MB": ("{peak_mb_median:.0f}", ""),
        "status: first, ms": ("{status_first_median_ms:.1f}", ""),
        "status: again, ms": ("{status_median_ms:.1f}", ""),
        "`cause status --json`, process, s": ("{status_command_s:.2f}", ""),
        "doctor, s": ("{doctor_s:.1f}", ""),
        "doctor: memory, MB": ("{doctor_mb:.0f}", ""),
    }
    table = [[what, *(_format(form, _in_ms(row)) for row in measured), asked] for what, (form, asked) in lines.items()]
    for kind in FORGETS:
        for what, form, asked in (
            (f"forget one {kind}: first, ms", "{first_ms:,.0f}", ""),
            ("… p50, ms", "{p50_ms:,.1f}", ""),
            ("… p99, ms", "{p99_ms:,.1f}", "< 100"),
            ("… CPU time p50, ms", "{cpu_p50_ms:,.1f}", ""),
            (f"… {WAITS} bare flushes beside each: p50, ms", "{flushes_p50_ms:,.1f}", ""),
            ("… p99, ms", "{flushes_p99_ms:,.1f}", ""),
            ("… forgets", "{forgets}", ""),
            ("… kB written: vault", "{vault_kb:,.0f}", "≤ 1,000 at 10⁶ keys"),
            ("… kB written: ledger and its log", "{ledger_kb:,.0f}", ""),
            ("… kB written: blocks", "{blocks_kb:,.1f}", ""),
        ):
            table.append([what, *(_format(form, _forget(row["forget"][kind])) for row in measured), asked])
    print_table(
        f"How a home grows, by uploads x rounds: uploads of {ROWS} samples with {FEATURES} features, "
        f"{UPLOADS_A_USER} a user, {SHARDS} shards, {SLOTS} slots, {SYSTEM}",
        ["", *(row["size"] for row in measured), "asked for"],
        table,
        note="Each forget is of another random user, repair later; bytes are medians. p99 of fewer than 100 forgets is "
        "the greatest. Where bare flushes take many ms, other programs are using the disk: measure again."
        + "".join(f" {row['size']} skipped: {row['skipped']}." for row in rows if "skipped" in row),
    )


def show_receipts(rows: Sequence[dict[str, Any]]) -> None:
    """The table of receipts."""
    print_table(
        "`cause receipts` and what else depends on their number, s",
        ["receipts", "first page", "all", "open", "`cause status`", "doctor", "`cause --help` beside",
         "forget p50", "p99", "CPU p50"],
        [
            [f"{row['receipts']:,}", *(["skipped", row["skipped"], *[""] * 7] if "skipped" in row else
             ["no pages" if row["first_page_s"] is None else f"{row['first_page_s']:.2f}",
              *(f"{row[name]:.2f}" for name in ("all_s", "open_s", "status_command_s", "doctor_s", "help_s")),
              *(f"{row[name]:.3f}" for name in ("forget_p50_s", "forget_p99_s", "forget_cpu_p50_s"))])]
            for row in rows
        ],
    )  # fmt: skip


def _in_ms(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name[:-1] + "ms": 1e3 * value for name, value in row.items() if name.endswith("_s")}


def _forget(row: dict[str, Any]) -> dict[str, Any]:
    return _in_ms(row) | {f"{part}_kb": row["bytes"].get(part, 0) / 1e3 for part in ("vault", "ledger", "blocks")}


def _format(form: str, row: dict[str, Any]) -> str:
    try:
        return form.format(**row)
    except KeyError:  # not known of a home that was kept without what its building took
        return "–"


def main() -> None:
    """Build, measure, show; write a file where one is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=SIZES, help=f"uploads x rounds of each home; empty: none ({SIZES})")
    parser.add_argument("--receipts", default=RECEIPTS, help=f"numbers of receipts; empty: none ({RECEIPTS})")
    parser.add_argument("--keep", type=Path, help="keep built homes in this folder")
    parser.add_argument("--reuse", action="store_true", help="measure the homes that --keep kept, where there are")
    parser.add_argument("--scratch", type=Path, help="where to measure; the system's temporary folder by default")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds to build a home; longer ones are skipped")
    parser.add_argument(
        "--forget-limit", type=float, default=FORGET_LIMIT_S, help="seconds of forgets of one kind, after the first two"
    )
    parser.add_argument("--json", type=Path, help="write the results into this file, with commit, machine and date")
    asked = parser.parse_args()
    try:
        sizes = [Size.parse(text) for text in asked.sizes.split(",") if text]
        counts = [int(text) for text in asked.receipts.split(",") if text]
    except ValueError as error:
        parser.error(str(error))
    os.environ.setdefault(KEY, "ab" * 32)
    with tempfile.TemporaryDirectory(dir=asked.scratch) as place:
        scratch = Path(place)
        (scratch / "forget").mkdir()
        folder = asked.keep or scratch / "homes"
        folder.mkdir(parents=True, exist_ok=True)
        homes, rows = Homes(folder, asked.reuse), []
        for size in sizes:
            try:
                rows.append(measure(size, homes, scratch, asked.limit, asked.forget_limit))
            except Skipped as why:
                _log(f"{size}: skipped, {why}")
                rows.append({"size": str(size), "skipped": str(why)})
            _write(asked, rows, [])  # the next one may take long
        receipts = measure_receipts(counts, homes, scratch, asked.limit)
    if rows:
        show_homes(rows)
    if receipts:
        show_receipts(receipts)
    _write(asked, rows, receipts)


def _write(asked: argparse.Namespace, homes: Sequence[dict[str, Any]], receipts: Sequence[dict[str, Any]]) -> None:
    if asked.json is not None:
        disk = _file_system(asked.scratch or Path(tempfile.gettempdir()))
        result = {"file_system": disk, "load": os.getloadavg(), "homes": homes, "receipts": receipts}
        write_result(asked.json, result, ("python", "-m", "benchmarks.growth"))


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder lies in (Linux)."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    within = [(where, kind) for where, kind in mounts if folder.resolve().is_relative_to(where)]
    return max(within, key=lambda each: len(each[0]))[1]


if __name__ == "__main__":
    main()
