"""The sealed connection: what arrives is what was sent, or an error."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from cause.executors.cluster.channel import SMALL, Channel, SealBroken, new_key
from cause.executors.cluster.pacing import LEAST_PART, MOST_PART, PARTS_AHEAD, Finished
from tests.waiting import wait_until

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


@pytest.fixture
def pair():
    """Return the channel of a device and that of its worker, connected to each other."""
    keys = new_key(), new_key()
    one, other = socket.socketpair()
    public = [key.public_key().public_bytes_raw() for key in keys]
    with (
        closing(Channel(one, keys[0], public[1], LEASE, is_device=True)) as device,
        closing(Channel(other, keys[1], public[0], LEASE, is_device=False)) as worker,
    ):
        yield device, worker


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as made:
        yield made


@pytest.mark.parametrize("size", [0, 1, 1_000, SMALL, SMALL + 1, 3 * MOST_PART])
def test_a_message_arrives_as_it_was_sent(pair, pool, size):
    device, worker = pair
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    sent, back = pool.submit(device.send, 7, body), pool.submit(device.receive)
    assert worker.receive() == (7, body)
    sent.result()
    worker.send(3, b"back")
    assert back.result() == (3, b"back")


def sending_large(pair, pool):
    """Let the device send a large message until it has to wait for a confirmation."""
    device, _ = pair
    sent = pool.submit(device.send, 7, bytes(100 * LEAST_PART))
    wait_until(lambda: len(device._pace._on_their_way) == PARTS_AHEAD)
    return sent


def test_small_messages_pass_between_the_parts_of_a_large_one(pair, pool):
    device, worker = pair
    sent = sending_large(pair, pool)
    device.send(8, b"renewed")
    back = pool.submit(device.receive)
    assert worker.receive() == (8, b"renewed")
    assert worker.receive() == (7, bytes(100 * LEAST_PART))
    sent.result()
    worker.send(3)
    back.result()


def test_after_the_last_message_no_part_is_sent(pair, pool):
    device, worker = pair
    sent = sending_large(pair, pool)
    device.finish(9)
    assert worker.receive() == (9, b"")
    for refused in (sent.result, lambda: device.send(8)):
        with pytest.raises(Finished):
            refused()
    device.shut()
    with pytest.raises(EOFError):
        worker.receive()


def test_a_sender_does_not_wait_for_a_confirmation_once_the_channel_is_shut(pair, pool):
    sent = sending_large(pair, pool)
    pair[0].shut()
    with pytest.raises(Finished):
        sent.result(10)


def test_what_arrived_of_a_message_is_not_handed_on(pair, pool):
    sent = sending_large(pair, pool)
    pair[0].shut()
    with pytest.raises(EOFError):
        pair[1].receive()
    assert sent.exception(10)


@pytest.mark.parametrize("order", ["twice", "swapped", "left out"])
def test_parts_cannot_be_repeated_swapped_or_left_out(ends, order):
    (device, worker), near, far = ends()
    device.send(7, bytes(3 * LEAST_PART))
    begin, part = 25, 25 + LEAST_PART + 16
    data = bytearray()
    while len(data) < begin + 3 * part:
        data += near.recv(begin + 3 * part)
    one, two, three = (bytes(data[begin + n * part :][:part]) for n in range(3))
    parts = {"twice": one + one + two, "swapped": two + one + three, "left out": one + three}[order]
    far.sendall(data[:begin] + parts)
    with pytest.raises(SealBroken):
        worker.receive()


PART, CONFIRMED = 254, 255
LARGE = 2 * LEAST_PART


@pytest.mark.parametrize(
    "frames",
    [
        [(PART, 10)],
        [(7, LARGE), (7, LARGE)],
        [(7, LARGE), (PART, 0)],
        [(7, LARGE), (PART, LARGE + 1)],
        [(7, LARGE), (PART, LARGE), (PART, 1)],
        [(7, 1 << 41)],
        [(CONFIRMED, 0)],
    ],
    ids=["no message", "two at once", "empty part", "too long", "after the end", "too large", "nothing to confirm"],
)
def test_parts_that_belong_to_no_message_are_refused(pair, pool, frames):
    """As a machine that was taken over might send them, which has the key."""
    device, worker = pair
    for kind, size in frames:
        pool.submit(device._send, kind, size, bytes(size) if kind == PART else b"")
    with pytest.raises(SealBroken):  # noqa: PT012
        worker.receive()
        worker.receive()


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
