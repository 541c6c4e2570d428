"""What passes between processes."""

import multiprocessing
import os
import resource
from contextlib import closing
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

from cause.executors import wire
from cause.executors.worker import Epoch, Trained

ABOVE = os.urandom(3 * wire.LARGE + 1)
linux = pytest.mark.skipif(not wire.UNNAMED, reason="memory without a name is Linux's")


@pytest.fixture
def ends():
    ours, theirs = multiprocessing.Pipe()
    with closing(ours), closing(theirs):
        yield ours, theirs


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("message", [Epoch(1, 2), Trained(b"few"), (b"", {"a": [ABOVE, b"few", ABOVE[::-1]]})])
@pytest.mark.parametrize("unnamed", [pytest.param(True, marks=linux), False])
def test_what_arrives_is_what_was_sent(ends, message, unnamed, monkeypatch):
    monkeypatch.setattr(wire, "UNNAMED", unnamed)
    if not unnamed:
        monkeypatch.setattr(os, "memfd_create", None, raising=False)  # it is not asked for
    ours, theirs = ends
    if unnamed or len(repr(message)) < 100:
        wire.send(ours, message)
        assert wire.receive(theirs) == message
    else:  # a pipe takes it only while somebody reads
        with ThreadPool(1) as pool:
            sent = pool.apply_async(wire.send, (ours, message))
            assert wire.receive(theirs) == message
            sent.get()


def test_messages_arrive_in_their_order_and_arrays_with_them(ends):
    ours, theirs = ends
    x = np.arange(12).reshape(3, 4)
    wire.send(ours, (x, b"1"))
    wire.send(ours, Trained(b"2"))
    first, second = wire.receive(theirs), wire.receive(theirs)
    np.testing.assert_array_equal(first[0], x)
    assert (first[1], second) == (b"1", Trained(b"2"))


@linux
def test_nobody_waits_for_the_reader_of_a_sub_model_and_nothing_stays_open(ends):
    ours, theirs = ends
    before = open_files()
    sent = [Trained(bytes([number]) * (1 << 22)) for number in range(3)]
    for message in sent:
        wire.send(ours, message)  # far more than a pipe holds
    assert [wire.receive(theirs) for _ in sent] == sent
    assert open_files() == before


@linux
def test_a_sender_that_dies_in_the_middle_of_a_message_is_heard(ends, monkeypatch):
    ours, theirs = ends
    monkeypatch.setattr(wire.reduction, "send_handle", lambda *_: None)
    wire.send(ours, Trained(ABOVE))
    ours.close()
    with pytest.raises((EOFError, OSError)):
        wire.receive(theirs)


@linux
def test_a_process_with_too_many_open_files_says_so(ends):
    ours, theirs = ends
    wire.send(ours, Trained(ABOVE))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(0)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))  # one more: recv_handle's own
    try:
        with pytest.raises(OSError, match=r"did not arrive|Too many open files"):
            wire.receive(theirs)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
