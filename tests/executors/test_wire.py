"""Messages between processes arrive unchanged and leave no descriptor open."""

import gc
import multiprocessing
import os
import resource
import socket
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from pickle import PicklingError
from threading import Thread

import numpy as np
import pytest
import torch

from cause.executors import wire
from cause.executors.worker import Epoch, Trained

ABOVE = os.urandom(3 * wire.LARGE + 1)
EDGES = [Trained(bytes(size)) for size in (0, wire.LARGE - 1, wire.LARGE, wire.LARGE + 1)]
linux = pytest.mark.skipif(not wire.HAS_MEMFD, reason="memory without a name is Linux's")


@pytest.fixture
def ends():
    ours, theirs = multiprocessing.Pipe()
    with closing(ours), closing(theirs):
        yield ours, theirs


def open_files() -> set[tuple[str, str]]:
    """Descriptors and what they refer to. What earlier tests left may be closed at any time, so compare with `<=`."""
    gc.collect()
    files = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this listing
            files.add((descriptor.name, str(descriptor.readlink())))
    return files


@contextmanager
def limited(what: int, most: int):
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def no_more_files(spare: int = 0):
    """So many descriptors are left."""
    free = os.dup(0)
    os.close(free)
    return limited(resource.RLIMIT_NOFILE, free + spare)


@pytest.mark.parametrize(
    "message", [Epoch(1, 2), Trained(b"few"), (b"", {"a": [ABOVE, b"few", ABOVE[::-1]]}), *EDGES], ids=lambda _: ""
)
@pytest.mark.parametrize("unnamed", [pytest.param(True, marks=linux), False])
def test_what_arrives_is_what_was_sent(ends, message, unnamed, monkeypatch):
    monkeypatch.setattr(wire, "HAS_MEMFD", unnamed)
    if not unnamed:
        monkeypatch.setattr(os, "memfd_create", None, raising=False)  # it must not be called
    ours, theirs = ends
    if unnamed or len(repr(message)) < 100:
        wire.send(ours, message)
        assert wire.receive(theirs) == message
    else:
        sent_through_the_pipe(ours, theirs, message)


def test_messages_arrive_in_their_order_and_arrays_with_them(ends):
    ours, theirs = ends
    x = np.arange(12).reshape(3, 4)
    wire.send(ours, (x, b"1"))
    wire.send(ours, Trained(b"2"))
    first, second = wire.receive(theirs), wire.receive(theirs)
    np.testing.assert_array_equal(first[0], x)
    assert (first[1], second) == (b"1", Trained(b"2"))


@linux
def test_sending_a_sub_model_does_not_wait_for_its_reader_and_leaves_nothing_open(ends):
    ours, theirs = ends
    before = open_files()
    sent = [Trained(bytes([number]) * (1 << 22)) for number in range(3)]
    for message in sent:
        wire.send(ours, message)  # far more than a pipe holds
    assert [wire.receive(theirs) for _ in sent] == sent
    assert open_files() <= before


@linux
def test_a_sender_that_dies_in_the_middle_of_a_message_is_heard(ends):
    ours, theirs = ends
    packed = wire.pack(Trained(ABOVE))
    ours.send_bytes(packed.body.getbuffer())
    ours.close()
    os.close(packed.memory)
    with pytest.raises((EOFError, OSError)):
        wire.receive(theirs)


@linux
def test_a_reader_with_too_many_open_files_says_so(ends):
    ours, theirs = ends
    wire.send(ours, Trained(ABOVE))
    with no_more_files(), pytest.raises(OSError, match="did not arrive"):
        wire.receive(theirs)


@linux
def test_one_descriptor_is_enough_for_any_number_of_large_parts(ends):
    ours, theirs = ends
    sent = [bytes([number]) * wire.LARGE for number in range(50)]
    with no_more_files(spare=1):
        wire.send(ours, sent)
        assert wire.receive(theirs) == sent


def sent_through_the_pipe(ours, theirs, message) -> None:
    def send() -> None:
        try:
            wire.send(ours, message)
        except BaseException:
            ours.close()  # nobody waits for the rest
            raise

    sending = Thread(target=send)  # the pipe is full until the other end reads
    sending.start()
    assert wire.receive(theirs) == message
    sending.join()


@linux
@pytest.mark.parametrize("short_of", ["descriptors", "memory"])
def test_without_memory_for_it_a_message_goes_through_the_pipe(ends, short_of):
    ours, theirs = ends
    before = open_files()
    with no_more_files() if short_of == "descriptors" else limited(resource.RLIMIT_FSIZE, wire.LARGE):
        sent_through_the_pipe(ours, theirs, (ABOVE, ABOVE))
    assert open_files() <= before


@linux
def test_of_what_cannot_be_packed_nothing_is_sent(ends):
    ours, theirs = ends
    before = open_files()
    with pytest.raises((AttributeError, TypeError, PicklingError)):
        wire.send(ours, (ABOVE, lambda: None))
    assert not theirs.poll()
    assert open_files() <= before
    wire.send(ours, Trained(ABOVE))
    assert wire.receive(theirs) == Trained(ABOVE)


class OnlyHere(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("made of two, known by one")


@linux
def test_what_cannot_be_read_does_not_get_into_the_next_message(ends):
    ours, theirs = ends
    before = open_files()
    wire.send(ours, (OnlyHere(1, 2), ABOVE))
    wire.send(ours, Trained(ABOVE))
    with pytest.raises(TypeError):
        wire.receive(theirs)
    assert wire.receive(theirs) == Trained(ABOVE)
    assert open_files() <= before


@linux
def test_a_time_limit_for_sockets_does_not_become_the_pipe_s(ends):
    ours, theirs = ends
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(60)
    try:
        wire.send(ours, Trained(ABOVE))
        assert wire.receive(theirs) == Trained(ABOVE)
    finally:
        socket.setdefaulttimeout(before)
    assert os.get_blocking(ours.fileno())
    assert os.get_blocking(theirs.fileno())


@linux
def test_tensors_arrive_as_copies_however_many_and_leave_nothing_open_when_nobody_reads_them(ends):
    ours, theirs = ends
    sent = [torch.full((wire.LARGE,), float(number)) for number in range(40)]
    before = open_files()
    with no_more_files(spare=8):  # torch imports what it reads with
        wire.send(ours, sent)
        arrived = wire.receive(theirs)
        wire.send(ours, sent)
    assert all(torch.equal(one, other) for one, other in zip(sent, arrived, strict=True))
    arrived[0] += 1
    assert not sent[0].any()
    assert not any(tensor.is_shared() for tensor in sent)
    assert open_files() <= before
