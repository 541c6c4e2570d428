"""Which samples a request means, and which requests are refused with nothing changed."""

import pytest

from cause.device.device import Cause
from cause.engine.presets import FIXED, System
from cause.engine.requests import Request, resolve
from cause.engine.samples import Part, TraceUpload
from cause.errors import InputError, RequestError
from tests.small_learners import RememberingLearner


@pytest.fixture
def device():
    device = Cause(learner=RememberingLearner(), system=System(gamma=FIXED), shards=2, slots=8)
    device.learn([TraceUpload("a", 1, (Part(5),)), TraceUpload("b", 1, (Part(3),))])
    device.learn([TraceUpload("a", 2, (Part(4),))])
    return device


def chosen(device, *requests):
    return [{where: [int(p) for p in held] for where, held in s.items()} for s in resolve(device.ledger, requests)]


def test_everything_of_a_user(device):
    assert chosen(device, Request("a")) == [{("a", 1): [0, 1, 2, 3, 4], ("a", 2): [0, 1, 2, 3]}]


def test_some_rounds(device):
    assert chosen(device, Request("a", rounds=(2,))) == [{("a", 2): [0, 1, 2, 3]}]


def test_a_count_takes_the_lowest_still_retained(device):
    device.forget("a", samples=[(1, 0), (1, 2)])
    assert chosen(device, Request("a", rounds=(1,), count=2)) == [{("a", 1): [1, 3]}]


def test_named_samples(device):
    assert chosen(device, Request("a", samples=((1, 4), (2, 0), (1, 1)))) == [{("a", 1): [1, 4], ("a", 2): [0]}]


def test_each_request_sees_what_those_before_it_take(device):
    two = Request("a", rounds=(1,), count=2)
    assert chosen(device, two, two) == [{("a", 1): [0, 1]}, {("a", 1): [2, 3]}]


REFUSED = [
    ([Request("zed")], "unknown user 'zed'"),
    ([Request("a", rounds=(3,))], "nothing retained of round 3"),
    ([Request("a", rounds=(1, 3))], "nothing retained of round 3"),
    ([Request("a", rounds=(1,), count=6)], "has 5 samples of round 1, not 6"),
    ([Request("a", samples=((1, 5),))], "no retained sample 5 of round 1"),
    ([Request("a", samples=((1, -1),))], "no retained sample -1 of round 1"),
    ([Request("b"), Request("b")], "nothing of user 'b' is left"),
    ([Request("b"), Request("b", rounds=(1,), count=1)], "nothing retained of round 1"),
    ([Request("a", rounds=(1,), count=4), Request("a", rounds=(1,), count=2)], "has 1 samples of round 1, not 2"),
    ([], "no request was made"),
]


@pytest.mark.parametrize(("requests", "message"), REFUSED)
def test_refused_with_nothing_changed(device, requests, message):
    before = [device.memory[key] for key in device.memory.stored()]
    with pytest.raises(RequestError, match=message):
        device.serve(requests)
    assert [device.memory[key] for key in device.memory.stored()] == before
    assert device.ledger.lineage(0).samples + device.ledger.lineage(1).samples == 12


@pytest.mark.parametrize(
    "nonsense",
    [
        {"rounds": ()},
        {"samples": ()},
        {"rounds": (1,), "count": 0},
        {"rounds": (1,), "count": -2},
        {"count": 3},
        {"rounds": (1, 2), "count": 3},
        {"rounds": (1,), "samples": ((1, 0),)},
        {"samples": ((1, 1.7),)},
        {"samples": ((1, 2**70),)},
        {"rounds": (1,), "count": 1.5},
        {"rounds": (True,)},
    ],
)
def test_a_request_for_nothing_or_for_two_things_is_refused(nonsense):
    with pytest.raises(RequestError):
        Request("a", **nonsense)


def test_forgetting_the_same_again_is_refused_not_reported_as_done(device):
    device.forget("b")
    with pytest.raises(RequestError, match="unknown user 'b'"):
        device.forget("b")


def test_a_plan_changes_nothing(device):
    before = device.memory.stored()
    (shard,) = device.plan(Request("a", rounds=(1,), count=2))
    assert (shard.rsn, shard.floor, shard.forgotten, shard.restart) == (7, 7, 2, None)
    assert device.memory.stored() == before
    assert device.forget("a", rounds=[1], count=2)[0].rsn == 7


@pytest.mark.parametrize(
    ("uploads", "message"),
    [
        ([TraceUpload("", 3, (Part(1),))], "user id"),
        ([TraceUpload("x" * 257, 3, (Part(1),))], "user id"),
        ([TraceUpload("a", 4, (Part(1),))], "round 4, but this is round 3"),
        ([TraceUpload("a", 3, (Part(1),), range(0))], "is empty"),
        ([TraceUpload("a", 3, (Part(1),)), TraceUpload("a", 3, (Part(1),))], "twice"),
    ],
)
def test_a_bad_upload_is_refused_with_nothing_changed(device, uploads, message):
    with pytest.raises(InputError, match=message):
        device.learn(uploads)
    assert device.ledger.round == 2
