"""Running the service with uvicorn: limits on connections, JSON logs, TLS and a graceful stop."""

import json
import logging
import signal
import ssl
import sys
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import uvicorn

from cause.errors import InputError
from cause.service.app import make_app
from cause.service.protocol import bounded_protocol
from cause.service.redact import redacted_traceback
from cause.service.service import Service
from cause.service.settings import ServeSettings

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
    service: Service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.begin_shutdown()
        super().handle_exit(sig, frame)


def serve(home: Path, settings: ServeSettings, *, quiet: bool = False) -> None:
    """Serve a home until SIGTERM or SIGINT.

    Parameters
    ----------
    home
        The folder of the home.
    settings
        Address, limits and schedule.
    quiet
        Log warnings and errors only.

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
        logging.getLogger("cause.serve").warning(EXPOSED, settings.host)
    service = Service(home, settings)
    try:
        config = uvicorn.Config(
            make_app(service),
            host=settings.host,
            port=settings.port,
            http=bounded_protocol(settings.connections, settings.slow_s),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=True,
            timeout_graceful_shutdown=max(1, int(settings.grace_s)),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        server = _Server(config)
        server.service = service
        for signal_ in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signal again after it has stopped
            signal.signal(signal_, lambda *_: None)
        server.run()
    finally:
        service.close()
    if not server.started:
        raise InputError(f"cannot listen on {settings.host}:{settings.port}: the log tells why")


def _set_up_logging(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    logging.getLogger("cause.serve").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if quiet else logging.INFO)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log an uncaught exception in the same form as everything else."""
    detail = kind.__name__ if error is None else redacted_traceback(error)
    logging.getLogger("cause.serve").error("unexpected %s", kind.__name__, extra={"detail": detail})


def _check_tls(settings: ServeSettings) -> None:
    if settings.tls_cert is not None:
        try:
            ssl.create_default_context().load_cert_chain(settings.tls_cert, settings.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"cannot use the certificate {settings.tls_cert!r} with its key: {error}") from None
