"""`make fuzz`: schemathesis over the whole schema of a running service, with all of its checks.

python -m tests.service.fuzz [--examples 200]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.device.homes import MASTER
from tests.service.services import Running, rows

ENDLESS = "/v1/events"
CONFIG = """
[checks.positive_data_acceptance]
# what a schema cannot say (a count goes with one round, a round may not be there, nobody can vote yet) is refused, too
expected-statuses = [200, 201, 202, 304, 401, 403, 404, 409, 413, 415, 422]

[checks.negative_data_rejection]
# a body that is too long is refused before anything of it is read
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 428, 429, 431]
"""


def fuzz(url: str, secret: str, examples: int, *phases: str) -> tuple[int, str]:
    """Try every operation; schemathesis' exit code, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG)
        program = Path(sys.executable).parent / "schemathesis"
        command = [
            str(program), f"--config-file={config}", "run", f"{url}/openapi.json",
            "--header", f"Authorization: Bearer {secret}", "--checks", "all", "--max-examples", str(examples),
            "--exclude-path", ENDLESS, "--phases", ",".join(phases or ("examples", "coverage", "fuzzing", "stateful")),
            "--seed", "1", "--continue-on-failure", "--no-color", "--generation-database", "none",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def prepare(running: Running) -> None:
    """Something to find."""
    running.learn(alice=5, bob=5)
    running.post("/v1/users/alice/samples", body=rows("alice", 2, 3))
    running.post("/v1/users/alice/erasures", body={"rounds": [1], "count": 1})


def main() -> int:
    """Run it at length."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="for each operation (default: 200)")
    asked = parser.parse_args()
    os.environ["CAUSE_TEST_KEY"] = MASTER
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder) / "home") as running:
        prepare(running)
        url, create = f"http://127.0.0.1:{running.port}", running.service.tokens.create
        _, secret = create(["operator", "admin"])  # every route is allowed
        code, body = fuzz(url, secret, asked.examples, "examples", "coverage", "fuzzing")
        # scenarios follow links: with the scope admin they would revoke every token, their own too
        also, more = fuzz(url, create(["operator"])[1], asked.examples, "stateful")
        code, body = code or also, body + more
        running.secrets["auditor"] = create(["auditor"])[1]
        answered = {
            line.split()[0]: line
            for line in running.get("/metrics", "auditor").text.splitlines()
            if line.startswith("cause_requests_total{")
        }
        bad = [line for line in answered.values() if 'status="5' in line]
        running.service.device.repair()
        mismatched = running.service.device.verify(processes=0).mismatched
    print(body)
    requests = sum(int(float(line.rsplit(" ", 1)[1])) for line in answered.values())
    print(f"{requests:,} requests, {len(bad)} kinds of 5xx, {len(mismatched)} sub-models not what a replay makes")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if code or bad or mismatched or not requests else 0


if __name__ == "__main__":
    sys.exit(main())
