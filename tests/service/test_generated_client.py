"""A client that an ordinary tool makes from the schema does what the service does: `make generated-client`."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.services import Running

TOOL = os.environ.get("CAUSE_CODEGEN") or shutil.which("openapi-python-client")
UNREAD = ("application/x-npz", "application/vnd.safetensors", "text/csv", "image/", "application/x-ndjson")
"""Media types that the generator leaves out; JSON does the same."""


@pytest.mark.skipif(TOOL is None, reason="openapi-python-client is missing: `make generated-client` installs it")
def test_a_generated_client_uploads_learns_erases_and_reads_the_evidence(tmp_path):
    assert TOOL is not None
    tool = Path(TOOL).absolute()
    with Running(tmp_path / "home") as running:
        schema = tmp_path / "openapi.json"
        schema.write_bytes(running.http.get("/openapi.json").content)
        made = subprocess.run(
            [tool, "generate", "--path", schema, "--output-path", tmp_path / "generated", "--meta", "none"],
            capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        report = made.stdout + made.stderr
        warnings = [line for line in report.splitlines() if "nsupported" in line]
        assert all(any(kind in line for kind in UNREAD) for line in warnings), report
        assert "ERROR" not in report, report
        secret = running.service.tokens.create(["operator", "admin"])[1]
        used = subprocess.run(
            [tool.parent / "python", Path(__file__).with_name("generated_use.py"), str(running.http.base_url), secret],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=180,
        )  # fmt: skip
        assert used.returncode == 0, used.stderr
        done = json.loads(used.stdout)
        assert done["labels"] == [0, 1]
        assert (done["planned"], done["erased"], done["held"]) == (2, [2, 8, 0], [6, 0, 8])
        assert done["refused"] == "urn:cause:problem:conflict"
        assert (done["token"], done["listed"], done["name"]) == ([True, False], [2, True], "home")
        assert done["receipts"]
        assert all(done["receipts"])
        assert done["bundles"] >= 1
        assert done["log"] >= 3
        assert (done["shards"] >= 1, done["history"] >= 1, done["tokens"] >= 2) == (True, True, True)


def test_every_named_schema_has_an_example_that_fits_it(running):
    """Checked by jsonschema, which FastAPI does not use."""
    import jsonschema

    schema = running.http.get("/openapi.json").json()
    named = schema["components"]["schemas"]
    for name, body in named.items():
        if body.get("type") != "object":
            continue
        assert body["examples"], name
        for example in body["examples"]:
            jsonschema.Draft202012Validator({**body, "components": {"schemas": named}}).validate(example)
