"""A lease ends a process in time, whatever the process does."""

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leases need Linux")

START = (
    "import os, signal, threading; wait = threading.Event().wait; "
    "from cause.executors.cluster.lease import Lease, now; lease = Lease(1.0); "
)


def lived(program):
    """Run a program that has begun a lease of one second; return its exit status, and how long it lived from then."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{START} print('begun', flush=True); {program}"], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"begun\n"
    begun = time.monotonic()
    with process.stdout:
        return process.wait(20), time.monotonic() - begun


@pytest.mark.parametrize(
    "program",
    [
        "wait(30)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); wait(30)",
        "[None for _ in iter(int, 1)]",
    ],
    ids=["sleeps", "is stopped", "blocks signals", "computes"],
)
def test_a_process_ends_with_its_lease(program):
    status, seconds = lived(program)
    assert status == -signal.SIGKILL
    assert 0.5 < seconds < 10  # a second, on a busy machine


def test_a_process_that_renews_its_lease_lives_on():
    status, seconds = lived("\nfor _ in range(6):\n    wait(0.3); lease.renew(now())\nos._exit(7)")
    assert status == 7
    assert seconds > 1.5


def test_a_renewal_counts_from_the_moment_when_it_was_asked_for():
    status, _ = lived("asked = now() - 0.95; lease.renew(asked); wait(0.5); os._exit(7)")
    assert status == -signal.SIGKILL
