"""Uploads that wait for their round: durable, bounded, erasable, and in the end what `learn` would have made."""

import sqlite3
import time
from contextlib import closing

import pytest

from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.store.database import Database
from cause.device.store.migrations import MIGRATIONS
from cause.device.verify import verify
from cause.engine.requests import Request
from cause.errors import BudgetError, HomeError, InputError, RequestError
from tests.clean_room import differences
from tests.device.homes import ERASE, bayes, learn, opened, samples
from tests.torture.attack import attack


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home") as device:
        yield device


def staged(device):
    return {upload.user: upload.samples for upload in device.home.inbox.uploads()}


def test_a_round_of_staged_uploads_is_the_round_that_learn_makes(device, tmp_path):
    for user, count in (("a", 200), ("b", 9)):
        device.stage(user, *samples(user, 1, count))
    first, second = samples("c", 1, 5), samples("c", 2, 6)
    device.stage("c", *first)
    device.stage("c", *second)
    arrived = device.close_round()
    assert (arrived.round, arrived.users, arrived.samples) == (1, 3, 220)
    assert device.catch_up() == (2, 0)
    with opened(tmp_path / "other", learner=bayes()) as other:
        both = tuple([*one, *two] for one, two in zip(first, second, strict=True))
        other.learn({"a": samples("a", 1, 200), "b": samples("b", 1, 9), "c": both})
        assert differences(device, other) == []


def test_staged_samples_survive_the_process_and_are_not_part_of_a_round_of_learn(device, tmp_path):
    device.stage("a", *samples("a", 1, 7), call="one")
    device.close()
    with opened(tmp_path / "home") as again:
        assert staged(again) == {"a": 7}
        learn(again, b=3)
        assert staged(again) == {"a": 7}
        assert again.home.inbox.result_of_call("one").round is None
        again.close_round()
        assert again.home.inbox.result_of_call("one").round == 2
        assert staged(again) == {}
        assert again.ledger.rounds_of("a") == [2]


def test_the_same_call_twice_changes_nothing(device):
    device.stage("a", *samples("a", 1, 7), call="one")
    device.stage("a", *samples("a", 1, 7), call="one")
    assert staged(device) == {"a": 7}
    assert device.close_round(call="two").round == device.close_round(call="two").round == 1


def test_forgetting_a_user_destroys_their_staged_samples_and_no_others(device, tmp_path):
    learn(device, a=5, b=5)
    for user in ("a", "b", "c"):
        device.stage(user, *samples(user, 2, 4))
    device.forget("a", rounds=[1])
    assert staged(device) == {"a": 4, "b": 4, "c": 4}, "a round was named, and what waits belongs to none yet"
    (done,) = device.forget("c")  # this user has staged samples only
    assert staged(device) == {"a": 4, "b": 4}
    (count,) = device.home.database.row("SELECT samples FROM requests WHERE id=?", [done.ids[0]])
    assert count == 4
    loot = attack(tmp_path / "home")
    for user, there in (("b", True), ("c", False)):
        assert all(loot.contains(row.tobytes()) == there for row in samples(user, 2, 4)[0])
    with pytest.raises(RequestError, match="unknown user"):
        device.forget("c")


def test_forgetting_some_staged_rows_destroys_them_and_no_others(device, tmp_path):
    stored = device.stage("a", *samples("a", 1, 4))
    gone = stored.handles[1]
    device.forget("a", handles=[gone])
    loot = attack(tmp_path / "home")
    rows = [loot.contains(row.tobytes()) for row in samples("a", 1, 4)[0]]
    assert rows == [True, False, True, True]


def test_a_round_does_not_take_in_what_an_accepted_erasure_is_still_to_destroy(device, monkeypatch):
    learn(device, b=5)
    for user in ("a", "b"):
        device.stage(user, *samples(user, 2, 4))
    with monkeypatch.context() as broken:
        broken.setattr(device.home, "effect", _full)
        with pytest.raises(OSError, match="full"):
            device.serve([Request("a")], **ERASE)
    assert len(device.home.accepted()) == 1
    assert device.close_round().samples == 4
    assert device.home.accepted() == []
    assert device.ledger.rounds_of("a") == []


