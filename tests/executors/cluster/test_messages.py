"""Errors of workers on other machines arrive as what they are."""

import json

import pytest

from cause import errors
from cause.errors import LearnerError, TraceError
from cause.executors.cluster.messages import ERRORS, Kind, decode, encode
from cause.executors.worker import Failed


def all_kinds(kind: type = errors.CauseError) -> set[type]:
    """Return an error and all below it that this package defines."""
    below = [all_kinds(one) for one in kind.__subclasses__() if one.__module__ == "cause.errors"]
    return {kind}.union(*below)


def test_every_error_that_is_made_of_a_text_is_in_the_table():
    assert set(ERRORS.values()) == all_kinds() - {TraceError}


@pytest.mark.parametrize("kind", ERRORS.values())
def test_an_error_arrives_as_itself(kind):
    message = decode(*encode(Failed(kind("why"))))
    assert isinstance(message, Failed)
    assert (type(message.error), str(message.error)) == (kind, "why")


@pytest.mark.parametrize("name", ["TraceError", "KeyError", "IN_WORKER", "is_passing"])
def test_any_other_name_arrives_as_an_error_of_the_learner(name):
    message = decode(Kind.FAILED, json.dumps({"kind": name, "text": "why"}).encode())
    assert isinstance(message, Failed)
    assert (type(message.error), str(message.error)) == (LearnerError, "why")
