"""A closed device says that it is closed, whatever is called; none of its files is taken for damaged."""

import inspect

import pytest

from cause.device.device import Cause
from cause.errors import CauseError, HomeError, InputError
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