def test_a_request_that_cannot_take_effect_does_not_hold_up_the_others(device, monkeypatch):
    learn(device, a=5, b=5)
    with monkeypatch.context() as broken:
        broken.setattr(device.home, "effect", _full)
        for user in ("a", "b"):
            with pytest.raises((OSError, HomeError)):
                device.serve([Request(user)], **ERASE)
    effect = device.home.effect
    ids = [each for each, _ in device.home.accepted()]

    def only_the_second(served, *more):
        if served == ids[:1]:
            raise HomeError("a block is damaged")
        effect(served, *more)

    with monkeypatch.context() as broken:
        broken.setattr(device.home, "effect", only_the_second)
        with pytest.raises(HomeError, match="damaged"):
            device.resume()
    assert [each for each, _ in device.home.accepted()] == ids[:1]
    device.resume()
    assert device.home.accepted() == []
    assert device.ledger.rounds_of("a") == device.ledger.rounds_of("b") == []


def _full(*_):
    raise OSError("the disk is full")


def test_an_erasure_of_nothing_is_served_and_disturbs_no_training(device):
    learn(device, a=5)
    before = device.changes
    (done,) = device.serve([Request("nobody")], **ERASE)
    assert done.shards == ()
    assert device.changes == before


def test_uploads_of_one_round_must_be_alike_and_fit_the_learner(device):
    x, y = samples("a", 1, 4)
    device.stage("a", x, y)
    with pytest.raises(InputError, match="alike"):
        device.stage("a", x.astype("float64"), y)
    with pytest.raises(InputError, match="features"):
        device.stage("b", x[:, :3], y)
    with pytest.raises(InputError, match="label 1"):
        device.stage("b", x, y + 9)
    assert staged(device) == {"a": 4}


def test_what_waits_counts_against_the_store_but_not_twice(tmp_path):
    with opened(tmp_path / "home", storage="5kB") as device:
        device.stage("a", *samples("a", 1, 40))
        used = device.home.stored_bytes
        assert used > 2_500
        with pytest.raises(BudgetError, match="forget some"):
            device.stage("b", *samples("b", 1, 40))
        device.close_round()
        assert device.home.stored_bytes == pytest.approx(used, abs=200)


def test_a_backup_holds_what_waits_and_a_restored_one_opens(device, tmp_path):
    learn(device, a=5)
    for user in ("b", "c"):
        device.stage(user, *samples(user, 2, 4))
    backup(device.home, tmp_path / "b.tar")
    device.forget("c")
    device.close()
    for path in (tmp_path / "home").glob("ledger.db*"):
        path.unlink()
    assert restore(tmp_path / "b.tar", tmp_path / "home").lost.samples == 4
    with opened(tmp_path / "home") as again:
        assert staged(again) == {"b": 4}
        assert examine_home(tmp_path / "home").problems == []
        again.close_round()
        again.catch_up()
        assert verify(again, processes=0).mismatched == []


def test_a_lost_file_of_staged_samples_is_reported(device, tmp_path):
    device.stage("a", *samples("a", 1, 4))
    (tmp_path / "home" / "blocks" / device.home.inbox.uploads()[0].names[0].hex()).unlink()
    assert "staged samples" in examine_home(tmp_path / "home").problems[0].what


def test_a_ledger_of_the_third_format_knows_when_what_waits_arrived(device, tmp_path):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as ledger:
        ledger.executescript("".join(each.before + ";" + each.after + ";" for each in MIGRATIONS[:3]))
        ledger.execute("INSERT INTO calls VALUES ('b', 1000, 3, NULL)")
        for number, upload in enumerate("bc"):
            ledger.execute("INSERT INTO staged VALUES (?, ?, 0, 3, 9, x'00')", [bytes([number]), upload])
        ledger.execute("INSERT INTO uploads VALUES (1, 1, 500, 1, x'00')")
        ledger.execute("PRAGMA user_version=3")
        ledger.commit()
    with closing(Database(path, vault=device.home.vault)) as database:
        arrived = dict(database.rows("SELECT upload, arrived FROM staged"))
        assert arrived["b"] == 1_000.0
        assert time.time() - arrived["c"] == pytest.approx(7 * DAY, abs=60)  # longer ago than calls are remembered
        assert database.row("SELECT arrived FROM uploads") == (500.0,)


DAY = 86_400.0


