"""The worker process on a machine of the cluster. Ray starts it; everything else goes through the sealed channel."""

import contextlib
import os
import pickle
import queue
import resource
import signal
import socket
import threading
from typing import NoReturn

from cause.errors import PassingError
from cause.executors.cluster.channel import Channel, new_key
from cause.executors.cluster.lease import Lease, now
from cause.executors.cluster.messages import NUMBER, Kind, Order, Question, encode
from cause.executors.worker import Assignment, Failed, Message, serve

RENEWALS = 4
"""How often a worker asks for a renewal within the time of a lease."""
CONNECT_S = 10.0


class TrainingWorker:
    """A worker, as a class for `ray.remote`. Its arguments and results hold no secret: Ray keeps copies of them.

    Parameters
    ----------
    host, port
        Where the device listens.
    device_key
        The device's public key for this worker.
    lease
        The number of the worker's lease, 16 bytes.
    seconds
        How long the worker may live without a renewal.
    """

    def __init__(self, host: str, port: int, device_key: bytes, lease: bytes, seconds: float) -> None:
        _write_nothing_down()
        self._address, self._device_key, self._number, self._seconds = (host, port), device_key, lease, seconds
        self._key = new_key()

    def public_key(self) -> bytes:
        """Return this worker's public key."""
        return self._key.public_key().public_bytes_raw()

    def node(self) -> tuple[str, str]:
        """Return the name and the address of this worker's node."""
        import ray

        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()

    def run(self) -> NoReturn:
        """Connect to the device and train what it sends, until it or the lease ends."""
        lease = Lease(self._seconds)  # before any sample arrives
        try:
            connection = socket.create_connection(self._address, CONNECT_S)
            connection.settimeout(None)
            connection.sendall(self._number)
            channel = Channel(connection, self._key, self._device_key, self._number, is_device=False)
            link = _ChannelLink(channel, lease)
            del self._key
            serve(link)
        finally:
            die()


def die() -> NoReturn:
    """End this process at once: nothing runs any more that could write samples somewhere."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError  # pragma: no cover


def _write_nothing_down() -> None:
    """Let this process write no output to Ray's log files, and no core dump: they could hold samples."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class _ChannelLink:
    """A worker's link to the device: one thread receives and renews the lease, another asks for renewals."""

    def __init__(self, channel: Channel, lease: Lease) -> None:
        self._channel, self._lease = channel, lease
        self._orders: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._asked: dict[int, float] = {}
        self._next: bytearray | None = None
        self._environment = ""  # of this process, for the last learner
        for task in (self._listen, self._ask):
            threading.Thread(target=task, daemon=True).start()

    def _listen(self) -> NoReturn:
        """Handle what the device sends. The process ends with the connection."""
        try:
            while True:
                kind, body = self._channel.receive()
                if kind == Kind.RENEWED:
                    (number,) = NUMBER.unpack(body)
                    self._lease.renew(self._asked.pop(number))
                elif kind == Kind.ASSIGNMENT:
                    self._orders.put(body)
                elif kind == Kind.END:
                    self._channel.finish(Kind.GOODBYE)
                    break
        finally:
            die()

    def _ask(self) -> NoReturn:
        """Ask for renewals. An answer counts from the moment of its question."""
        wait, number = threading.Event(), 0
        try:
            while True:
                self._asked[number] = now()
                self._channel.send(Kind.RENEW, NUMBER.pack(number))
                number += 1
                wait.wait(self._lease.seconds / RENEWALS)
        finally:
            die()

    def receive(self) -> Assignment:
        """Wait for the next assignment; one for another environment is refused, and the next one waited for."""
        while True:
            body = self._next or self._orders.get()
            self._next = None
            try:
                order: Order | Question = pickle.loads(body)  # noqa: S301  # sealed by the device
                learner = order.learner if isinstance(order, Question) else order.assignment.learner
                if learner is not None:
                    self._environment = learner.environment
            except Exception as error:  # no fault of the samples: a module that this node does not have
                why = f"a node of the cluster cannot load the learner: {type(error).__name__}: {error}"
                self.send(Failed(PassingError(why)))
                continue
            if isinstance(order, Order) and order.environment == self._environment:
                return order.assignment
            self._channel.send(Kind.OTHER_ENVIRONMENT, self._environment.encode())

    def pending(self, seconds: float) -> bool:
        """Wait so long at most for an assignment, and return whether there is one."""
        if self._next is None:
            with contextlib.suppress(queue.Empty):
                self._next = self._orders.get(timeout=seconds)
        return self._next is not None

    def send(self, message: Message) -> None:
        """Send a message to the device."""
        self._channel.send(*encode(message))
