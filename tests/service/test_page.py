"""The blocks of docs/service.md run on a fresh home, in order."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.device.homes import samples
from tests.service.services import WarmDaemon, free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl", "jq", "openssl"))), reason="needs curl, jq and openssl")
def test_the_quick_start_leads_to_a_verified_receipt(tmp_path):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "cause"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cause "$@"\n')
    command.chmod(0o755)
    script = "set -eu\ntrap 'kill %1; wait' EXIT\n" + "\n".join(blocks("bash"))
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script.replace("8470", str(free_port()))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "signed by the device and in its log: effect" in done.stdout
    assert '"labels": [0]' in done.stdout
    assert (tmp_path / "master.key").stat().st_mode & 0o077 == 0


def test_the_python_examples_run_on_a_fresh_device(tmp_path, monkeypatch):
    from tests.device.homes import opened

    opened(tmp_path / "home").close()
    daemon = WarmDaemon(tmp_path / "home").start()
    try:
        x, y = samples("alice", 1, 12)
        names = {"token": daemon.token("operator"), "x": x, "y": y, "users": np.array(["bob", "carol"] * 6)}
        for block in blocks("python"):
            exec(compile(block.replace("8470", str(daemon.port)), "docs/service.md", "exec"), names)
        assert len(names["labels"]) == 12
    finally:
        assert daemon.stop() == 0
