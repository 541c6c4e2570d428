"""docs/laws.md lists every law, rule and leak with its tests: each one exists, and no leak is left out."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "laws.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/\S+?\.py)::(\w+)`", PAGE)


def defined(path: str) -> set[str]:
    """The tests of a file."""
    file = ROOT / path
    return set(re.findall(r"^def (test_\w+)\(", file.read_text(encoding="utf-8"), re.M)) if file.is_file() else set()


def test_every_test_that_the_page_names_exists():
    assert len(NAMED) > 100
    assert [f"{path}::{test}" for path, test in NAMED if test not in defined(path)] == []


def test_every_test_that_puts_a_leak_in_is_on_the_page():
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    leaks = {(path, test) for path in files for test in defined(path) if test.startswith("test_red_when")}
    assert len(leaks) > 20
    assert leaks - set(NAMED) == set()


def test_the_quick_suite_tries_every_test_that_the_page_names(left_out):
    assert left_out & {f"{path}::{test}" for path, test in NAMED} == set()


def test_every_row_names_a_test_that_guards_it():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    rows = [row for row in rows if "| guarded by |" not in row]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"\| `tests/", row)] == []
