"""Scripts that use workers and verify run once, with and without a main guard, or fail with a line that says why."""

import os
import subprocess
import sys

import pytest

USE = """
with open("runs", "a") as file:
    file.write("run\\n")
device = Cause(learner={learner}, shards=2, slots=4, workers=1)
device.learn([TraceUpload("ann", 1, (Part(30),)), TraceUpload("bob", 1, (Part(20),))])
device.forget("ann", rounds=1, count=5)
print(len(device.verify().identical), "identical")
device.close()
"""
HEAD = """
from cause import Cause
from cause.lab import CountingLearner, Part, TraceUpload
"""
OWN = """
class Own(CountingLearner):
    pass
"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())


def run(folder, text: str) -> tuple[subprocess.CompletedProcess, int]:
    """Run a script, and return its output and how often it ran."""
    (folder / "script.py").write_text(text)
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done, len((folder / "runs").read_text().splitlines())


GUARD = 'if __name__ == "__main__":\n'
RUNNING = {
    "without a guard": HEAD + USE.format(learner="CountingLearner()"),
    "with a learner of its own, and a guard": HEAD + OWN + GUARD + indented(USE.format(learner="Own()")),
}


@pytest.mark.parametrize("text", RUNNING.values(), ids=RUNNING)
def test_a_script_runs_once(tmp_path, text):
    done, runs = run(tmp_path, text)
    assert (done.returncode, runs) == (0, 1), done.stderr
    assert "identical" in done.stdout


def test_a_script_that_defines_its_learner_without_a_guard_is_refused_in_one_line(tmp_path):
    done, _ = run(tmp_path, HEAD + OWN + USE.format(learner="Own()"))
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cause.errors.NoGuardError: a worker process cannot import this script, which defines the")
    assert "`if __name__ == '__main__':`" in last
