"""How messages pass between processes: sub-models in memory without a name, the rest through the pipe.

A pipe hands over a few pages at a time and both ends wait for each other: a sub-model of 70 MB took 0.17 s of the
process that all workers share. Memory that only a file descriptor leads to is copied once at each end, leaves nothing
behind when a process is killed, and nobody waits.
"""

import io
import os
import pickle
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

LARGE = 1 << 16
"""From so many bytes on, memory of its own pays."""
UNNAMED = hasattr(os, "memfd_create")
"""Linux has it; elsewhere everything goes through the pipe."""


def send(pipe: Connection, message: Any, pid: int | None = None) -> None:
    """Send a message to whoever holds the other end; some systems want to know its process."""
    packed = io.BytesIO()
    packer = _Packer(packed, pickle.HIGHEST_PROTOCOL)
    packer.dump(message)
    pipe.send_bytes(packed.getbuffer())
    for large in packer.set_aside:
        with _Unnamed(os.memfd_create("cause", os.MFD_CLOEXEC)) as memory:
            memory.write(large)
            reduction.send_handle(pipe, memory.descriptor, pid or 0)


def receive(pipe: Connection) -> Any:
    """The next message. EOFError or OSError when the other end is gone, also in the middle of one."""
    return _Unpacker(pipe, io.BytesIO(pipe.recv_bytes())).load()


class _Packer(reduction.ForkingPickler):
    """Sets large bytes aside, and leaves their number and size in the message."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.set_aside: list[bytes] = []

    def persistent_id(self, thing: Any) -> int | None:
        if not UNNAMED or type(thing) is not bytes or len(thing) < LARGE:
            return None
        self.set_aside.append(thing)
        return len(thing)


class _Unpacker(pickle.Unpickler):
    """Takes what was set aside from the pipe, in the order in which it is met."""

    def __init__(self, pipe: Connection, file: io.BytesIO) -> None:
        super().__init__(file)
        self._pipe = pipe

    def persistent_load(self, size: Any) -> bytes:
        try:
            descriptor = reduction.recv_handle(self._pipe)
        except RuntimeError as error:  # none came along: this process may have too many open
            raise OSError(f"a part of a message did not arrive: {error}") from None
        with _Unnamed(descriptor) as memory:
            return memory.read(size)


class _Unnamed:
    """Memory that lives as long as a process holds it open."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __enter__(self) -> "_Unnamed":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def read(self, size: int) -> bytes:
        found = os.pread(self.descriptor, size, 0)
        while len(found) < size:  # a single call gives 2 GB at most
            more = os.pread(self.descriptor, size - len(found), len(found))
            if not more:
                raise OSError("the memory of a message is shorter than it says")
            found += more
        return found
