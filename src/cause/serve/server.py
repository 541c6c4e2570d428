"""Running the service: uvicorn, with bounded headers, JSON logs and an orderly end."""

import json
import logging
import signal
import ssl
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cause.errors import InputError
from cause.serve.app import make_app
from cause.serve.service import Service
from cause.serve.settings import ServeSettings

MOST_HEAD = 65_536
"""Bytes of a request before its body: a parser must not be fed for ever."""
EXTRA = ("method", "route", "status", "ms", "token", "detail")


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection whose request line and headers do not end."""

    _head = 0
    _in_head = True
    _tail = b""

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            end = (self._tail + data).find(b"\r\n\r\n")  # it may lie across two pieces
            self._head += len(data) if end < 0 else end
            self._tail = data[-3:]
            if self._head > MOST_HEAD:
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
                self.transport.close()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head, self._tail = True, 0, b""
        super().on_message_complete()


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: getattr(record, name) for name in EXTRA if hasattr(record, name)}
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)


class _Server(uvicorn.Server):
    service: Service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.stopping()
        super().handle_exit(sig, frame)


def serve(home: Path, settings: ServeSettings, *, quiet: bool = False) -> None:
    """Serve a home until somebody says stop."""
    _log(quiet)
    _check_tls(settings)
    service = Service(home, settings)
    try:
        config = uvicorn.Config(
            make_app(service),
            host=settings.host,
            port=settings.port,
            http=BoundedProtocol,
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
        for each in (signal.SIGTERM, signal.SIGINT):  # uvicorn hands the signal on when it is done
            signal.signal(each, lambda *_: None)
        server.run()
    finally:
        service.close()
    if not server.started:
        raise InputError(f"cannot listen on {settings.host}:{settings.port}: the log tells why")


def _log(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("cause.serve").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if quiet else logging.INFO)


def _check_tls(settings: ServeSettings) -> None:
    if settings.tls_cert is not None:
        try:
            ssl.create_default_context().load_cert_chain(settings.tls_cert, settings.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"cannot use the certificate {settings.tls_cert!r} with its key: {error}") from None