@pytest.fixture
def keeping(tmp_path):
    """A home that keeps samples for ten days, at the end of the twentieth day."""
    with opened(tmp_path / "home", shards=1, retain="10 days") as device:
        device.home.time.now = lambda: 20 * DAY
        yield device


def after(device, days):
    device.home.time.now = lambda: (20 + days) * DAY


LATER = {
    "an upload": lambda device: device.stage("c", *samples("c", 1, 3)),
    "a round": lambda device: device.close_round(),
    "a round of somebody else": lambda device: learn(device, c=3),
    "expire": lambda device: device.expire(),
}


@pytest.mark.parametrize("happens", LATER.values(), ids=LATER)
def test_what_waits_for_longer_than_samples_are_kept_is_destroyed(keeping, tmp_path, happens):
    keeping.stage("a", *samples("a", 1, 4), call="one")
    after(keeping, 6)
    keeping.stage("b", *samples("b", 1, 4))
    after(keeping, 11)
    happens(keeping)
    assert "a" not in staged(keeping)
    assert keeping.ledger.rounds_of("a") == []
    assert staged(keeping).get("b", 0) + sum(len(p) for _, p in keeping.ledger.pieces_of("b", 1)) == 4
    called = keeping.home.inbox.result_of_call("one")
    assert called is None or called.samples == 0
    assert keeping.home.inbox.expired == 4
    loot = attack(tmp_path / "home")
    for user, there in (("a", False), ("b", True)):
        assert all(loot.contains(row.tobytes()) == there for row in samples(user, 1, 4)[0])
    assert keeping.home.receipts.size == 0, "no request named it, and nothing had learned from it"


def test_samples_that_waited_do_not_get_younger_when_a_round_takes_them_in(keeping):
    keeping.stage("a", *samples("a", 1, 4))
    after(keeping, 6)
    keeping.stage("b", *samples("b", 1, 4))
    keeping.close_round()
    keeping.catch_up()
    after(keeping, 11)
    keeping.expire()
    assert keeping.ledger.rounds_of("a") == []
    assert keeping.ledger.rounds_of("b") == [1]
    after(keeping, 17)
    keeping.expire()
    assert keeping.ledger.rounds_of("b") == []


def test_a_users_round_is_as_old_as_the_first_that_waited_for_it(keeping):
    keeping.stage("a", *samples("a", 1, 4))
    after(keeping, 6)
    keeping.stage("a", *samples("a", 2, 4))
    keeping.close_round()
    keeping.catch_up()
    after(keeping, 11)
    keeping.expire()
    assert keeping.ledger.rounds_of("a") == []


def test_an_opening_destroys_what_waited_for_too_long_also_when_its_call_is_no_longer_remembered(keeping, tmp_path):
    keeping.stage("a", *samples("a", 1, 4), call="one")
    after(keeping, 9)
    learn(keeping, b=3)
    assert keeping.home.inbox.result_of_call("one") is None
    assert staged(keeping) == {"a": 4}
    keeping.close()
    with Cause(tmp_path / "home", learner=bayes()) as again:  # decades later
        assert staged(again) == {}
        assert again.home.inbox.expired == 4


def test_samples_that_are_kept_for_some_rounds_wait_for_theirs_however_long(tmp_path):
    with opened(tmp_path / "home", retain="1 rounds") as device:
        device.stage("a", *samples("a", 1, 4))
        device.home.time.now = lambda: 1e12
        device.expire()
        assert staged(device) == {"a": 4}


def test_a_crash_while_staged_samples_expire_leaves_them_whole_or_destroyed(keeping, tmp_path, monkeypatch):
    keeping.stage("a", *samples("a", 1, 4))
    after(keeping, 11)
    with monkeypatch.context() as broken:
        broken.setattr(keeping.home.vault, "erase", _full)
        with pytest.raises(OSError, match="full"):
            keeping.expire()
    assert staged(keeping) == {}
    keeping.close()
    with Cause(tmp_path / "home", learner=bayes()) as again:
        assert staged(again) == {}
        loot = attack(tmp_path / "home")
        assert not any(loot.contains(row.tobytes()) for row in samples("a", 1, 4)[0])


def test_what_was_trained_again_is_counted_by_round(device):
    learn(device, a=5, b=5)
    learn(device, a=5)
    device.forget("a", rounds=[1], count=1)
    assert device.home.database.rows("SELECT round, samples FROM retrained") == [(2, 9)]
