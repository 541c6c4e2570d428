"""Whoever looks at a device while another thread changes it sees one moment of it."""

import threading

import pytest

from cause.errors import ChangedError
from cause.home.status import status, waiting
from cause.learners import CountingLearner
from cause.requests import Request
from cause.samples import Part, TraceUpload
from cause.system import Cause
from cause.verify import verify
from tests.home.homes import learn, opened, samples

LOOKS = {
    "chains": lambda device: device.chains(),
    "heads": lambda device: device.heads(),
    "plan": lambda device: device.plan(Request("a")),
    "predict": lambda device: device.predict(samples("x", 1, 2)[0]),
    "status": status,
    "verify": lambda device: device.verify(0, processes=0),
    "voters": lambda device: device.voters(),
    "waiting": lambda device: device.waiting(),
    "what waits": waiting,
}


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home", system="frugal:partition=hash") as device:
        for _ in range(2):
            learn(device, a=20, b=20, c=20, d=20)
        device.forget("a", rounds=[1], count=1)
        yield device


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_whoever_looks_waits_while_something_is_changed(device, look):
    seen = threading.Event()
    with device.state:
        reader = threading.Thread(target=lambda: (look(device), seen.set()))
        reader.start()
        assert not seen.wait(0.2)
    assert seen.wait(20)
    reader.join()


def test_what_is_evicted_while_it_is_read_is_not_missed():
    device = Cause(learner=CountingLearner(), system="sisa", shards=1, slots=1)
    device.learn([TraceUpload("a", 1, (Part(10),))])
    get, learning = device.memory.shelf.get, []

    def meanwhile(key):
        if not learning:
            upload = TraceUpload("a", 2, (Part(10),))
            learning.append(threading.Thread(target=device.learn, args=([upload],)))
            learning[0].start()
            learning[0].join(0.5)  # it goes on as soon as it is let
        return get(key)

    device.memory.shelf.get = meanwhile
    (chain,) = device.chains()
    learning[0].join()
    assert [stored for _, _, stored in chain.lessons] == [("counting", b"10")]
    assert len(verify(device, processes=0).identical) == 1


def test_what_was_evicted_since_it_was_seen_is_left_out(device):
    shard = device.ledger.placement("b")
    newest = device.memory.stored_of(shard)[-1]
    get = device.memory.shelf.get

    def meanwhile(key):
        if key.shard == shard and newest in device.memory and key != newest:
            device.memory.discard(newest)
        return get(key)

    device.memory.shelf.get = meanwhile
    (chain,) = device.chains([shard])
    assert [stored is None for _, _, stored in chain.lessons] == [False, True]


def test_a_replay_of_what_is_forgotten_meanwhile_tells_of_no_mismatch(device):
    first, last = sorted({device.ledger.placement(user) for user in "abcd"})
    user = next(user for user in "abcd" if device.ledger.placement(user) == last)

    def forget(done, _):
        if done == 1:
            device.forget(user, rounds=[1], count=3, repair="later")

    with pytest.raises(ChangedError, match=f"shard {last} was forgotten"):
        verify(device, processes=0, progress=forget)
    assert verify(device, processes=0).mismatched == []
    assert verify(device, shards=[first], processes=0).identical
