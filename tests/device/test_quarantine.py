"""Samples in quarantine in a home are durable, named in the status, erasable, and affect no other user."""

import contextlib
import os
import signal

import numpy as np
import pytest

from cause.device.backup.backup import backup
from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.status import status
from cause.device.store import ledger as store_ledger
from cause.device.store import quarantine_rows
from cause.engine.requests import Request
from cause.engine.samples import SegmentKey
from cause.lab.home_trace import history
from tests.clean_room import differences
from tests.device.homes import killed, opened
from tests.engine.test_quarantine import CLASSES, USERS, all_of, drawn, lived, rounds, same
from tests.small_learners import PEPPER, POISON, SALT, FragileLearner

SYSTEM = "sisa:partition=hash,policy=unlimited"


def device_at(folder, **settings) -> Cause:
    settings = {"system": SYSTEM, "shards": 1, "slots": 64, **settings}
    return opened(folder, learner=FragileLearner(CLASSES), **settings)


def lived_at(folder, given, **settings) -> Cause:
    device = device_at(folder, **settings)
    for uploads in given:
        device.learn(uploads)
    return device


GIVEN = rounds({("bob", 2): {3: POISON}})
WITHOUT = all_of("bob", 2)


def handle_of(device, user, t, value):
    upload = device.ledger.upload(user, t)
    x, _ = upload.arrays(upload.positions)
    (row,) = np.flatnonzero(x[:, 0] == np.float32(value))[:1]
    return upload.handles(upload.positions)[row].tobytes().hex()


def whole(folder) -> None:
    """The home passes the doctor."""
    health = examine_home(folder)
    assert health.problems == []


def test_it_lasts_and_the_rest_is_as_without_it(tmp_path):
    with lived_at(tmp_path / "home", GIVEN) as device:
        (aside,) = device.ledger.quarantined()
        assert (aside.user, aside.segment, aside.samples, aside.verdict) == ("bob", SegmentKey(0, 2), 6, "ValueError")
        same(device, lived(GIVEN, WITHOUT))
    with device_at(tmp_path / "home") as device:
        assert device.ledger.quarantined() == [aside]
        assert not device.waiting()
        same(device, lived(GIVEN, WITHOUT))
        device.learn({u: drawn(u, 4) for u in USERS})
        same(device, lived([*GIVEN, {u: drawn(u, 4) for u in USERS}], WITHOUT))
        assert device.verify(processes=0).holds
    whole(tmp_path / "home")


@pytest.mark.parametrize("reopened", [False, True])
def test_a_partial_forget_judges_the_rest_anew(tmp_path, reopened):
    given = rounds({("bob", 2): {3: POISON}, ("cyn", 3): {0: POISON}})
    device = lived_at(tmp_path / "home", given)
    assert len(device.ledger.quarantined()) == 2
    if reopened:
        device.close()
        device = device_at(tmp_path / "home")
    with device:
        device.forget("bob", handles=[handle_of(device, "bob", 2, POISON)], repair="later")
        assert [each.user for each in device.ledger.quarantined()] == [], "cyn's is replayed as well"
        device.repair()
        assert [each.user for each in device.ledger.quarantined()] == ["cyn"]
        same(device, lived(given, [("bob", 2, 3), *all_of("cyn", 3)]))
        device.forget("cyn", rounds=[3])
        same(device, lived(given, [("bob", 2, 3), *all_of("cyn", 3)]))
    whole(tmp_path / "home")
    with device_at(tmp_path / "home") as device:
        same(device, lived(given, [("bob", 2, 3), *all_of("cyn", 3)]))


def test_what_a_forget_takes_out_of_quarantine_is_in_its_segment_at_the_next_opening(tmp_path):
    given = rounds({("bob", 2): {3: POISON}, ("cyn", 3): {0: POISON}})
    with lived_at(tmp_path / "home", given) as device:
        device.forget("bob", handles=[handle_of(device, "bob", 2, POISON)], repair="later")
        counts = [(segment.key, segment.count, segment.manifest) for segment in device.ledger.lineage(0)]
    with device_at(tmp_path / "home") as device:
        assert [(segment.key, segment.count, segment.manifest) for segment in device.ledger.lineage(0)] == counts
        device.repair()
        same(device, lived(given, [("bob", 2, 3), *all_of("cyn", 3)]))
    whole(tmp_path / "home")


