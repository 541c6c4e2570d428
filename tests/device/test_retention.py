"""Retention: empty rounds are refused by default, and the status shows what is deleted next."""

import json

import pytest

from cause.device.retention import Expiring, retention
from cause.device.status import status
from cause.engine.requests import Request
from cause.errors import EmptyRoundError, InputError
from tests.clean_room import differences
from tests.device.homes import bayes, learn, opened, samples

DAY = 86_400.0


def held(device):
    return sum(device.ledger.lineage(shard).samples for shard in device.ledger.shards())


def test_closing_rounds_without_samples_ages_nothing_away(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        learn(device, a=30, b=20)
        for _ in range(3):
            with pytest.raises(EmptyRoundError, match="empty=True"):
                device.close_round()
        with pytest.raises(InputError, match="nothing arrived for round 2"):
            device.learn({})
        with pytest.raises(InputError, match="nothing arrived for round 2"):
            device.learn()
        assert (device.ledger.round, held(device)) == (1, 50)


def test_an_explicit_empty_round_counts_also_in_the_clean_room(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device, opened(tmp_path / "clean") as clean:
        for one in (device, clean):
            learn(one, a=30) if one is device else one.learn(empty=True)
            learn(one, b=20)
            assert one.close_round(empty=True).round == 3
            one.catch_up()
        assert (device.ledger.rounds_of("a"), held(device)) == ([], 20)
        assert differences(device, clean) == []


def test_a_repeated_call_that_closed_a_round_is_not_refused(tmp_path):
    with opened(tmp_path / "home") as device:
        device.stage("a", *samples("a", 1, 5))
        assert device.close_round(call="once").round == device.close_round(call="once").round == 1


def test_a_device_in_memory_takes_empty_rounds_as_traces_have_them():
    from cause.device.device import Cause

    device = Cause(learner=bayes(), shards=2, slots=4)
    assert [device.learn().round, device.learn({}).round] == [1, 2]


def test_status_says_what_the_next_round_will_delete_and_then_it_does(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        learn(device, a=30, b=20)
        assert retention(device.home).next_round == Expiring()
        learn(device, b=7)
        expected = Expiring(50, 2, (1,))
        assert status(device).retention.next_round == expected
        payload = json.loads(json.dumps(status(device).as_dict()))["retention"]
        assert payload == {
            "retain": "2 rounds",
            "next_round": {"samples": 50, "users": 2, "rounds": [1]},
            "next": None,
        }
        before = held(device)
        learn(device, c=5)
        assert held(device) == before + 5 - expected.samples


def test_status_says_what_expires_next_and_when(tmp_path):
    with opened(tmp_path / "home", retain="90 days") as device:
        assert retention(device.home).next is None
        start = device.home.clock()
        device.home.time.now = lambda: start
        learn(device, a=30)
        device.home.time.now = lambda: start + 3600
        device.stage("b", *samples("b", 2, 4))
        device.home.time.now = lambda: start + 40 * DAY
        learn(device, c=9)
        due = retention(device.home)
        assert due.next_round == Expiring()
        assert (due.retain, due.next.samples, due.next.users, due.next.rounds) == ("90 days", 34, 2, (1,))
        assert due.next.at == pytest.approx(start + 90 * DAY, abs=1.0)
        device.home.time.now = lambda: start + 90 * DAY + 60
        assert retention(device.home).next_round.samples == 30


def test_a_clock_that_is_not_believed_deletes_nothing_and_says_nothing(tmp_path, monkeypatch):
    with opened(tmp_path / "home", retain="90 days") as device:
        learn(device, a=30)
        monkeypatch.setattr(type(device.home.time), "doubt", lambda self: "it jumped")
        due = retention(device.home)
        assert (due.next_round, due.next) == (Expiring(), None)


def receipts_of(device, kind="effect"):
    return [body for body in device.home.receipts.listed() if body["kind"] == kind]


def test_each_receipt_of_a_retention_counts_its_own_users_samples(tmp_path):
    with opened(tmp_path / "home", retain="1 rounds") as device:
        learn(device, a=30, b=12)
        learn(device, a=3)
        assert [body["samples"] for body in receipts_of(device)] == [30, 12], "not the total of 42, twice"
        assert [sum(shard["samples"] for shard in body["shards"]) for body in receipts_of(device)] == [30, 12]
        assert len({body["served_with"] for body in receipts_of(device)}) == 1


def test_requests_of_one_user_that_are_served_together_share_what_is_deleted(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=20, b=10)
        staged = device.stage("a", *samples("a", 7, 6)).handles
        handles = [held.handle for held in device.home.listing.page("a", round_=1, most=20)[0]]
        requests = [
            Request("a", handles=(*handles[:3], staged[0])),
            Request("a", rounds=(1,), count=5),
            Request("a", handles=(handles[19], staged[1])),
            Request("b"),
            Request("a"),
        ]
        before = held(device) + 6
        device.serve(requests, together=True, lenient=True)
        counts = [body["samples"] for body in receipts_of(device)]
        assert counts[0] == 4
        assert counts[2:4] == [2, 10]
        assert sum(counts) == before - held(device) == 36
        rows = [device.home.queries.request(body["request"]) for body in receipts_of(device)]
        assert [json.loads(row.covered)["staged"] for row in rows] == [1, 0, 1, 0, 4]
