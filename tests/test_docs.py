"""The documentation says what the code does."""

import json
import os
import re
import subprocess
import sys
from functools import reduce
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from cause.cli.commands import COMMANDS
from cause.cli.reference import reference
from cause.lab.report import fill, tables
from cause.service.operations import OPERATIONS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_command_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_command_is_in_the_reference():
    for name in COMMANDS:
        assert f"## cause {name}\n" in reference()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def code_of(text: str) -> list[str]:
    """The lines of a page's blocks of code, continued ones as one, and what it has in backticks."""
    blocks = re.findall(r"^( *)```[^\n]*\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    lines = [line for _, block in blocks for line in re.sub(r"\\\n(?:> )?", " ", block).splitlines()]
    prose = re.sub(r"^( *)```[^\n]*\n.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    return lines + [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def wrong_commands(text: str) -> list[str]:
    """What a page says of commands or options that do not exist."""
    wrong = []
    for line in code_of(text):
        for name, rest in re.findall(
            r"(?:^|[$;|&(] *|=\S+ )(?:\S*/)?cause +(\S+)([^;|&`]*)", re.sub(r"\$\([^)]*\)", "", line)
        ):
            if name.startswith("-"):
                known, given = ROOT_OPTIONS, [name]
            elif not re.fullmatch(r"[a-z]+", name):
                continue  # `cause …`, `cause COMMAND`
            elif name in COMMANDS:
                known = {option for each in COMMANDS[name].params for option in (*each.opts, *each.secondary_opts)}
                given = re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest.partition(" #")[0])
            else:
                wrong.append(f"cause {name}")
                continue
            wrong += [f"cause {name} {option}" for option in given if option not in known | {"--help"}]
    return wrong


def wrong_names(text: str) -> list[str]:
    """Dotted names of this package on a page that cannot be imported."""
    wrong = []
    for name in re.findall(r"(?<![\w./\\-])cause(?:\.[A-Za-z_]\w*)+", " ".join(code_of(text))):
        if name not in NO_MODULES and not is_importable(name):
            wrong.append(name)
    return wrong


def is_importable(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[count:], found)
        except AttributeError:
            return False
        return True
    return False


def wrong_routes(text: str) -> list[str]:
    """Routes on a page that the service does not have."""
    routes = [(method, re.sub(r"\{[^}]*\}", "[^/]+", path)) for method, path in OPERATIONS]
    routes += [
        ("GET", "/"),
        ("GET", "/openapi.json"),
        *((method, path.replace("users/[^/]+", "user")) for method, path in routes),
    ]
    named = re.findall(r"\b(GET|POST|DELETE|PUT|PATCH) (/[\w./{}-]*)", " ".join(code_of(text)))
    return [
        f"{method} {path}"
        for method, path in named
        if not any(method == other and re.fullmatch(pattern, path) for other, pattern in routes)
    ]


ROOT_OPTIONS = {"--help", "--version", "--install-completion", "--show-completion"}
ENTRY_POINTS = {f"cause.{group}" for group in ("partitioners", "policies", "votes", "heads", "backbones", "learners")}
NO_MODULES = {"cause.toml", "cause.cred", "cause.serve", *ENTRY_POINTS}
"""Files, a logger, and groups of entry points."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_options_names_and_routes_in_the_docs_exist(page):
    text = page.read_text(encoding="utf-8")
    assert wrong_commands(text) == []
    if page.name != "CHANGELOG.md":  # it tells of earlier versions
        assert wrong_names(text) == []
        assert wrong_routes(text) == []


def test_what_does_not_exist_in_the_docs_is_found():
    block = "```console\n$ cause init x \\\n    --hat=3 && cause --vers\n```\n"
    commands = f"`cause learn home --hats` and `A=1 cause lurn`\n{block}"
    assert wrong_commands(commands) == ["cause init --hat", "cause --vers --vers", "cause learn --hats", "cause lurn"]
    names = "`cause.device.verify(device)`, `cause.device.verified`, `cause.nowhere`, `cause.Cause.forget`"
    assert wrong_names(names) == ["cause.device.verified", "cause.nowhere"]
    routes = "`GET /v1/status?x=1`, `POST /v1/users/{user}/samples`, `POST /v1/status`, `GET /v1/rounds/3/nothing`"
    assert wrong_routes(routes) == ["POST /v1/status", "GET /v1/rounds/3/nothing"]


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


class Links(HTMLParser):
    """What a page loads and where it leads."""

    def __init__(self):
        super().__init__()
        self.loaded, self.targets = [], []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        self.loaded += [names["src"]] if "src" in names else []
        self.targets += [names["href"]] if tag == "a" and names.get("href") else []
        self.loaded += [names["href"]] if tag == "link" and "stylesheet" in (names.get("rel") or "") else []


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None or find_spec("material") is None:
        pytest.skip("mkdocs, mkdocs-material or mkdocstrings is not installed: they are in the extra `docs`")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        assert (tmp_path / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    for path in tmp_path.rglob("*.html"):
        links = Links()
        links.feed(path.read_text(encoding="utf-8"))
        assert not [each for each in links.loaded if "://" in each or each.startswith("//")], path
        if path.name != "404.html":  # its links begin at the root of a server
            for target in (each.partition("#")[0] for each in links.targets):
                assert "://" in target or target.startswith("mailto:") or (path.parent / target).exists(), (
                    path,
                    target,
                )
    reference = (tmp_path / "reference" / "cause.html").read_text(encoding="utf-8")
    for name in ("forget", "learn", "verify", "close_round"):
        assert f'id="cause.device.device.Cause.{name}"' in reference


def blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("two-ways-to-forget.md"))
def test_the_python_of_a_page_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "two-ways-to-forget.md", "exec"), {"__name__": "page"})
