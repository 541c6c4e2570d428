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
"""The environment variable with the commit, for code that runs as a copy without its repository."""
CHANGED = "-changed"


def provenance(program: Sequence[str] = ("cause",)) -> dict[str, Any]:
    """Return the command, commit, date and machine of this process; `program` is the first part of the command."""
    return {
        "command": shlex.join([*program, *sys.argv[1:]]),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": hardware() | _card(),
    }


def short(commit: str) -> str:
    """Return a shortened commit; the mark of changed code is kept.

    >>> short("0123456789abcdef-changed"), short("unknown")
    ('0123456789ab-changed', 'unknown')
    """
    name, mark, _ = commit.partition(CHANGED)
    return name[:12] + mark


def _card() -> dict[str, str]:
    """Return the GPU, if this process has used one."""
    torch = sys.modules.get("torch")  # a result that needs no torch does not load it
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {"card": torch.cuda.get_device_name()}


def write_result(path: Path, result: Any, program: Sequence[str] = ("cause",)) -> None:
    """Write a result to a JSON file, with its provenance."""
    record = {**provenance(program), "result": result}
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def commit() -> str:
    """Return the commit of this code, marked if files were changed since; or what CAUSE_COMMIT says."""
    if COMMIT in os.environ:
        return os.environ[COMMIT]
    folder = Path(__file__).parent
    try:
        git = ["git", "-C", str(folder)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        dirty = subprocess.run(
            [*git, "status", "--porcelain", "--", str(folder)], capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + (CHANGED if dirty.strip() else "")
