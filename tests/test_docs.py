"""The documentation says what the code does."""

import re
from pathlib import Path

import pytest
import typer

from cause.cli.app import app
from cause.cli.reference import reference

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
