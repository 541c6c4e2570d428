"""A reader sees a consistent state of a device while another thread changes it."""

import threading

import pytest

from cause.device.device import Cause
from cause.device.status import status, waiting
from cause.device.verify import verify
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.errors import ChangedError, HomeError
from cause.learners import CountingLearner
from tests.device.homes import bayes, learn, opened, samples

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
def test_a_read_waits_while_something_is_changed(device, look):
    seen = threading.Event()
    with device.lock:
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
    assert [stored is None for _, _, stored in chain.lessons] == [False]  # nothing is stored after it


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


@pytest.fixture
def beside(device, tmp_path):
    """The same device for reading, as another process would have it."""
    with Cause(tmp_path / "home", learner=bayes(), read_only=True) as reader:
        yield reader


@pytest.mark.parametrize("processes", [0, 1])
def test_a_readers_verification_says_so_when_samples_are_forgotten_meanwhile(device, beside, processes):
    assert len(beside.ledger.shards()) == 2
    read, forgotten = beside.home.store.blocks.files.read, []

    def meanwhile(name):
        if not forgotten:
            forgotten.append(True)
            for user in "bcd":
                device.forget(user)
        return read(name)

    beside.home.store.blocks.files.read = meanwhile
    beside.home.store.blocks._metas.clear()
    with pytest.raises(ChangedError, match="verify again"):
        beside.verify(processes=processes)
    assert beside.verify(processes=processes).identical == device.memory.stored()


def test_a_reader_that_was_idle_verifies_what_is_there_now(device, beside):
    device.forget("b")
    learn(device, c=20)
    assert beside.verify(processes=0).identical == device.memory.stored()


def test_a_reader_does_not_miss_what_is_evicted_while_it_verifies(device, beside):
    """A round of another process evicts sub-models; the retained samples do not change."""
    get, learned = beside.memory.shelf.get, []

    def meanwhile(key):
        while len(learned) < 12:
            learned.append(learn(device, a=200, b=200, c=200, d=200))
        return get(key)

    beside.memory.shelf.get = meanwhile
    before = set(device.memory.stored())
    verification = beside.verify(processes=0)
    assert before - set(device.memory.stored()), "something was evicted"
    assert verification.holds
    assert verification.identical


def test_a_readers_verification_names_what_is_damaged(device, beside, tmp_path):
    (name, *_) = sorted((tmp_path / "home" / "blocks").iterdir())
    name.unlink()
    with pytest.raises(HomeError, match="No such file"):
        beside.verify(processes=0)
