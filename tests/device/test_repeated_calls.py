"""A call that failed after something was recorded says so, and can be made again without harm."""

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.store.inbox import REMEMBERED_S
from cause.errors import InputError, LearnerError
from tests.clean_room import differences, trained_on
from tests.device.homes import bayes, opened, samples


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home", system="frugal:partition=hash") as device:
        yield device


@pytest.fixture
def no_training():
    """Training fails, as it does where a learner or a disk does, until it is called."""
    patch = pytest.MonkeyPatch()

    def fail(*_, **__):
        raise LearnerError("training diverged")

    patch.setattr(Cause, "_train", fail)
    yield patch.undo
    patch.undo()


def uploads(*names: str, t: int = 1):
    return {name: samples(name, t, 12) for name in names}


def clean_room(*rounds):
    return trained_on(rounds, bayes(), "frugal:partition=hash", shards=2, slots=8)


def test_a_retry_with_the_same_key_learns_nothing_twice_and_goes_on_with_the_training(device, no_training, tmp_path):
    with pytest.raises(LearnerError, match=r"diverged; round 1 is recorded with its 24 samples .*cause repair"):
        device.learn(uploads("a", "b"), idempotency_key="monday")
    no_training()
    device.close()
    with Cause(tmp_path / "home") as again:
        done = again.learn(uploads("a", "b"), idempotency_key="monday")
        assert (done.round, done.samples, done.repeated) == (1, 24, True)
        assert (again.ledger.round, again.waiting()) == (1, [])
        assert len(done.trained) == 2
        assert differences(again, clean_room(uploads("a", "b"))) == []
        stored = {sample.handle for user in "ab" for sample in again.samples_of(user)}
        assert set(done.handles["a"]) | set(done.handles["b"]) == stored


def test_a_retry_answers_with_the_handle_of_each_row_in_the_order_given(device):
    x, y = samples("a", 1, 40)
    x, y = np.concatenate([x, x[:3]]), np.concatenate([y, y[:3]])
    first = device.learn({"a": (x, y)}, idempotency_key="k").handles["a"]
    again = device.learn({"a": (x, y)}, idempotency_key="k").handles["a"]
    assert again[3:40] == first[3:40]
    for row in range(3):  # identical rows may change places: nobody could tell them apart
        assert {again[row], again[40 + row]} == {first[row], first[40 + row]}


def test_another_key_or_none_is_another_round(device):
    device.learn(uploads("a"), idempotency_key="one")
    assert device.learn(uploads("a"), idempotency_key="two").round == 2
    assert device.learn(uploads("a")).round == 3


def test_a_key_that_came_with_other_samples_is_refused_and_changes_nothing(device):
    device.learn(uploads("a", "b"), idempotency_key="k")
    x, y = uploads("a")["a"]
    for other in (uploads("a"), uploads("a", "b", t=2), {"a": (x, (y + 1) % 4), **uploads("b")}, {}):
        with pytest.raises(InputError, match="came with other samples before, which are round 1"):
            device.learn(other, idempotency_key="k")
    assert device.ledger.round == 1
    for wrong in ("", "k" * 129, "k\n", 7):
        with pytest.raises(InputError, match="1 to 128 printable characters"):
            device.learn(uploads("a"), idempotency_key=wrong)
    with pytest.raises(InputError, match="a device with a home"):
        Cause(learner=bayes(), shards=2, slots=8).learn(uploads("a"), idempotency_key="k")


def test_a_key_is_void_once_anything_of_the_upload_is_forgotten(device):
    handles = device.learn(uploads("a", "b"), idempotency_key="k").handles["a"]
    device.learn(uploads("c"), idempotency_key="other")
    device.forget("a", handles=handles[:1])
    calls = device.home.database.rows("SELECT id, round FROM calls")
    assert [round_ for _, round_ in calls] == [2]
    assert device.learn(uploads("a", "b"), idempotency_key="k").round == 3
    assert device.learn(uploads("c"), idempotency_key="other").repeated


def test_a_key_is_kept_as_a_keyed_code_and_for_a_week(device, tmp_path):
    device.learn(uploads("a"), idempotency_key="alice monday 7")
    ((id_,),) = device.home.database.rows("SELECT id FROM calls")
    assert "alice" not in id_
    with opened(tmp_path / "other", learner=bayes()) as other:
        other.learn(uploads("a"), idempotency_key="alice monday 7")
        assert other.home.database.rows("SELECT id FROM calls") != [(id_,)]
    with device.home.database.transaction():
        device.home.database.run("UPDATE calls SET at = at - ?", [REMEMBERED_S + 1])
    device.learn(uploads("b"))
    assert device.home.database.rows("SELECT id FROM calls") == []


def test_shards_that_waited_before_go_on_waiting_when_a_call_is_repeated(device, monkeypatch, no_training):
    no_training()
    device.learn({"a": samples("a", 1, 30), "b": samples("b", 1, 30), "c": samples("c", 1, 30)})
    device.forget("a", rounds=[1], count=2, repair="later")
    (waited,) = device.waiting()
    with monkeypatch.context() as patch:
        patch.setattr(Cause, "_train", lambda *_, **__: (_ for _ in ()).throw(LearnerError("no")))
        with pytest.raises(LearnerError):
            device.learn(uploads("a", "b", "c", t=2), idempotency_key="k", repair="later")
    device.learn(uploads("a", "b", "c", t=2), idempotency_key="k", repair="later")
    assert device.waiting() == [waited]


def test_an_error_of_forget_says_what_is_in_effect_and_what_to_do(device, no_training):
    no_training()
    device.learn(uploads("a", "b"))
    patch = pytest.MonkeyPatch()
    patch.setattr(Cause, "_train", lambda *_, **__: (_ for _ in ()).throw(LearnerError("training diverged")))
    with pytest.raises(LearnerError) as raised:
        device.forget("a")
    patch.undo()
    ((id_,),) = device.home.database.rows("SELECT id FROM requests")
    assert f"in effect, so that the samples are destroyed: request {id_}; do not ask again" in str(raised.value)
    assert "`cause repair`" in raised.value.recorded
    assert device.samples_of("a") == []
    device.repair()
    assert differences(device, clean_room(uploads("b"))) == []


def test_an_error_before_anything_is_recorded_says_nothing_of_it(device):
    with pytest.raises(InputError) as raised:
        device.learn({"a": (np.zeros((3, 6)), [0])})
    assert raised.value.recorded is None
    with pytest.raises(InputError) as raised:
        device.forget("nobody")
    assert raised.value.recorded is None
