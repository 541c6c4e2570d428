"""A shard that cannot be trained does not stop the others."""

import pytest

from cause.device.device import Cause
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.errors import LearnerError
from cause.executors import InProcess, Processes
from tests.executors.worker_learners import Refusing


@pytest.fixture(params=["here", "processes"])
def device(request, tmp_path):
    executor = InProcess() if request.param == "here" else Processes(2)
    device = Cause(learner=Refusing(tmp_path), system="cause-no-sc", shards=3, slots=9, executor=executor)
    yield device
    executor.close()


def uploads(round_):
    return [TraceUpload(user, round_, (Part(10 + ord(user) - ord("a")),)) for user in "abcdef"]


def test_the_others_are_trained_and_then_its_error_is_raised(device, tmp_path):
    (tmp_path / "0").touch()
    (tmp_path / "2").touch()
    with pytest.raises(LearnerError, match="shard 0 cannot be counted"):
        device.learn(uploads(1))
    assert list(device.heads()) == [1]
    (tmp_path / "2").unlink()
    with pytest.raises(LearnerError, match="shard 0 cannot be counted"):
        device.catch_up()
    assert list(device.heads()) == [1, 2]
    (tmp_path / "0").unlink()
    device.repair()
    assert sorted(device.heads()) == [0, 1, 2]
    assert device.verify(processes=0).mismatched == []


def test_a_request_of_other_shards_is_repaired(device, tmp_path):
    device.learn(uploads(1))
    users = {plan.shard: user for user in "abcdef" for plan in device.plan(Request(user))}
    (tmp_path / "0").touch()
    for shard in (0, 1, 2):
        device.forget(users[shard], repair="later")
    with pytest.raises(LearnerError, match="shard 0"):
        device.repair()
    assert device.waiting() == [0]
