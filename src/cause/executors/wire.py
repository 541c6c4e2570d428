"""Messages between processes: large bytes go through anonymous memory, the rest through the pipe.

A pipe passes a few pages at a time while both ends wait for each other: a sub-model of 70 MB took 0.17 s of the
process that all workers share. Anonymous memory (`memfd`) is copied once at each end, without waiting, and leaves
nothing behind when a process is killed.

Every message is a copy. The pickler of `multiprocessing` would let both ends share the storage of tensors: a worker's
writes would reach the others, and a killed worker would leave descriptors behind.
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
"""Bytes objects of at least this size go through anonymous memory."""
HAS_MEMFD = hasattr(os, "memfd_create")
"""True on Linux; elsewhere everything goes through the pipe."""
ALONE, WITH_MEMORY = b"\0", b"\1"
"""The first byte of a message: whether a descriptor of anonymous memory follows it."""


def send(pipe: Connection, message: Any) -> None:
    """Send a message through the pipe; an `OSError` if the other end is closed."""
    pack(message).send(pipe)


@dataclass(frozen=True)
class Packed:
    """A message that is ready to be sent: if sending fails, the other end is closed."""

    body: io.BytesIO
    memory: int | None
    """A descriptor of anonymous memory, which `send` closes."""

    def send(self, pipe: Connection) -> None:
        """Send the message, once; an `OSError` if the other end is closed."""
        try:
            pipe.send_bytes(self.body.getbuffer())
            if self.memory is not None:
                with _socket(pipe) as end:
                    socket.send_fds(end, [WITH_MEMORY], [self.memory])
        finally:
            if self.memory is not None:
                os.close(self.memory)


def pack(message: Any) -> Packed:
    """Pickle a message completely before any of it is sent; raise whatever pickling raises."""
    if HAS_MEMFD:
        body = io.BytesIO(WITH_MEMORY)
        packer = _Packer(body)
        packer.dump(message)
        if not packer.set_aside:
            body.getbuffer()[:1] = ALONE
            return Packed(body, None)
        with contextlib.suppress(OSError):  # no descriptor left, no memory of that kind, or not allowed here
            return Packed(body, _memory_with(packer.set_aside))
    body = io.BytesIO(ALONE)
    body.seek(1)
    pickle.Pickler(body, pickle.HIGHEST_PROTOCOL).dump(message)
    return Packed(body, None)


def receive(pipe: Connection) -> Any:
    """Return the next message; raise `EOFError` or `OSError` if the other end is closed, also within a message."""
    body = io.BytesIO(pipe.recv_bytes())
    if body.read(1) == ALONE:
        return pickle.Unpickler(body).load()  # noqa: S301  # from a process of ours, as the class below
    with _Memory(_receive_descriptor(pipe)) as memory:
        return _Unpacker(body, memory).load()


class _Packer(pickle.Pickler):
    """Collects large bytes objects in `set_aside`, and writes only their sizes into the message."""

    def __init__(self, body: io.BytesIO) -> None:
        body.seek(1)
        super().__init__(body, pickle.HIGHEST_PROTOCOL)
        self.set_aside: list[bytes] = []

    def persistent_id(self, value: Any) -> int | None:
        """Return the size of large bytes, which are set aside; None for everything else."""
        if type(value) is not bytes or len(value) < LARGE:
            return None
        self.set_aside.append(value)
        return len(value)


class _Unpacker(pickle.Unpickler):
    """Reads the large bytes objects from the memory, in their order in the message."""

    def __init__(self, body: io.BytesIO, memory: "_Memory") -> None:
        super().__init__(body)
        self._memory = memory

    def persistent_load(self, size: Any) -> bytes:
        """Return the next bytes object of the memory."""
        return self._memory.read(size)


class _Memory:
    """Anonymous memory, read from its start; it is freed when the last process closes it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0

    def __enter__(self) -> "_Memory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; an `OSError` if there are fewer."""
        data = self._read_some(size)
        while len(data) < size:  # a single call reads 2 GB at most
            data += self._read_some(size - len(data))
        return data

    def _read_some(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._at)
        if not data:
            raise OSError("the memory of a message is shorter than it says")
        self._at += len(data)
        return data


def _memory_with(parts: Iterable[bytes]) -> int:
    """Return the descriptor of anonymous memory that holds these bytes."""
    descriptor = os.memfd_create("cause", os.MFD_CLOEXEC)
    try:
        for part in parts:
            unwritten = memoryview(part)
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _receive_descriptor(pipe: Connection) -> int:
    with _socket(pipe) as end:
        mark, descriptors, _, _ = socket.recv_fds(end, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not mark:
        raise EOFError
    if not descriptors:
        raise OSError(errno.EMFILE, "a part of a message did not arrive: too many open files")
    return descriptors[0]


@contextlib.contextmanager
def _socket(pipe: Connection) -> Iterator[socket.socket]:
    """Use the pipe as a socket, without another descriptor: there may be none left."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=pipe.fileno())
    try:
        end.settimeout(None)  # or the program's default timeout would apply to the pipe
        yield end
    finally:
        end.detach()
