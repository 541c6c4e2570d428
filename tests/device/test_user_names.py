"""Homes of earlier versions may hold names in other ways of writing: an erasure reaches all of them."""

import pytest

from cause.device import device as system
from cause.device import lookup
from cause.device.device import Cause
from cause.engine import checks
from cause.engine.requests import Request
from cause.errors import InputError, RequestError
from tests.clean_room import differences, trained_on
from tests.device.homes import bayes, opened, samples

NFC, NFD = "zo\u00e9", "zoe\u0301"
WAYS = (NFC, NFD, NFC + " ", "zo\u200b\u00e9")


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home", system="frugal:partition=hash") as device:
        yield device


@pytest.fixture
def as_before():
    """Take names in as earlier versions did, until it is called."""
    patch = pytest.MonkeyPatch()
    for module in (checks, system, lookup):
        patch.setattr(module, "normal_name", lambda name: name, raising=False)
    yield patch.undo
    patch.undo()


def test_all_ways_to_write_a_name_lead_to_one_user(device):
    device.learn({NFD: samples("a", 1, 5), "bob": samples("b", 1, 20)})
    device.stage(NFD, *samples("a", 2, 3))
    assert [upload.user for upload in device.home.inbox.uploads()] == [NFC]
    assert len(device.samples_of(NFC)) == len(device.samples_of(NFD)) == 8
    done = device.forget(NFD)[0]
    assert (done.samples, done.staged, device.samples_of(NFC)) == (8, 3, [])


@pytest.mark.parametrize("name", ["zoe ", "\u00a0zoe", "zo\u200be", "zoe\x00"])
def test_a_name_with_invisible_characters_is_refused_by_every_call(device, name):
    calls = (
        lambda: device.learn({name: samples("a", 1, 3)}),
        lambda: device.stage(name, *samples("a", 1, 3)),
        lambda: device.forget(name),
        lambda: device.samples_of(name),
        lambda: device.match(name, *samples("a", 1, 3)),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"white space|invisible"):
            call()
    assert (device.ledger.round, len(device.home.inbox)) == (0, 0)


def test_an_erasure_reaches_every_stored_way_to_write_the_name(device, as_before, tmp_path):
    device.learn({name: samples("a", place, 5) for place, name in enumerate(WAYS)} | {"zoe": samples("z", 1, 20)})
    device.learn({NFD: samples("a", 9, 4), "zoe": samples("z", 2, 20)})
    device.stage(NFC + " ", *samples("a", 12, 2))
    as_before()
    assert {sample.round for sample in device.samples_of(NFC)} == {1, 2, None}
    assert len(device.samples_of(NFC)) == 26
    done = device.forget(NFC)[0]
    assert (done.samples, done.staged) == (26, 2)
    assert device.samples_of(NFC) == []
    assert len(device.samples_of("zoe")) == 40
    remaining = [{"zoe": samples("z", t, 20)} for t in (1, 2)]
    clean = trained_on(remaining, bayes(), "frugal:partition=hash", shards=2, slots=8)
    assert {name: device.ledger.rounds_of(name) for name in WAYS} == {name: [] for name in WAYS}
    device.close()
    with Cause(tmp_path / "home") as again:
        assert again.samples_of(NFC) == []
        assert again.verify(processes=0).mismatched == []
        assert differences(again, clean) == []


def test_rounds_counts_and_handles_reach_them_too_and_a_position_that_is_not_clear_is_refused(device, as_before):
    done = device.learn({NFC: samples("a", 1, 5), NFD: samples("b", 1, 5)})
    device.learn({NFD: samples("b", 2, 5)})
    as_before()
    with pytest.raises(RequestError, match="by their handles"):
        device.forget(NFC, samples=[(1, 0)])
    assert device.forget(NFC, samples=[(2, 0)])[0].samples == 1
    assert device.forget(NFC, handles=[done.handles[NFC][0], done.handles[NFD][0]])[0].samples == 2
    assert device.forget(NFC, rounds=[1], count=6)[0].samples == 6
    assert device.forget(NFC, rounds=[1, 2])[0].samples == 6
    with pytest.raises(RequestError, match="unknown user"):
        device.forget(NFC)


def test_a_name_that_an_older_home_holds_can_be_given_exactly_as_it_is_stored(device, as_before):
    device.learn({"\u200b": samples("a", 1, 5), "zoe ": samples("b", 1, 5)})
    as_before()
    assert device.forget("\u200b")[0].samples == 5
    assert device.forget("zoe ")[0].samples == 5


def test_what_waits_under_an_older_name_still_becomes_part_of_a_round(device, as_before):
    device.stage("zoe ", *samples("a", 1, 5))
    as_before()
    device.stage("zoe", *samples("b", 1, 5))
    assert device.close_round().users == 2
    assert device.forget("zoe")[0].samples == 10


def test_what_is_too_old_of_one_way_to_write_a_name_goes_without_the_others(tmp_path, as_before):
    with opened(tmp_path / "home", retain="1 rounds") as device:
        device.learn({"zoe ": samples("a", 1, 5)})
        as_before()
        device.learn({"zoe": samples("b", 2, 5)})
        assert [sample.round for sample in device.samples_of("zoe")] == [2] * 5


def test_a_request_that_a_crash_kept_from_taking_effect_reaches_them_at_the_next_opening(
    device, as_before, tmp_path, monkeypatch
):
    device.learn({NFC: samples("a", 1, 5), NFD: samples("b", 1, 5), "zoe": samples("z", 1, 20)})
    as_before()
    with monkeypatch.context() as patch:
        patch.setattr(device.journal, "effect", lambda *_: (_ for _ in ()).throw(OSError("the disk")))
        with pytest.raises(OSError, match="the disk") as raised:
            device.forget(NFC)
    assert "accepted and not in effect yet" in str(raised.value)
    device.close()
    with Cause(tmp_path / "home") as again:
        assert again.samples_of(NFC) == []
        assert len(again.samples_of("zoe")) == 20


def test_an_accepted_count_is_taken_once_of_all_ways_to_write_the_name(device, as_before, tmp_path, monkeypatch):
    device.learn({NFC: samples("a", 1, 5), NFD: samples("b", 1, 5)})
    as_before()
    with monkeypatch.context() as patch:
        patch.setattr(device.journal, "effect", lambda *_: (_ for _ in ()).throw(OSError("the disk")))
        with pytest.raises(OSError, match="the disk"):
            device.forget(NFC, rounds=[1], count=7)
    device.close()
    with Cause(tmp_path / "home") as again:
        assert len(again.samples_of(NFC)) == 3


def test_an_accepted_request_for_one_way_to_write_a_name_means_it_alone_at_the_next_opening(
    device, as_before, tmp_path, monkeypatch
):
    device.learn({"zoe ": samples("a", 1, 5), "zoe": samples("b", 1, 4)})
    as_before()
    with monkeypatch.context() as patch:
        patch.setattr(device.journal, "effect", lambda *_: (_ for _ in ()).throw(OSError("the disk")))
        with pytest.raises(OSError, match="the disk"):
            device.serve([Request("zoe ", (1,), exact=True)])
    device.close()
    with Cause(tmp_path / "home") as again:
        assert len(again.samples_of("zoe")) == 4