def test_forgetting_all_of_it_replays_nothing_destroys_its_keys_and_has_a_receipt(tmp_path):
    with lived_at(tmp_path / "home", GIVEN) as device:
        names = set(device.ledger.upload("bob", 2).blocks.names)  # type: ignore[attr-defined]
        trained = device.learner.trained  # type: ignore[attr-defined]
        (done,) = device.forget("bob", rounds=[2])
        assert device.learner.trained == trained  # type: ignore[attr-defined]
        assert device.ledger.quarantined() == []
        assert not names & device.home.vault.names()
        receipts = device.home.receipts.listed()
        assert {each["kind"] for each in receipts if each["request"] == done.ids[0]} == {"effect", "repair"}
        assert {each["samples"] for each in receipts} == {6}
        assert device.verify(done.ids[0], processes=0).holds
        same(device, lived(GIVEN, WITHOUT))
    whole(tmp_path / "home")


def test_a_receipt_from_before_is_superseded_not_wrong(tmp_path):
    with device_at(tmp_path / "home") as device:
        device.learn(GIVEN[0])
        (done,) = device.forget("ann", rounds=[1])
        device.learn(GIVEN[1])
        verification = device.verify(device.home.receipts.numbers(done.ids[0])[0], processes=0)
        assert verification.holds
        assert "data of shard 0" in verification.superseded


def test_a_kill_between_the_verdict_and_its_commit_changes_nothing(tmp_path, monkeypatch):
    device_at(tmp_path / "home").close()

    def work():
        monkeypatch.setattr(store_ledger, "set_aside", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        device = device_at(tmp_path / "home")
        for uploads in GIVEN:
            device.learn(uploads)

    killed(work)
    with device_at(tmp_path / "home") as device:
        assert device.ledger.round == 2
        assert device.ledger.quarantined() == []
        device.repair()
        assert [each.user for each in device.ledger.quarantined()] == ["bob"]
        device.learn(GIVEN[2])
        same(device, lived(GIVEN, WITHOUT))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_while_it_is_written_down_leaves_a_home_that_goes_on(tmp_path, monkeypatch, when):
    honest = quarantine_rows.set_aside

    def fails(*args):
        if when == "after":
            honest(*args)
        raise OSError("the disk stumbled")

    with device_at(tmp_path / "home") as device:
        device.learn(GIVEN[0])
        with monkeypatch.context() as patch:
            patch.setattr(store_ledger, "set_aside", fails)
            with pytest.raises(OSError, match="stumbled"):
                device.learn(GIVEN[1])
        device.repair()
        device.learn(GIVEN[2])
        same(device, lived(GIVEN, WITHOUT))
    whole(tmp_path / "home")


def test_an_upload_that_spreads_over_shards_loses_only_the_part_that_fails(tmp_path):
    system = "sisa:policy=unlimited"
    given = [{u: drawn(u, t, {3: POISON} if (u, t) == ("bob", 2) else None, 12) for u in USERS} for t in (1, 2, 3)]
    with lived_at(tmp_path / "home", given, system=system, shards=2) as device:
        (aside,) = device.ledger.quarantined()
        held = dict(device.ledger.pieces_of("bob", 2))[aside.segment]
        x, _ = device.ledger.upload("bob", 2).arrays(held)  # type: ignore[attr-defined]
        rows = {row.tobytes() for row in x}
        left_out = [("bob", 2, i) for i, row in enumerate(given[1]["bob"][0]) if row.tobytes() in rows]
        assert 0 < len(left_out) < 12
        same(device, lived(given, left_out, shards=2, system=system))
        other = next(key for key, _ in device.ledger.pieces_of("bob", 2) if key.shard != aside.segment.shard)
        position = int(dict(device.ledger.pieces_of("bob", 2))[other][0])
        taken = device.ledger.upload("bob", 2).arrays(range(position, position + 1))[0].tobytes()  # type: ignore[attr-defined]
        device.forget("bob", samples=[(2, position)])
        assert device.ledger.quarantined() == [aside], "its own part did not change"
        left_out += [("bob", 2, i) for i, row in enumerate(given[1]["bob"][0]) if row.tobytes() == taken]
        same(device, lived(given, left_out, shards=2, system=system))
    whole(tmp_path / "home")
    with device_at(tmp_path / "home", system=system, shards=2) as device:
        assert device.ledger.quarantined() == [aside]
        same(device, lived(given, left_out, shards=2, system=system))


def test_a_whole_segment_that_is_set_aside_comes_back_when_it_is_fine(tmp_path):
    given = [{"ann": drawn("ann", 1)}, {"bob": drawn("bob", 2, {0: POISON})}, {"ann": drawn("ann", 3)}]
    with lived_at(tmp_path / "home", given) as device:
        same(device, lived(given, all_of("bob", 2)))
    with device_at(tmp_path / "home") as device:
        device.forget("bob", handles=[handle_of(device, "bob", 2, POISON)])
        assert device.ledger.quarantined() == []
        same(device, lived(given, [("bob", 2, 0)]))
    whole(tmp_path / "home")


def test_what_is_too_old_goes_from_quarantine_too(tmp_path):
    with lived_at(tmp_path / "home", GIVEN, retain="2 rounds") as device:
        device.learn({u: drawn(u, 4) for u in USERS})
        assert device.ledger.quarantined() == []
        expired = [each for u in USERS for t in (1, 2) for each in all_of(u, t)]
        assert not differences(device, lived([*GIVEN, {u: drawn(u, 4) for u in USERS}], expired))


def test_a_backup_brings_it_back(tmp_path):
    from cause.device.backup.restore import restore

    with lived_at(tmp_path / "home", GIVEN) as device:
        backup(device.home, tmp_path / "backup")
        device.forget("ann", rounds=[3])
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / "home" / name).unlink(missing_ok=True)
    restore(tmp_path / "backup", tmp_path / "home")
    with device_at(tmp_path / "home") as device:
        device.repair()
        assert [each.user for each in device.ledger.quarantined()] == ["bob"]
        same(device, lived(GIVEN, WITHOUT + all_of("ann", 3)))
    whole(tmp_path / "home")


