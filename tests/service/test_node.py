"""Software in another language uses the service, and checks a receipt with no code of ours."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.services import Running

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node.js here")


def run(service, **more):
    url, token = f"http://127.0.0.1:{service.port}", service.secrets["operator"]
    environment = {**os.environ, "CAUSE_URL": url, "CAUSE_TOKEN": token, **more}
    command = [NODE, str(ROOT / "examples" / "client.mjs")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_client_in_javascript_uploads_predicts_erases_and_checks_its_receipts(tmp_path):
    with Running(tmp_path / "home") as service:
        done = run(service)
        assert done.returncode == 0, done.stderr
        body = done.stdout.splitlines()
        assert body[:3] == ["alice uploaded 40 samples", "bob uploaded 40 samples", "round 1 is trained"]
        assert "40 samples of alice are gone" in body
        assert [line for line in body if "is signed and in the log" in line] == [
            "receipt 0 (effect) is signed and in the log",
            "receipt 1 (repair) is signed and in the log",
        ]
        assert service.service.device.ledger.rounds_of("alice") == []
        again = run(service)  # the tree has grown: longer proofs
        assert again.returncode == 0, again.stderr
        assert "receipt 3 (repair) is signed and in the log" in again.stdout


def test_a_client_in_javascript_is_told_what_is_wrong(tmp_path):
    with Running(tmp_path / "home") as service:
        done = run(service, CAUSE_TOKEN="nobody")
        assert done.returncode != 0
        assert "GET /v1/status: 401" in done.stderr


def test_a_receipt_that_was_changed_is_not_believed_by_it(tmp_path, monkeypatch):
    with Running(tmp_path / "home") as service:
        log = service.service.home.receipts
        bundle = log.bundle

        def changed(number, own):
            found = bundle(number, own=own)
            return type(found)(
                found.number, found.receipt.replace(b'"samples"', b'"Samples"'), found.proof, found.checkpoint
            )

        monkeypatch.setattr(type(log), "bundle", lambda self, number, own=False: changed(number, own))
        done = run(service)
        assert done.returncode != 0
        assert "the device did not sign this" in done.stderr
