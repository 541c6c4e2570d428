"""A slow link: a relay on this machine that passes so many bytes a second in each direction, and can be cut."""

import contextlib
import socket
import threading
import time

from tests.executors.cluster.local_actor import LocalActor, LocalCluster
from tests.waiting import pass_time

STEP_S = 0.02


class SlowLink:
    """Relays connections to a port of this machine. Buffers of the kernel are as large as it likes: as in a router.

    Parameters
    ----------
    rate
        Bytes a second in each direction, for each connection.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.passed = 0  # bytes, in both directions
        self.cut = threading.Event()  # if set, nothing passes any more; connections stay open
        self._ends: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

    def lead_to(self, port: int) -> None:
        """Relay the next connection to a port."""
        threading.Thread(target=self._relay, args=(port,), daemon=True).start()

    def _relay(self, port: int) -> None:
        with contextlib.suppress(OSError):
            near, _ = self._server.accept()
            far = socket.create_connection(("127.0.0.1", port))
            self._ends += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        start, passed = time.monotonic(), 0
        with contextlib.suppress(OSError):
            while data := source.recv(max(1, int(self.rate * STEP_S))):
                start = max(start, time.monotonic() - passed / self.rate - STEP_S)  # an idle link saves nothing up
                passed += len(data)
                pass_time(max(0.0, start + passed / self.rate - time.monotonic()))
                if self.cut.is_set():
                    return
                target.sendall(data)
                self.passed += len(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End all connections."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for end in (self._server, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class _BehindLink(LocalActor):
    """A worker that reaches the device through a link."""

    def __init__(self, link: SlowLink) -> None:
        super().__init__()
        self._link = link

    def start(self, host: object, port: object, *arguments: object) -> None:
        assert isinstance(port, int)
        self._link.lead_to(port)
        super().start(host, self._link.port, *arguments)


class SlowCluster(LocalCluster):
    """One worker at a time, behind a link of so many bytes a second."""

    def __init__(self, rate: float, lease: float) -> None:
        super().__init__(lease=lease)
        self.link = SlowLink(rate)

    def _actor(self) -> LocalActor:
        return _BehindLink(self.link)

    def close(self) -> None:
        super().close()
        self.link.close()
