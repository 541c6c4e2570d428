"""How messages pass between processes: sub-models in memory without a name, the rest through the pipe.

A pipe hands over a few pages at a time and both ends wait for each other: a sub-model of 70 MB took 0.17 s of the
process that all workers share. Memory that only a file descriptor leads to is copied once at each end, leaves nothing
behind when a process is killed, and nobody waits.

What is sent is a copy. The pickler of `multiprocessing` would let both ends share the storage of tensors: what a worker
writes there would reach the others, and a worker that is killed would leave descriptors behind.
"""

import contextlib
import errno
import io
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

LARGE = 1 << 16
"""From so many bytes on, memory of its own pays."""
UNNAMED = hasattr(os, "memfd_create")
"""Linux has it; elsewhere everything goes through the pipe."""
ALONE, WITH_MEMORY = b"\0", b"\1"
"""The first byte of a message: whether memory follows it."""


def send(pipe: Connection, message: Any) -> None:
    """Send a message to whoever holds the other end."""
    pack(message).send(pipe)


@dataclass(frozen=True)
class Packed:
    """A message that is ready: whatever goes wrong from here on, the other end is gone."""

    body: io.BytesIO
    memory: int | None
    """A descriptor; whoever packed a message sends it, once."""

    def send(self, pipe: Connection) -> None:
        try:
            pipe.send_bytes(self.body.getbuffer())
            if self.memory is not None:
                with _socket(pipe) as end:
                    socket.send_fds(end, [WITH_MEMORY], [self.memory])
        finally:
            if self.memory is not None:
                os.close(self.memory)


def pack(message: Any) -> Packed:
    """Make a message ready. Nothing of it is sent before all of it is known to be fit for it."""
    if UNNAMED:
        body = io.BytesIO(WITH_MEMORY)
        packer = _Packer(body)
        packer.dump(message)
        if not packer.set_aside:
            body.getbuffer()[:1] = ALONE
            return Packed(body, None)
        with contextlib.suppress(OSError):  # no descriptor left, no memory of that kind, or not allowed here
            return Packed(body, _filled(packer.set_aside))
    body = io.BytesIO(ALONE)
    body.seek(1)
    pickle.Pickler(body, pickle.HIGHEST_PROTOCOL).dump(message)
    return Packed(body, None)


def receive(pipe: Connection) -> Any:
    """The next message. EOFError or OSError when the other end is gone, also in the middle of one."""
    body = io.BytesIO(pipe.recv_bytes())
    if body.read(1) == ALONE:
        return pickle.Unpickler(body).load()  # noqa: S301  # from a process of ours, as the class below
    with _Unnamed(_descriptor(pipe)) as memory:
        return _Unpacker(body, memory).load()


class _Packer(pickle.Pickler):
    """Sets large bytes aside, and leaves their sizes in the message."""

    def __init__(self, body: io.BytesIO) -> None:
        body.seek(1)
        super().__init__(body, pickle.HIGHEST_PROTOCOL)
        self.set_aside: list[bytes] = []

    def persistent_id(self, thing: Any) -> int | None:
        if type(thing) is not bytes or len(thing) < LARGE:
            return None
        self.set_aside.append(thing)
        return len(thing)


class _Unpacker(pickle.Unpickler):
    """Takes what was set aside from the memory, in the order in which it is met."""

    def __init__(self, body: io.BytesIO, memory: "_Unnamed") -> None:
        super().__init__(body)
        self._memory = memory

    def persistent_load(self, size: Any) -> bytes:
        return self._memory.read(size)


class _Unnamed:
    """Memory that lives as long as a process holds it open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0

    def __enter__(self) -> "_Unnamed":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, size: int) -> bytes:
        found = self._some(size)
        while len(found) < size:  # a single call gives 2 GB at most
            found += self._some(size - len(found))
        return found

    def _some(self, size: int) -> bytes:
        found = os.pread(self._descriptor, size, self._at)
        if not found:
            raise OSError("the memory of a message is shorter than it says")
        self._at += len(found)
        return found


def _filled(parts: Iterable[bytes]) -> int:
    """A descriptor of memory that holds these."""
    descriptor = os.memfd_create("cause", os.MFD_CLOEXEC)
    try:
        for part in parts:
            left = memoryview(part)
            while left:
                left = left[os.write(descriptor, left) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _descriptor(pipe: Connection) -> int:
    with _socket(pipe) as end:
        said, descriptors, _, _ = socket.recv_fds(end, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not said:
        raise EOFError
    if not descriptors:
        raise OSError(errno.EMFILE, "a part of a message did not arrive: too many open files")
    return descriptors[0]


@contextlib.contextmanager
def _socket(pipe: Connection) -> Iterator[socket.socket]:
    """The pipe as the socket that it is; no further descriptor is needed, of which there may be none left."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=pipe.fileno())
    try:
        end.settimeout(None)  # a default that somebody set would be the pipe's from now on
        yield end
    finally:
        end.detach()
