"""The tutorial runs as it is printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cause.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "device.md"


def steps(text):
    """Each command of the page, with the lines that it must print: in order, others may lie between."""
    blocks = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                blocks.append(([line[2:]], []))
            elif line.startswith("> "):
                blocks[-1][0].append(line[2:])
            else:
                blocks[-1][1].append(line)
    return [("\n".join(command), expected) for command, expected in blocks]


def plain(line):
    return " ".join(line.split())


def fits(expected, line):
    pattern = ".*".join(re.escape(part) for part in plain(expected).split("…"))
    return re.fullmatch(pattern, plain(line)) is not None


def missing(expected, output):
    """The first line that is not printed where it should be."""
    lines = iter(output.splitlines())
    return next((each for each in expected if not any(fits(each, line) for line in lines)), None)


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Runs a line in a folder of its own: `cause` alone in this process, anything else in a shell."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    command = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from cause.cli import main; main()" "$@"\n'
    (tmp_path / "bin" / "cause").write_text(command)
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    for path in (tmp_path / "bin").iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))

    def run(line):
        if line.startswith("cause ") and "|" not in line:
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(line)[1:])
            out, err = capsys.readouterr()
            return ended.value.code, out + err
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return run


def test_every_step_of_the_tutorial_prints_what_it_shows(shell):
    for command, expected in steps(PAGE.read_text(encoding="utf-8")):
        code, output = shell(command)
        assert code == 0, f"{command}\n{output}"
        assert missing(expected, output) is None, f"{command}\nprints\n{output}\nwithout\n{missing(expected, output)}"


def test_the_runner_sees_a_line_that_is_not_printed():
    assert missing(["b", "d …"], "a\n b\nc\nd 1\n") is None
    assert missing(["d", "b"], "b\nd\n") == "b"
    assert missing(["d …!"], "d 1\n") == "d …!"


def test_the_runner_finds_commands_and_what_follows_them():
    assert steps("```console\n$ a\nx\n$ b <<E\n> c\n> E\n```\n```console\n$ d\n```\n") == [
        ("a", ["x"]), ("b <<E\nc\nE", []), ("d", []),
    ]  # fmt: skip
    assert len(steps(PAGE.read_text(encoding="utf-8"))) > 15
