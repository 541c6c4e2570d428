"""The sealed connection: what arrives is what was sent, or an error."""

import socket
import threading
from contextlib import closing

import pytest

from cause.executors.cluster.channel import CHUNK, Channel, SealBroken, new_key

LEASE = b"l" * 16


@pytest.fixture
def ends():
    """Make the channel of a device and that of its worker, and the two sockets between which messages pass."""
    opened = []

    def make(lease=LEASE, other_lease=LEASE):
        keys = new_key(), new_key()
        device, near = socket.socketpair()
        far, worker = socket.socketpair()
        opened.extend([device, near, far, worker])
        public = [key.public_key().public_bytes_raw() for key in keys]
        channels = (
            Channel(device, keys[0], public[1], lease, is_device=True),
            Channel(worker, keys[1], public[0], other_lease, is_device=False),
        )
        return channels, near, far

    yield make
    for each in opened:
        each.close()


@pytest.fixture(autouse=True)
def no_tcp(monkeypatch):
    """Pairs of sockets in tests are not TCP's, which has an option of its own."""
    monkeypatch.setattr(Channel, "set_options", staticmethod(lambda connection: None))


def passed(near, far, count, change=lambda data: data):
    """Pass so many bytes on, changed."""
    data = bytearray()
    while len(data) < count:
        data += near.recv(count - len(data))
    far.sendall(change(bytes(data)))


@pytest.mark.parametrize("size", [0, 1, 1_000, CHUNK, CHUNK + 1])
def test_a_message_arrives_as_it_was_sent(size):
    keys = new_key(), new_key()
    one, other = socket.socketpair()
    public = [key.public_key().public_bytes_raw() for key in keys]
    body = bytes(range(256)) * (size // 256 + 1)
    with (
        closing(Channel(one, keys[0], public[1], LEASE, is_device=True)) as device,
        closing(Channel(other, keys[1], public[0], LEASE, is_device=False)) as worker,
    ):
        sent = threading.Thread(target=device.send, args=(7, body[:size]))
        sent.start()
        assert worker.receive() == (7, body[:size])
        sent.join()
        worker.send(3, b"back")
        assert device.receive() == (3, b"back")


def test_nothing_of_a_message_can_be_read_on_the_way(ends):
    (device, _), near, _ = ends()
    device.send(7, b"a sample of somebody" * 10)
    assert b"sample" not in near.recv(10_000)


@pytest.mark.parametrize("at", [0, 5, 24, 25, 40, -1])
def test_a_changed_byte_is_an_error(ends, at):
    (device, worker), near, far = ends()

    def change(data):
        changed = bytearray(data)
        changed[at] ^= 1
        return bytes(changed)

    device.send(7, b"x" * 100)
    passed(near, far, 9 + 16 + 100 + 16, change)
    with pytest.raises(SealBroken):
        worker.receive()


@pytest.mark.parametrize("order", ["twice", "swapped", "left out"])
def test_messages_cannot_be_repeated_swapped_or_left_out(ends, order):
    (device, worker), near, far = ends()
    device.send(1)
    first = near.recv(100)
    device.send(2)
    second = near.recv(100)
    far.sendall({"twice": first + first, "swapped": second + first, "left out": second}[order])
    with pytest.raises(SealBroken):
        [worker.receive() for _ in range(2)]


def test_the_two_directions_have_keys_of_their_own(ends):
    (device, _), near, _ = ends()
    device.send(1)
    near.sendall(near.recv(100))
    with pytest.raises(SealBroken):
        device.receive()


def test_both_ends_must_name_the_same_lease(ends):
    (device, worker), near, far = ends(LEASE, b"m" * 16)
    device.send(1)
    passed(near, far, 25)
    with pytest.raises(SealBroken):
        worker.receive()
