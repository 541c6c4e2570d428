"""The device's end of one worker on another machine."""

import contextlib
import os
import pickle
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Protocol

from cause.engine.learner import Learner
from cause.executors import wire
from cause.executors.cluster.channel import Channel, new_key
from cause.executors.cluster.lease import longest_life
from cause.executors.cluster.listener import LEASE_BYTES, Listener
from cause.executors.cluster.messages import NUMBER, Kind, Order, Question, decode
from cause.executors.cluster.pacing import Finished
from cause.executors.worker import Assignment, Failed

START_S = 60.0
"""How long a worker that runs may take to connect: it imports a learning library."""


class Actor(Protocol):
    """What a remote process needs of Ray: how to start, reach and remove the worker's actor."""

    def start(self, host: str, port: int, device_key: bytes, lease: bytes, seconds: float) -> None:
        """Ask Ray for the actor; it may have to wait for room."""

    def public_key(self) -> bytes:
        """Wait until the actor runs, and return its public key; any error if it ended before."""

    def run(self) -> None:
        """Let the actor connect to the device."""

    def remove(self) -> None:
        """Tell Ray that the actor is not needed any more."""


class RemoteProcess:
    """A worker process on a machine of the cluster, as the pool sees it: a pipe, and a way to end it for certain.

    `join` returns once the worker has confirmed that it ends and its connection is closed, or once its lease has run
    out by the device's clock. A broken connection alone says nothing: the worker may be cut off and go on.

    Parameters
    ----------
    actor
        The Ray actor to start.
    listener
        Where the worker connects.
    seconds
        The time of a lease.
    other_environment
        Called with the environment of a worker that refuses to train because it is another one.
    dumps
        Pickles assignments. Ray's own also sends classes that the device's script defines.
    """

    def __init__(
        self,
        actor: Actor,
        listener: Listener,
        seconds: float,
        other_environment: Callable[[str], None],
        dumps: Callable[[Order | Question], bytes] = pickle.dumps,
    ) -> None:
        self.exitcode: int | None = None
        self.failure = ""
        """Why the worker did not start, in one line; empty if it did, or if nobody knows."""
        self.environment = ""  # of the device: of tasks that name no other
        self._actor, self._listener, self._seconds = actor, listener, seconds
        self._other_environment, self._dumps = other_environment, dumps
        self._lease = secrets.token_bytes(LEASE_BYTES)
        self._lock = threading.Lock()
        self._revoked = False
        self._ended = threading.Event()  # the worker's memory is gone
        self._answered_at: float | None = None  # until then plus the lease a worker may live
        self._channel: Channel | None = None
        self._answer: Future[str] | None = None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.pipe, self._inner = Pipe()
        self.sentinel, self._alive = os.pipe()
        self._expected = listener.expect(self._lease)
        threading.Thread(target=self._live, daemon=True, name="cause-cluster-worker").start()

    def _live(self) -> None:
        """Start the worker, hand its messages on, and find out when it has ended."""
        goodbye = False
        try:
            self._connect()
            goodbye = self._listen()
        except Exception as error:  # Ray, the network or the worker: whatever it was, the worker is lost
            if self._channel is None:
                self.failure = _line_of(error)
        finally:
            with self._lock:
                self._revoked = True
            self._listener.give_up(self._lease)
            outbox, self._outbox = self._outbox, queue.SimpleQueue()  # samples that were not sent yet
            with contextlib.suppress(queue.Empty):
                while True:
                    outbox.get_nowait()
            outbox.put(None)  # ends the thread that sends
            self._close_pipe()
            if self._channel is not None:
                self._channel.shut()  # a thread that is still sending samples stops
            if self._answer is not None:
                self._answer.cancel()
            if not goodbye:
                self._wait_for_lease()
            if self._channel is not None:
                self._channel.close()
            self._conclude()
            with contextlib.suppress(Exception):
                self._actor.remove()  # last: nobody waits for Ray, which may take long about a node that died

    def _conclude(self) -> None:
        """Let everybody see that the worker's memory is gone.

        The sentinel becomes readable before `join` returns: the pool then replaces its pipe by the sentinel, and a
        thread that waits for the pipe at that moment would not wake up for what happens to the sentinel later.
        """
        with self._lock:
            if not self._ended.is_set():
                self._inner.close()
                os.close(self._alive)
                self._ended.set()

    def _close_pipe(self) -> None:
        """Let the pool try the segment on another worker."""
        with self._lock:
            self._inner.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.sentinel)

    def _connect(self) -> None:
        key = new_key()
        self._actor.start(
            self._listener.host, self._listener.port, key.public_key().public_bytes_raw(), self._lease, self._seconds
        )
        worker_key = self._actor.public_key()
        self._actor.run()
        connection = self._expected.result(self._seconds + START_S)
        _wait_no_longer(connection, longest_life(self._seconds))
        channel = Channel(connection, key, worker_key, self._lease, is_device=True)
        with self._lock:
            # its lease began before it connected, and it has no samples yet
            self._channel, self._answered_at = channel, time.monotonic()
            if self._revoked:
                channel.shut()
                raise ConnectionAbortedError
        threading.Thread(target=self._forward, args=(channel,), daemon=True).start()

    def _listen(self) -> bool:
        """Hand messages on until the connection ends; return whether the worker confirmed that it ends."""
        assert self._channel is not None
        goodbye = False
        try:
            while True:
                goodbye = self._handle(*self._channel.receive()) or goodbye  # no name here keeps a sub-model alive
        except EOFError:
            return goodbye
        except ConnectionResetError:  # the kernel of a killed process does not wait for unread messages
            return goodbye

    def _handle(self, kind: int, body: bytearray) -> bool:
        """Handle one message; return whether the worker confirmed that it ends."""
        if kind == Kind.RENEW:
            self._renew(body)
        elif kind == Kind.OTHER_ENVIRONMENT and not self._revoked:
            environment, answer = bytes(body).decode(errors="replace"), self._take_question()
            if answer is not None:
                answer.set_result(environment)
            else:
                self._other_environment(environment)
                self.kill()
        elif kind == Kind.FAILED and self._answer is not None:
            failed, answer = decode(kind, body), self._take_question()
            assert answer is not None
            assert isinstance(failed, Failed)
            answer.set_exception(failed.error)
        elif kind != Kind.GOODBYE and not self._revoked:  # else: a result of work that is no longer current
            wire.send(self._inner, decode(kind, body))
        return kind == Kind.GOODBYE

    def _take_question(self) -> "Future[str] | None":
        answer, self._answer = self._answer, None
        return answer

    def _renew(self, question: bytes | bytearray) -> None:
        """Answer a worker's question, unless its lease was revoked. The time is noted before the answer leaves."""
        with self._lock:
            if self._revoked or len(question) != NUMBER.size:
                return
            self._answered_at = time.monotonic()
        assert self._channel is not None
        with contextlib.suppress(Finished):  # the worker was told to end meanwhile
            self._channel.send(Kind.RENEWED, bytes(question))

    def _forward(self, channel: Channel) -> None:
        """Send assignments, one after the other; a worker that does not read delays nobody else."""
        outbox = self._outbox
        try:
            while self._send_next(channel, outbox):
                pass
        except Finished:
            pass  # the worker was told to end, and confirms it: the connection stays open until then
        except OSError:
            channel.shut()  # a message was cut off in the middle: nothing can follow it

    @staticmethod
    def _send_next(channel: Channel, outbox: "queue.SimpleQueue[bytes | None]") -> bool:
        """Send the next assignment, and keep no reference to its samples; return False at the end."""
        body = outbox.get()
        if body is None:
            return False
        channel.send(Kind.ASSIGNMENT, body)
        return True

    def _wait_for_lease(self) -> None:
        with self._lock:
            answered_at = self._answered_at
        if answered_at is not None:
            time.sleep(max(0.0, answered_at + longest_life(self._seconds) - time.monotonic()))

    def pack(self, assignment: Assignment) -> "PackedOrder":
        """Pickle an assignment; raise whatever pickling raises."""
        return PackedOrder(self, self._dumps(Order(assignment, assignment.task.environment or self.environment)))

    def ask_environment(self, learner: Learner) -> "Future[str]":
        """Ask the worker which environment it has for a learner, before it is sent an assignment.

        Returns
        -------
        Future
            The environment; cancelled if the worker ends before it has answered.
        """
        answer = self._answer = Future[str]()
        try:
            self.post(self._dumps(Question(learner)))
        except BrokenPipeError:
            answer.cancel()
        return answer

    def post(self, body: bytes) -> None:
        """Send a packed assignment; a `BrokenPipeError` if the worker has ended or was ended."""
        with self._lock:
            if self._revoked:
                raise BrokenPipeError("the worker has ended")
            self._outbox.put(body)

    def kill(self) -> None:
        """Revoke the lease and tell the worker to end, without waiting."""
        with self._lock:
            first, self._revoked = not self._revoked, True
            channel = self._channel
        if not first:
            return
        threading.Thread(target=self._end, args=(channel,), daemon=True).start()

    def _end(self, channel: Channel | None) -> None:
        """Tell the worker to end; cut the connection if it does not within a second."""
        if channel is None:
            self._conclude()  # it has no samples, and will be sent none
            self._expected.cancel()
            with contextlib.suppress(Exception):
                self._actor.remove()  # it may wait for room, or be about to connect
            return
        said = threading.Thread(target=self._say_end, args=(channel,), daemon=True)
        said.start()
        if not self._ended.wait(1.0):
            channel.shut()

    @staticmethod
    def _say_end(channel: Channel) -> None:
        with contextlib.suppress(OSError):
            channel.finish(Kind.END)  # the rest of the samples that are being sent stays here

    @property
    def has_ended(self) -> bool:
        """Whether the worker's memory is gone."""
        return self._ended.is_set()

    def join(self) -> None:
        """Wait until the worker's memory is gone: it said so, or its lease has run out."""
        self._ended.wait()


def _wait_no_longer(connection: socket.socket, seconds: float) -> None:
    """Let receiving and sending fail after so long without a byte.

    A worker asks for renewals all the time. One that is silent, or takes nothing, for longer than its lease has ended,
    also if its machine or the network vanished, so that nothing ever ends the connection.
    """
    whole = int(seconds)
    limit = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
    for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, direction, limit)


def _line_of(error: Exception) -> str:
    """Return an error in one line of at most 200 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__


class PackedOrder:
    """An assignment that is ready to be sent."""

    def __init__(self, process: RemoteProcess, body: bytes) -> None:
        self._process, self._body = process, body

    def send(self, pipe: Connection) -> None:
        """Send the assignment; an `OSError` if the worker has ended."""
        self._process.post(self._body)
