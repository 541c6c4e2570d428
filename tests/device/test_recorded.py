"""An error of a user's own learner says, in its own text, what was recorded and what to do."""

import errno

import numpy as np
import pytest

from cause.device.device import Cause
from cause.engine.presets import System
from cause.errors import LearnerError
from cause.learners.sklearn import SklearnLearner


class Failing(SklearnLearner):
    """A learner that raises a given error."""

    raising: BaseException | None = None

    def train(self, *args, **options):
        if Failing.raising is not None:
            raise Failing.raising
        return super().train(*args, **options)


class OwnTextError(Exception):
    def __str__(self) -> str:
        return "always the same"


class SlottedError(Exception):
    __slots__ = ()


ERRORS = [
    ValueError("a label"), RuntimeError(), KeyError("alice"), StopIteration(), AssertionError(("a", "tuple")),
    OSError(errno.EIO, "input/output error"), OSError("text alone"), TimeoutError("late"), RecursionError("deep"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), MemoryError(), SlottedError("slots"), OwnTextError(),
    LearnerError("ours"),
]  # fmt: skip


@pytest.fixture
def device(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    Failing.raising = None
    learner = Failing(GaussianNB(), classes=3, features=4)
    with Cause(tmp_path / "home", learner=learner, system=System(), shards=1, slots=4) as made:
        yield made
        Failing.raising = None


def upload(user):
    draw = np.random.default_rng(len(user))
    return {user: (draw.normal(size=(9, 4)), np.arange(9) % 3)}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}{len(error.args)}")
def test_the_text_of_any_error_says_what_was_recorded(device, error):
    device.learn(upload("ann"))
    Failing.raising = error
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of many types
        device.learn(upload("bob"))
    text = str(raised.value)
    assert "round 2 is recorded with its 9 samples" in text
    assert "do not learn it again" in text
    assert raised.value.recorded in text  # type: ignore[attr-defined]
    assert isinstance(raised.value, type(error)) or raised.value.__cause__ is error
    assert text.count("round 2 is recorded") == 1


def test_what_ends_a_program_keeps_its_value_and_gets_a_note(device):
    Failing.raising = SystemExit(3)
    with pytest.raises(SystemExit) as raised:
        device.learn(upload("bob"))
    assert raised.value.code == 3
    assert "round 1 is recorded" in raised.value.__notes__[0]
