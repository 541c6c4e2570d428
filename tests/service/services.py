"""Services to test: the real one on a real home, in a thread of this process or in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import uvicorn

from cause.client import Client
from cause.client.calls import certificates
from cause.service.app import make_app
from cause.service.protocol import bounded_protocol
from cause.service.service import Service, tokens_of
from cause.service.settings import ServeSettings
from tests.device.homes import CLASSES, FEATURES, MASTER, opened, samples
from tests.waiting import wait_until
from tests.warm_processes import WarmProgram

JSON = {"Content-Type": "application/json"}
SETTINGS = {"port": 0, "attempts": 100_000.0, "rate": 100_000.0, "erasures": 100_000, "grace": "5s"}


def rows(user: str, round_: int, count: int) -> bytes:
    """An upload as JSON."""
    x, y = samples(user, round_, count)
    body = [{"x": values, "y": int(label)} for values, label in zip(x.tolist(), y.tolist(), strict=True)]
    return json.dumps({"samples": body}).encode()


class Running:
    """A service in this process, and a client."""

    def __init__(self, folder: Path, **settings) -> None:
        if not folder.exists():
            opened(folder).close()
        self.folder = folder
        self.now = time.time()
        """What a test may use as the clock of the home."""
        self.service = Service(folder, ServeSettings(**{**SETTINGS, **settings}))
        self.app = make_app(self.service)
        self.arrived = 0
        """Requests whose headers have come."""
        self.port = free_port()

        async def counted(scope, receive, send) -> None:
            self.arrived += scope["type"] == "http"
            await self.app(scope, receive, send)

        config = uvicorn.Config(
            counted,
            port=self.port,
            http=bounded_protocol(self.service.settings.connections, self.service.settings.slow_s),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)
        url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=url, timeout=30, trust_env=False, verify=certificates(url, True))
        self.secrets: dict[str, str] = {}

    def __enter__(self) -> "Running":
        self.thread.start()
        wait_until(lambda: self.server.started or not self.thread.is_alive())
        assert self.thread.is_alive()
        for scope in ("operator", "auditor", "ingest", "predict", "admin"):
            self.secrets[scope] = self.service.tokens.create([scope])[1]
        return self

    def __exit__(self, *error) -> None:
        self.http.close()
        self.service.begin_shutdown()
        self.server.should_exit = True
        self.thread.join()

    def headers(self, who: str) -> dict[str, str]:
        """Of a scope, or of a user's own token."""
        if who not in self.secrets:
            self.secrets[who] = self.service.tokens.create(["user"], user=who)[1]
        return {"Authorization": f"Bearer {self.secrets[who]}"}

    def get(self, path: str, who: str = "operator", **more):
        return self.http.get(path, headers=self.headers(who) | more)

    def post(self, path: str, who: str = "operator", body: bytes | dict | None = None, **more):
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        kind = {} if "Content-Type" in more or "content_type" in more else JSON
        extra = {name.replace("_", "-"): value for name, value in more.items()}
        return self.http.post(path, headers=self.headers(who) | kind | extra, content=content)

    def learn(self, **counts: int) -> int:
        """Upload, close a round and wait until it is trained."""
        t = self.service.device.ledger.round + 1
        for user, count in counts.items():
            assert self.post(f"/v1/users/{user}/samples", body=rows(user, t, count)).status_code == 201
        number = self.post("/v1/rounds").json()["round"]
        self.settled()
        return number

    def settled(self, seconds: float = 30.0) -> None:
        """Wait until nothing waits."""
        wait_until(lambda: not self.service.device.waiting(), seconds, "nothing is trained")

    def closed(self, number: int, seconds: float = 60.0) -> None:
        """Wait until a round is closed."""
        wait_until(lambda: self.service.device.ledger.round >= number, seconds, f"round {number} is not closed")

    def arrive(self, send: Callable[[], None]) -> None:
        """Send something, and wait until the headers of another request have come."""
        before = self.arrived
        send()
        wait_until(lambda: self.arrived > before)

    def state(self) -> dict:
        """All that must not change when a request is refused."""
        database = self.service.home.database
        tables = ("uploads", "blocks", "staged", "requests", "segments", "pieces", "history", "calls", "evaluations")
        files = sorted(path.name for path in (self.folder / "blocks").iterdir())
        counts = {table: database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}
        return {"files": files, "round": self.service.device.ledger.round, **counts}


class Daemon:
    """A service in a process of its own, on a port of its own, that can be killed."""

    fresh = True
    """Whether the process imports all libraries itself, as outside tests."""

    def __init__(self, folder: Path, port: int | None = None, **options: str) -> None:
        self.folder, self.port = folder, port or free_port()
        self.options = options
        self.process: subprocess.Popen | WarmProgram | None = None

    def start(self, wait_s: float = 60.0) -> "Daemon":
        arguments = ["serve", str(self.folder), "--port", str(self.port), "--quiet"]
        for name, value in self.options.items():
            arguments += [f"--{name.replace('_', '-')}", *([value] if value else [])]
        environment = {**os.environ, "CAUSE_TEST_KEY": MASTER, "CAUSE_SERVE_RATE": "100000"}
        if self.fresh:
            command = [sys.executable, "-m", "cause", *arguments]
            self.process = subprocess.Popen(command, env=environment, start_new_session=True)
        else:
            self.process = WarmProgram(arguments, environment)
        wait_until(self._answers, wait_s, "the service does not answer")
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the service ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """As a power cut would, workers too."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def client(self, secret: str, **more) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", secret, **more)

    def token(self, *scopes: str, user: str | None = None) -> str:
        os.environ.setdefault("CAUSE_TEST_KEY", MASTER)
        tokens = tokens_of(self.folder)
        try:
            return tokens.create(scopes, user=user)[1]
        finally:
            tokens.close()


class WarmDaemon(Daemon):
    """A service in a process of its own that starts faster: the libraries are already imported."""

    fresh = False


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def inputs(count: int = 1) -> list[list[float]]:
    return np.random.default_rng(count).normal(size=(count, FEATURES)).astype(np.float32).tolist()


__all__ = ["CLASSES", "FEATURES", "Daemon", "Running", "inputs", "rows"]
