"""Running the service with uvicorn: limits on connections, JSON logs, TLS and a graceful stop."""

import asyncio
import json
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import uvicorn

from cause.errors import CauseError, InputError
from cause.service.app import make_app
from cause.service.protocol import bounded_protocol
from cause.service.redact import redacted_traceback
from cause.service.service import Service
from cause.service.settings import ServeSettings
from cause.service.systemd import Notifier

log = logging.getLogger("cause.serve")

EXPOSED = (
    "listening on %s without TLS: everybody on the network can read tokens and samples. Give --tls-cert and --tls-key, "
    "listen on 127.0.0.1, or say --plain if a proxy or a tunnel encrypts the traffic"
)
EXTRA = ("method", "route", "status", "ms", "token", "detail")


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON. Tracebacks are redacted: messages may contain user ids."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in EXTRA if hasattr(record, name)}
        if record.exc_info:
            entry["error"] = redacted_traceback(record.exc_info[1])
        return json.dumps(entry)


class _Server(uvicorn.Server):
    """uvicorn's server for one service: tells systemd how it is, and reloads its settings on SIGHUP."""

    def __init__(self, config: uvicorn.Config, service: Service, reread: Callable[[], ServeSettings] | None) -> None:
        super().__init__(config)
        self._service, self._reread, self._notifier = service, reread, Notifier()
        self._watchdog: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._notifier.send("READY=1", f"STATUS=serving on port {self.config.port}")
            self._watchdog = asyncio.create_task(self._notifier.watch())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._notifier.send("STOPPING=1")
        self._service.begin_shutdown()
        super().handle_exit(sig, frame)

    def handle_reload(self, sig: int, frame: FrameType | None) -> None:
        """Reload in a thread: the interrupted code may hold a lock that the reload needs."""
        threading.Thread(target=self._reload, name="reload", daemon=True).start()

    def _reload(self) -> None:
        if self._reread is None:
            return
        self._notifier.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            settings = self._reread()
            fixed = self._service.reload(settings)
            if self.config.ssl is not None and settings.tls_cert is not None:  # the certificate may have been renewed
                self.config.ssl.load_cert_chain(settings.tls_cert, settings.tls_key)
            log.warning("settings reloaded", extra={"detail": f"after a restart: {', '.join(fixed)}"} if fixed else {})
        except (CauseError, OSError) as error:  # ssl.SSLError is an OSError
            log.error("the settings were not reloaded, the old ones stay: %s", error)
        self._notifier.send("READY=1")


def serve(
    home: Path, settings: ServeSettings, *, quiet: bool = False, reread: Callable[[], ServeSettings] | None = None
) -> None:
    """Serve a home until SIGTERM or SIGINT. SIGHUP reloads the settings.

    Parameters
    ----------
    home
        The folder of the home.
    settings
        Address, limits and schedule.
    quiet
        Log warnings and errors only.
    reread
        Reads the settings again when SIGHUP comes; without it SIGHUP changes nothing.

    Raises
    ------
    InputError
        If the certificate cannot be used, or the address cannot be listened on.
    HomeError
        If the home cannot be opened.
    """
    _set_up_logging(quiet)
    _check_tls(settings)
    if settings.exposed:
        log.warning(EXPOSED, settings.host)
    service, protocol = Service(home, settings), bounded_protocol(settings.connections, settings.slow_s)

    def bound(reloaded: ServeSettings) -> None:
        protocol.most_connections, protocol.slow_s = reloaded.connections, reloaded.slow_s

    service.on_reload.append(bound)
    try:
        config = uvicorn.Config(
            make_app(service),
            host=settings.host,
            port=settings.port,
            http=protocol,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=True,
            timeout_graceful_shutdown=max(1, int(settings.grace_s)),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        server = _Server(config, service, reread)
        signal.signal(signal.SIGHUP, server.handle_reload)
        for signal_ in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signal again after it has stopped
            signal.signal(signal_, lambda *_: None)
        server.run()
    finally:
        service.close()
    if not server.started:
        raise InputError(f"cannot listen on {settings.host}:{settings.port}: the log tells why")
    log.info("stopped: what was answered is durable, and what waits for training goes on after the next start")


def _set_up_logging(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if quiet else logging.INFO)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log an uncaught exception in the same form as everything else."""
    detail = kind.__name__ if error is None else redacted_traceback(error)
    log.error("unexpected %s", kind.__name__, extra={"detail": detail})


def _check_tls(settings: ServeSettings) -> None:
    if settings.tls_cert is not None:
        try:
            ssl.create_default_context().load_cert_chain(settings.tls_cert, settings.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"cannot use the certificate {settings.tls_cert!r} with its key: {error}") from None
