"""Where a result comes from: command, commit, machine, date."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cause.common.files import write_text
from cause.common.machine import hardware

COMMIT = "CAUSE_COMMIT"
"""Names the commit where the code runs as a copy without its repository."""
CHANGED = "-changed"


def provenance(program: Sequence[str] = ("cause",)) -> dict[str, Any]:
    """How what is made now is made: by this program, with the arguments that it was given."""
    return {
        "command": shlex.join([*program, *sys.argv[1:]]),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": hardware() | _card(),
    }


def short(commit: str) -> str:
    """A commit for people; that the code was changed since must not be cut off.

    >>> short("0123456789abcdef-changed"), short("unknown")
    ('0123456789ab-changed', 'unknown')
    """
    name, mark, _ = commit.partition(CHANGED)
    return name[:12] + mark


def _card() -> dict[str, str]:
    """The GPU, where this process has used one."""
    torch = sys.modules.get("torch")  # a result that needs no torch does not load it
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {"card": torch.cuda.get_device_name()}


def write_result(path: Path, result: Any, program: Sequence[str] = ("cause",)) -> None:
    """Write a result that says how it was made."""
    record = {**provenance(program), "result": result}
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def commit() -> str:
    """The commit of the code that runs, marked when it was changed since; for a copy of it, what CAUSE_COMMIT says."""
    if COMMIT in os.environ:
        return os.environ[COMMIT]
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here)]
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        dirty = subprocess.run([*git, "status", "--porcelain", "--", str(here)], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found + (CHANGED if dirty.strip() else "")
