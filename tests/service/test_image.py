"""The image, as far as it can be checked without an engine; `make test-image` runs it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.device.homes import opened
from tests.service.image import LIMITS
from tests.service.services import Running, WarmDaemon
from tests.service.test_commands import certificate

ROOT = Path(__file__).parents[2]
READY = ROOT / "deploy" / "ready.py"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def steps(name):
    return [line.split(maxsplit=1)[1] for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def copied():
    """What comes from the repository, not from another stage."""
    return [path for step in steps("COPY") if not step.startswith("--from") for path in step.split()[:-1]]


def healthy(port, **environment):
    variables = {**os.environ, "CAUSE_SERVE_PORT": str(port), **environment}
    return subprocess.run([sys.executable, "-IS", READY], env=variables, capture_output=True, text=True, timeout=30)


def test_the_extras_that_are_installed_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"EXTRAS=([a-z,]+)", DOCKERFILE + OPERATIONS)
    assert len(named) >= 2
    for extras in named:
        assert set(extras.split(",")) <= set(known)


def test_what_is_copied_exists_and_nothing_else_is_sent_to_the_engine():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied())
    for path in copied():
        assert (ROOT / path).exists(), path


def test_it_runs_as_a_user_without_rights_that_an_orchestrator_can_check():
    assert steps("USER") == ["10001:10001"]


def test_every_stage_is_made_of_the_base_that_was_named():
    assert [step.split()[0] for step in steps("FROM")] == ["${BASE}", "${BASE}"]


def test_the_health_check_runs_the_script_that_was_copied():
    assert f'"{next(step for step in steps("COPY") if "ready.py" in step).split()[-1]}"' in steps("HEALTHCHECK")[0]


def test_the_documented_limits_are_those_that_are_tried():
    assert " ".join(LIMITS) in " ".join(OPERATIONS.replace("\\\n", " ").split())


@pytest.mark.parametrize("tls", [False, True])
def test_healthy_while_it_serves_and_not_when_it_is_gone(tmp_path, tls):
    opened(tmp_path / "home").close()
    options = dict(zip(("tls_cert", "tls_key"), certificate(tmp_path), strict=True)) if tls else {}
    body = {"CAUSE_SERVE_TLS_CERT": options["tls_cert"]} if tls else {}
    daemon = WarmDaemon(tmp_path / "home", **options).start()
    try:
        done = healthy(daemon.port, **body)
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        assert daemon.stop() == 0
    gone = healthy(daemon.port, **body)
    assert (gone.returncode, gone.stderr.startswith("nobody answers")) == (1, True)


def test_not_healthy_while_it_stops(tmp_path):
    with Running(tmp_path / "home") as running:
        assert healthy(running.port).returncode == 0
        running.service.begin_shutdown()
        done = healthy(running.port)
        assert (done.returncode, done.stderr) == (1, "it starts or stops\n")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_image_says_what_is_missing(tmp_path):
    command, empty = [shutil.which("make"), "image"], {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=empty, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("an image is built by docker, podman or buildah: install and start one of them\n")
