"""A service in systemd's hands: SIGHUP, notifications, the watchdog, HEAD, and the last line of the log."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.device.homes import MASTER, opened, samples
from tests.service.services import Daemon, Running, free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Notified:
    """The socket that systemd listens on, and what came."""

    def __init__(self, path: Path) -> None:
        self.path, self.socket = path, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(30)

    def lines(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def until(self, line: str) -> int:
        """Wait for a line; how many messages came before it."""
        for count in range(1000):
            if line in self.lines():
                return count
        raise AssertionError(line)


@pytest.fixture
def started(tmp_path):
    """A service that was started as systemd would, with its log, its settings and what it tells systemd."""
    home = tmp_path / "home"
    opened(home).close()
    settings, log = tmp_path / "serve.toml", tmp_path / "log"
    settings.write_text("[serve]\nerasures = 60\n")
    notified, port = Notified(tmp_path / "notify"), free_port()
    environment = {
        **os.environ,
        "CAUSE_TEST_KEY": MASTER,
        "NOTIFY_SOCKET": str(notified.path),
        "WATCHDOG_USEC": "400000",
    }
    command = [sys.executable, "-m", "cause", "serve", str(home), "--port", str(port), "--config", str(settings)]
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stderr=out) as process:
        try:
            yield process, Daemon(home, port), settings, log, notified
        finally:
            notified.socket.close()
            if process.poll() is None:
                process.kill()


@pytest.mark.long
def test_ready_alive_reloaded_and_stopped_as_systemd_expects(started):
    process, daemon, settings, log, notified = started
    notified.until("READY=1")
    url = f"http://127.0.0.1:{daemon.port}"
    assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200, "it says ready once it takes requests"
    start = time.monotonic()
    for _ in range(4):
        notified.until("WATCHDOG=1")
    assert time.monotonic() - start < 20

    with daemon.client(daemon.token("user", user="ann")) as ann:
        ann.upload("ann", *samples("ann", 1, 8))
        settings.write_text("[serve]\nuser_samples = 9\nworkers = 2\n")
        process.send_signal(signal.SIGHUP)
        notified.until("RELOADING=1")
        notified.until("READY=1")
        assert process.poll() is None, "SIGHUP does not end it"
        assert ann.user("ann")["quota"]["samples"] == 9
        settings.write_text("[serve]\nnonsense = 1\n")
        process.send_signal(signal.SIGHUP)
        notified.until("RELOADING=1")
        notified.until("READY=1")
        assert ann.user("ann")["quota"]["samples"] == 9, "the old ones stay"
    text = log.read_text()
    assert "after a restart: workers" in text
    assert "has no 'nonsense'" in text

    process.send_signal(signal.SIGTERM)
    notified.until("STOPPING=1")
    assert process.wait(60) == 0
    assert '"stopped: what was answered is durable' in log.read_text().splitlines()[-1]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_answered_to_head(running, path):
    answer = running.http.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_reload_changes_limits_and_schedule_of_a_running_service(tmp_path):
    with Running(tmp_path / "home", repair="never", rate=100_000.0) as device:
        assert device.get("/v1/status").json()["schedule"]["repair"] == "never"
        before = device.service.settings
        fixed = device.service.reload(replace(before, repair="now", close_samples=7, hosts="device.local", port=1))
        assert fixed == ["port"]
        assert device.service.settings.port == before.port
        schedule = device.get("/v1/status").json()["schedule"]
        assert (schedule["repair"], schedule["close_samples"]) == ("now", 7)
        assert device.http.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
        device.service.reload(replace(device.service.settings, rate=0.001, hosts=None))
        wait_until(lambda: device.get("/v1/token").status_code == 429)


def test_the_unit_waits_for_readiness_and_reloads():
    unit = (ROOT / "deploy" / "cause.service").read_text()
    for line in ("Type=notify", "WatchdogSec=60", "ExecReload=/bin/kill -HUP $MAINPID"):
        assert f"\n{line}\n" in unit
