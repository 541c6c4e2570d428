"""Rows have handles: random names that stay while the row does, and mean that row and no other."""

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.presets import PRESETS
from cause.errors import RequestError
from tests.clean_room import differences, trained_on
from tests.device.homes import FEATURES, bayes, learn, opened, samples
from tests.quick import quick_only

pytestmark = pytest.mark.random_positions


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home") as device:
        yield device


def contents(device, user: str) -> dict[str, bytes]:
    """The inputs behind each handle of a user."""
    rows = {}
    for t in device.ledger.rounds_of(user):
        upload = device.home.ledger.upload(user, t)
        x, _ = upload.arrays(upload.positions)
        handles = upload.handles(upload.positions)
        rows |= {handle.tobytes().hex(): row.tobytes() for handle, row in zip(handles, x, strict=True)}
    return rows


def test_learning_answers_with_a_handle_for_each_row_in_the_order_given(device):
    x, y = samples("a", 1, 300)
    handles = device.learn({"a": (x, y)}).handles["a"]
    held = contents(device, "a")
    assert len(set(handles)) == 300
    assert [held[handle] for handle in handles] == [row.tobytes() for row in x]
    assert {(s.handle, s.label) for s in device.samples_of("a")} == set(zip(handles, y.tolist(), strict=True))


def test_the_row_with_the_handle_goes_and_no_other(device):
    x, y = samples("a", 1, 300)
    handles = device.learn({"a": (x, y)}).handles["a"]
    device.forget("a", handles=[handles[3], handles[200]])
    held = contents(device, "a")
    assert set(held) == set(handles) - {handles[3], handles[200]}
    assert x[3].tobytes() not in held.values()
    assert all(held[handle] == row.tobytes() for handle, row in zip(handles, x, strict=True) if handle in held)


def test_a_staged_row_keeps_its_handle_into_the_round(device):
    x, y = samples("a", 1, 140)
    handles = device.stage("a", x, y).handles
    assert [s.handle for s in device.samples_of("a")] == list(handles)
    device.close_round()
    held = contents(device, "a")
    assert [held[handle] for handle in handles] == [row.tobytes() for row in x]


def test_a_staged_row_can_be_forgotten_by_its_handle(device, tmp_path):
    x, y = samples("a", 1, 140)
    handles = device.stage("a", x, y, call="one").handles
    device.forget("a", handles=[handles[7]])
    assert device.home.staged("a") == 139
    assert device.home.inbox.result_of_call("one").samples == 139
    device.close()
    with Cause(tmp_path / "home") as again:
        assert [s.handle for s in again.samples_of("a")] == [h for h in handles if h != handles[7]]
        again.close_round()
        assert x[7].tobytes() not in contents(again, "a").values()


def test_handles_of_rounds_and_of_staged_rows_in_one_request(device):
    learned = device.learn({"a": samples("a", 1, 10)}).handles["a"]
    staged = device.stage("a", *samples("a", 2, 5)).handles
    device.forget("a", handles=[learned[0], staged[0], staged[4]])
    assert {s.handle for s in device.samples_of("a")} == {*learned[1:], *staged[1:4]}


def test_forgetting_the_same_handle_again_touches_nothing(device):
    handles = device.learn({"a": samples("a", 1, 10)}).handles["a"]
    device.forget("a", handles=[handles[4]])
    before = contents(device, "a")
    with pytest.raises(RequestError, match="no sample with the handle"):
        device.forget("a", handles=[handles[4]])
    assert contents(device, "a") == before


def test_a_handle_of_another_user_is_refused(device):
    done = device.learn({"a": samples("a", 1, 10), "b": samples("b", 1, 10)})
    with pytest.raises(RequestError, match="no sample with the handle"):
        device.forget("a", handles=[done.handles["b"][0]])
    assert len(contents(device, "b")) == 10


@pytest.mark.parametrize("named", [0, 1, 2])
def test_of_identical_samples_the_named_handle_goes_and_ids_are_those_of_fewer(device, named, tmp_path):
    x = np.ones((3, FEATURES), dtype=np.float32)
    handles = device.learn({"a": (x, [1, 1, 1]), "b": samples("b", 1, 20)}).handles["a"]
    device.forget("a", handles=[handles[named]])
    assert set(contents(device, "a")) == {*handles} - {handles[named]}
    remaining = {"a": (x[:2], [1, 1]), "b": samples("b", 1, 20)}
    clean = trained_on([remaining], bayes(), "frugal", shards=2, slots=8)
    assert differences(device, clean) == []
    with pytest.raises(RequestError):
        device.forget("a", handles=[handles[named]])
    device.forget("a", handles=[next(h for h in handles if h != handles[named])])
    assert len(contents(device, "a")) == 1


HASHED = [*(f"{name}:partition=hash" for name in PRESETS), "sisa:slices=2,rehearsal=0.5"]


@pytest.mark.parametrize("name", quick_only(HASHED, ("cause:partition=hash", "frugal:partition=hash", HASHED[-1])))
def test_random_positions_change_no_bit(tmp_path, name):
    """A home, with its random positions, beside a device in memory that was never given the forgotten rows."""
    kept = {}
    with opened(tmp_path / "home", system=name) as device:
        for t in (1, 2):
            given = {user: samples(user, t, count) for user, count in (("a", 200), ("b", 30))}
            handles = device.learn(given).handles
            forgotten = [handles["a"][i] for i in range(0, 200, 7)]
            device.forget("a", handles=forgotten)
            for user, (x, y) in given.items():
                stays = np.array([handle not in forgotten for handle in handles[user]])
                kept[user, t] = x[stays], y[stays]
        remaining = [{user: kept[user, t] for user in "ab"} for t in (1, 2)]
        clean = trained_on(remaining, bayes(), device.system, shards=2, slots=8)
        assert differences(device, clean) == []
        assert verify(device, processes=0).mismatched == []


def test_two_homes_lay_the_same_upload_down_in_different_orders(tmp_path):
    orders = []
    for name in ("one", "two"):
        with opened(tmp_path / name) as device:
            learn(device, a=130)
            upload = device.home.ledger.upload("a", 1)
            orders.append(upload.arrays(upload.positions)[0].tobytes())
    assert orders[0] != orders[1]
