"""The files around the code: they are well-formed, and name the same version."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import cause

ROOT = Path(__file__).parents[1]
SCHEMAS = {
    ".github/workflows/ci.yml": "github-workflows",
    ".github/workflows/nightly.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/bug.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/feature.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    "CITATION.cff": "citation-file-format",
}


def check(schema, path):
    """Check a file against a schema that check-jsonschema brings along."""
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed: it is in the extra `dev`")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_file_for_the_forge_follows_its_schema(path):
    done = check(SCHEMAS[path], ROOT / path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_workflow_with_a_wrong_key_is_noticed(tmp_path):
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    broken = tmp_path / "ci.yml"
    broken.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert check("github-workflows", broken).returncode != 0


def test_every_form_and_workflow_has_a_schema():
    present = {str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml")}
    assert present == {path for path in SCHEMAS if path.startswith(".github")}


def test_the_workflow_runs_what_make_and_the_scripts_offer():
    workflows = ROOT / ".github" / "workflows"
    jobs, nightly = (
        yaml.safe_load((workflows / name).read_text(encoding="utf-8"))["jobs"] for name in ("ci.yml", "nightly.yml")
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for job in (*jobs.values(), *nightly.values()) for step in job["steps"] if "run" in step]
    targets = nightly["long"]["strategy"]["matrix"]["target"]
    commands += [f"make {target}" for target in targets]
    commands.remove("make ${{ matrix.target }}")
    for command in commands:
        if command.startswith("make "):
            assert f"\n{command.removeprefix('make ')}:" in makefile, command
        elif not command.startswith(("git ", "apt-get ")):
            assert (ROOT / command.split()[0]).exists(), command
    assert jobs["tests"]["strategy"]["matrix"]["python-version"] == ["3.11", "3.12", "3.13"]
    assert {"make test-browser", "make test-long", "make test-cluster", "make fuzz"} <= set(commands)


def test_hooks_run_the_checks_of_make_lint():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for hook in repo["hooks"]:
        assert {"id", "name", "entry", "language"} <= set(hook)
        tool = hook["entry"].removesuffix(" --force-exclude").replace(".venv/bin/", "$(BIN)/")
        assert f"\t{tool}" in makefile, tool


def test_all_name_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/cause/common/version.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == cause.__version__
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1].splitlines()[0]
    assert newest in ("Unreleased", f"{cause.__version__} – {citation['date-released']}")
    assert f"| {cause.__version__.rpartition('.')[0]} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_no_test_sleeps_to_wait_for_something():
    """`wait_until` waits for a condition; `pass_time` is for what takes time itself."""
    elsewhere = ("waiting.py", "generated_use.py")  # the second runs without this package
    sleeping = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"\b(time\.)?sleep\(", path.read_text()) and path.name not in elsewhere
    ]
    assert sleeping == []
