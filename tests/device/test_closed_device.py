"""A closed device says that it is closed, whatever is called; none of its files is taken for damaged."""

import inspect

import pytest

from cause.device.device import Cause
from cause.engine.samples import Part, TraceUpload
from cause.errors import CauseError, HomeError, InputError
from cause.learners import CountingLearner
from tests.device.homes import bayes, learn, opened, samples

STILL_ALLOWED = {"close", "current", "name_of"}
"""Calls that read nothing of the home."""


def public_calls() -> list[str]:
    return sorted(
        name
        for name, value in inspect.getmembers(Cause, inspect.isfunction)
        if not name.startswith("_") and name not in STILL_ALLOWED
    )


def arguments(name: str) -> tuple:
    examples = {
        "drop": (1,), "forget": ("a",), "load": (None,), "match": ("a", samples("a", 1, 2)[0]), "serve": ([],),
        "predict": (samples("a", 1, 2)[0],), "votes": (samples("a", 1, 2)[0],), "samples_of": ("a",),
        "stage": ("a", *samples("a", 1, 2)), "stage_all": ({"a": samples("a", 1, 2)},),
    }  # fmt: skip
    return examples.get(name, ())


@pytest.mark.parametrize("name", public_calls())
def test_every_call_on_a_closed_device_says_so(tmp_path, name):
    device = opened(tmp_path / "home")
    learn(device, a=9)
    device.close()
    with pytest.raises(HomeError, match=r"this device is closed: open its home again with Cause\('.*home'\)"):
        getattr(device, name)(*arguments(name))
    device.close()
    with Cause(tmp_path / "home") as again:
        assert again.heads()


def test_a_device_in_memory_can_be_used_after_its_workers_ended():
    device = Cause(learner=bayes(), shards=1, slots=4)
    learn(device, a=9)
    device.close()
    assert len(device.predict(samples("a", 1, 2)[0])) == 2


@pytest.mark.parametrize("name", public_calls())
def test_an_unknown_argument_is_refused_with_the_known_ones(name):
    device = Cause(learner=bayes(), shards=1, slots=4)
    with pytest.raises(InputError, match=rf"{name} has no 'no_such_argument'"):
        getattr(device, name)(*arguments(name), no_such_argument=1)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda device: device.learn({}, idempotency_ky="k"), "did you mean 'idempotency_key'"),
        (lambda device: device.forget("a", round=[1]), "did you mean 'rounds'"),
        (lambda device: device.forget("a", handle="6f"), "did you mean 'handles'"),
        (lambda device: device.verify(process=1), "did you mean 'processes'"),
        (lambda device: device.forget(), "missing a required argument: 'user'"),
        (lambda device: device.predict(), "missing a required argument: 'x'"),
        (lambda device: device.verify(processes=-1), "processes is how many processes replay.*not -1"),
        (lambda device: device.verify(processes="two"), "processes must be a whole number, not 'two'"),
    ],
)
def test_a_slip_in_a_call_names_the_nearest_argument(call, hint):
    device = Cause(learner=bayes(), shards=1, slots=4)
    learn(device, a=9)
    with pytest.raises(InputError, match=hint):
        call(device)


@pytest.mark.parametrize("inner", ["", "inside"])
@pytest.mark.parametrize("learner", [None, bayes])
def test_the_path_of_a_file_is_no_home(tmp_path, inner, learner):
    (tmp_path / "file").write_text("text")
    with pytest.raises(HomeError, match=r"is not a home: '.*file' is a file, not a folder"):
        Cause(tmp_path / "file" / inner, learner=None if learner is None else learner())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_name_that_the_disk_does_not_take_is_refused_in_one_line(tmp_path):
    for path in (tmp_path / ("x" * 300), f"{tmp_path}/a\0b"):
        with pytest.raises(CauseError, match=r"cannot be a home|null character"):
            Cause(path, learner=bayes())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda device: device.samples_of("a"), "samples_of"),
        (lambda device: device.status(), "status"),
        (lambda device: device.stage("a", *samples("a", 1, 2)), "stage"),
        (lambda device: device.close_round(), "close_round"),
        (lambda device: device.expire(trust_clock=True), r"expire\(trust_clock=True\)"),
    ],
)
def test_a_call_that_needs_a_home_says_so_by_its_own_name(call, name):
    device = Cause(learner=bayes(), shards=1, slots=4)
    needed = rf"^`{name}` needs a device with a home, and this one is in memory: make it with Cause\('device/', …\)$"
    with pytest.raises(InputError, match=needed):
        call(device)


def test_the_settings_of_a_home_are_arguments_with_names():
    named = inspect.signature(Cause).parameters
    assert {"storage", "retain", "repair", "deadline_days"} <= named.keys()
    with pytest.raises(InputError, match="Cause has no 'retian' \\(did you mean 'retain'"):
        Cause(learner=bayes(), retian="3 rounds")
    with pytest.raises(InputError, match="'retain' is for a device with a home"):
        Cause(learner=bayes(), retain="3 rounds")
    with pytest.raises(InputError, match="has no learner: give learner="):
        Cause()


def test_shards_whose_training_fails_are_listed_with_their_errors():
    class Fails(CountingLearner):
        def train(self, *_args, **_kwargs):
            raise ValueError("no")

    device = Cause(learner=Fails(), shards=1, slots=4)
    with pytest.raises(ValueError, match="no; round 1 is recorded"):
        device.learn([TraceUpload("a", 1, (Part(3),))])
    assert list(device.failed_shards) == [0]
    device.cancel_training()