def test_status_names_it_and_the_shard_that_fails(tmp_path):
    with lived_at(tmp_path / "home", GIVEN) as device:
        shown = status(device)
        (aside,) = shown.quarantined
        assert (aside.user, aside.round, aside.segment.shard, aside.samples) == ("bob", 2, 0, 6)
        assert shown.samples == 84
        bad = {"ann": drawn("ann", 4, {0: SALT}), "bob": drawn("bob", 4, {0: PEPPER})}
        with contextlib.suppress(ValueError):
            device.learn(bad)
        assert status(device).shards[0].problem == "ValueError"
    with Cause(tmp_path / "home", learner=FragileLearner(CLASSES), read_only=True) as reader:
        assert reader.status().shards[0].problem == "ValueError"
        assert [each.user for each in reader.status().quarantined] == ["bob"]
        assert reader.verify(processes=0).holds, "what is stored can be verified all the same"
    with device_at(tmp_path / "home") as device:
        device.forget("bob", rounds=[4])
        assert status(device).shards[0].problem is None


def test_dropping_it_is_a_request_with_a_receipt(tmp_path):
    from cause.errors import RequestError

    with lived_at(tmp_path / "home", GIVEN) as device:
        (aside,) = device.ledger.quarantined()
        with pytest.raises(RequestError, match="no upload 99 in quarantine"):
            device.drop(99)
        done = device.drop(aside.upload)
        assert done.samples == 6
        assert device.home.receipts.numbers(done.ids[0])
        assert device.ledger.quarantined() == []
        assert device.ledger.rounds_of("bob") == [1, 3]
        same(device, lived(GIVEN, WITHOUT))


def test_dropping_it_leaves_what_stands_under_another_way_to_write_the_name(tmp_path):
    with pytest.MonkeyPatch.context() as patch:  # names as earlier versions took them
        for module in ("engine.checks", "device.device"):
            patch.setattr(f"cause.{module}.normal_name", lambda name: name, raising=False)
        uploads = {"zoe ": drawn("a", 1, {3: POISON}), "zoe": drawn("b", 1), "ann": drawn("ann", 1)}
        device = lived_at(tmp_path / "home", [uploads])
    with device:
        (aside,) = device.ledger.quarantined()
        assert aside.user == "zoe "
        assert device.drop(aside.upload).samples == 6
        assert device.ledger.quarantined() == []
        assert [device.ledger.rounds_of(name) for name in ("zoe ", "zoe")] == [[], [1]]


def test_the_history_tells_of_it_as_of_any_upload(tmp_path):
    with lived_at(tmp_path / "home", GIVEN) as device:
        before = history(device.home)
        assert sum(add.part.count for each in before.rounds for add in each.adds) == 90
        device.forget("bob", rounds=[2])
        assert [request for each in history(device.home).rounds for request in each.forgets] == [Request("u2", (2,), 6)]
