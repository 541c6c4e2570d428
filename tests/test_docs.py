"""The documentation says what the code does."""

import json
import re
from pathlib import Path

import pytest
import typer

from cause.cli.app import app
from cause.cli.reference import reference
from cause.lab.report import fill, tables

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_the_command_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_command_is_in_the_reference():
    for name in typer.main.get_command(app).commands:
        assert f"## cause {name}\n" in reference()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_docs_exist(page):
    known = {"cause", *typer.main.get_command(app).commands}
    for command in re.findall(r"^(?:\$ )?cause ([a-z]+)\b", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert command in known, command


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "RESULTS.md"], ids=lambda page: page.name)
def test_tables_are_those_of_the_committed_results(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- table " in text
    assert fill(text, tables(ROOT / "results")) == text, "run `python -m cause.lab.report`"


def test_the_figures_that_the_text_quotes_are_those_of_the_results():
    rows = {
        (row["system"], row["at"]): row["rsn"]["value"]
        for row in json.loads((ROOT / "results" / "compare.json").read_text())["result"]["rows"]
    }

    def less(system, than):
        return f"{1 - rows[system, 4] / rows[than, 4]:.1%}".replace("%", " %")

    text = (ROOT / "docs" / "RESULTS.md").read_text(encoding="utf-8")
    assert f"{less('cause', 'sisa')} less than SISA, {less('cause', 'arcane')} less than ARCANE" in text
    assert f"{less('cause-no-sc', 'sisa')} and {less('cause-no-sc', 'arcane')} |" in text
    assert f"{less('cause', 'omp-70')} less than either" in text
    assert f"shard controller {less('cause-no-sc', 'omp-70')} |" in text
    assert f"by {1 - rows['cause', 16] / rows['cause', 1]:.1%}".replace("%", " %") in text
