"""Samples by their contents: all that equal the given rows go, no other does, and the rows are kept nowhere."""

import json

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.errors import InputError, RequestError
from tests.clean_room import differences, trained_on
from tests.device.homes import CLASSES, FEATURES, MASTER, bayes, opened, samples

pytestmark = pytest.mark.random_positions


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home", system="frugal:partition=hash") as device:
        yield device


def left(device, user: str) -> set[bytes]:
    rows = set()
    for t in device.ledger.rounds_of(user):
        upload = device.home.ledger.upload(user, t)
        rows |= {row.tobytes() for row in upload.arrays(upload.positions)[0]}
    return rows


def test_the_rows_given_go_and_no_other_and_the_rest_is_as_if_they_had_never_come(device):
    x, y = samples("a", 1, 300)
    device.learn({"a": (x, y), "b": samples("b", 1, 30)})
    done = device.forget("a", matching=(x[10:15], y[10:15]))[0]
    assert (done.samples, done.unmatched) == (5, 0)
    stays = np.delete(np.arange(300), range(10, 15))
    assert left(device, "a") == {row.tobytes() for row in x[stays]}
    remaining = {"a": (x[stays], y[stays]), "b": samples("b", 1, 30)}
    clean = trained_on([remaining], bayes(), "frugal:partition=hash", shards=2, slots=8)
    assert differences(device, clean) == []


def test_identical_samples_all_go_of_all_rounds_and_of_what_waits(device):
    x, y = samples("a", 1, 10)
    device.learn({"a": (np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]]))})
    device.learn({"a": (x[:4], y[:4])})
    device.stage("a", x[:3], y[:3])
    done = device.forget("a", matching=x[:1])[0]
    assert (done.samples, done.staged) == (4, 1)
    assert x[0].tobytes() not in left(device, "a")
    assert {row.tobytes() for row in x[1:]} == left(device, "a")


def test_without_labels_inputs_count_alone_and_with_labels_both(device):
    x = np.ones((2, FEATURES), dtype=np.float32)
    device.learn({"a": (x, [0, 1])})
    assert device.match("a", x[:1], [2]).handles == ()
    assert len(device.match("a", x[:1], [1]).handles) == 1
    assert len(device.match("a", x[:1]).handles) == 2


def test_how_many_rows_match_nothing_is_said_and_nothing_at_all_is_an_error(device):
    x, y = samples("a", 1, 10)
    device.learn({"a": (x, y), "b": samples("b", 1, 10)})
    others = samples("b", 1, 10)[0]
    assert device.match("a", np.concatenate([others[:3], x[4:5]])).unmatched == (0, 1, 2)
    for call in (lambda: device.forget("a", matching=others), lambda: device.forget("nobody", matching=x)):
        with pytest.raises(RequestError, match="none of the 10 rows equals a sample"):
            call()
    with pytest.raises(RequestError, match="not by both"):
        device.forget("a", rounds=[1], matching=x)
    with pytest.raises(InputError, match="one label for each input"):
        device.forget("a", matching=(x, y[:3]))
    assert len(device.samples_of("a")) == 10
    assert device.forget("a", matching=np.concatenate([others[:3], x[4:5]]))[0].unmatched == 3
    assert len(device.samples_of("b")) == 10


@pytest.mark.parametrize(
    ("stored", "given"),
    [(np.float32, np.float64), (np.uint8, np.float32), (np.float32, np.uint8), (np.float64, np.float32)],
)
def test_rows_of_another_type_or_shape_are_equal_if_their_values_are(device, stored, given):
    x = np.arange(4 * FEATURES).reshape(4, FEATURES) % 200
    device.learn({"a": (x.astype(stored), [0, 1, 2, 3])})
    matched = device.match("a", x[1:3].astype(given).reshape(2, 2, FEATURES // 2))
    assert len(matched.handles) == 2


def test_a_fraction_is_no_byte_and_minus_zero_is_zero(device):
    device.learn({"a": (np.zeros((1, FEATURES), dtype=np.uint8), [0]), "b": (np.zeros((1, FEATURES)), [0])})
    assert device.match("a", np.full((1, FEATURES), 0.5)).handles == ()
    assert len(device.match("b", np.full((1, FEATURES), -0.0)).handles) == 1


def test_the_request_names_handles_and_holds_nothing_of_the_rows(device, monkeypatch, tmp_path):
    x, y = samples("a", 1, 10)
    device.learn({"a": (x, y)})
    seen = []
    effect = device.journal.effect

    def look(ids, *rest):
        seen.extend(device.home._pending.requests(ids))
        return effect(ids, *rest)

    monkeypatch.setattr(device.journal, "effect", look)
    device.forget("a", matching=(x[:2], y[:2]))
    (request,) = seen
    assert len(request.handles) == 2
    assert (request.samples, request.rounds) == (None, None)
    device.close()
    needle = x[0].tobytes()
    assert not any(needle in path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert json.dumps(float(x[0][0])) not in (tmp_path / "home" / "ledger.db").read_bytes().decode("latin-1")


def test_labels_are_compared_where_there_are_many_classes(device):
    x, _ = samples("a", 1, 40)
    y = np.arange(40) % CLASSES
    device.learn({"a": (x, y)})
    assert len(device.match("a", x, y).handles) == 40
    assert len(device.match("a", x, (y + 1) % CLASSES).handles) == 0


KINDS = ["int8", "uint8", "int64", "float16", "float32", "float64", ">f8", "bool"]


@pytest.mark.parametrize("input_dtype", [None, "float32"])
@pytest.mark.parametrize("keep", ["features", "samples"])
def test_equal_rows_of_any_type_are_found_by_an_additive_device(tmp_path, monkeypatch, keep, input_dtype):
    """Whatever type the row had when it was uploaded, and whatever type it has now."""
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    learner = AdditiveLearner(features=2, classes=2, scale=(0, 2), keep=keep)
    row = np.array([[1.0, 0.0]])
    with Cause(tmp_path / "home", learner=learner, key={"env": "CAUSE_TEST_KEY"}, input_dtype=input_dtype) as device:
        device.learn({"ann": (row, [0])})
        device.stage("ann", row, [1])
        for kind in KINDS if input_dtype is None else KINDS[3:-1]:
            device.learn({"ann": (row.astype(kind), [0])})
        held = {sample.handle for sample in device.samples_of("ann")}
        device.learn({"ann": (2 - row, [0])})
        for query in [*(row.astype(kind) for kind in KINDS), -row * [-1, 1]]:
            assert set(device.match("ann", query).handles) == held, query.dtype
        (done,) = device.forget("ann", matching=row)
        assert done.samples == len(held)
        assert device.verify(processes=0).holds
