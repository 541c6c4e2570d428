"""A device that lives on a disk: closed and opened again it is the same, to the bit."""

import os
import subprocess
import sys
import time
from threading import Thread
from typing import Any

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.disk import Disk
from cause.device.exports.export import export
from cause.device.home.home import Home
from cause.device.status import status
from cause.device.store.blocks import Files
from cause.device.store.named_keys import KEYED
from cause.device.store.stored_sub_models import SubModelDeletion
from cause.device.vault import EnvKeySource, Vault
from cause.device.verify import verify
from cause.engine.memory import POLICIES
from cause.engine.presets import PRESETS
from cause.engine.requests import Request
from cause.errors import BudgetError, HomeError, InputError, RequestError
from cause.learners.torch import TorchLearner
from tests.clean_room import differences
from tests.device.homes import CLASSES, ERASE, MASTER, bayes, learn, opened, samples
from tests.quick import quick_only


def story(device, reopen=lambda device: device):
    """Rounds and requests of all kinds; `reopen` comes between any two."""
    learn(device, a=40, b=9, c=150)
    device = reopen(device)
    learn(device, a=11, d=5)
    device = reopen(device)
    device.forget("a", rounds=[1], count=7)
    device = reopen(device)
    device.forget("d")
    device = reopen(device)
    learn(device, c=3, d=4)
    device = reopen(device)
    device.forget("c", samples=[(1, 0), (1, 149), (3, 1)], repair="later")
    device = reopen(device)
    learn(device, b=8)
    device = reopen(device)
    device.repair()
    return reopen(device)


def in_memory(**settings) -> Cause:
    return Cause(learner=bayes(), **{"system": "frugal", "shards": 2, "slots": 8, **settings})


SLICED = "cause:partition=hash,slices=2,rehearsal=0.5"


@pytest.mark.parametrize("name", quick_only([*PRESETS, SLICED], ("cause", "sisa", "frugal", "cause-printed", SLICED)))
def test_a_home_is_the_device_that_lives_in_memory(tmp_path, name):
    device, plain = story(opened(tmp_path / "home", system=name)), story(in_memory(system=name))
    assert differences(device, plain) == []
    assert device.memory.stored() == plain.memory.stored()
    assert verify(device, processes=0).mismatched == []
    device.close()


@pytest.mark.parametrize(
    "policy", quick_only([name for name in POLICIES if name != "unlimited"], ("fibor", "random", "cost", "adaptive"))
)
def test_a_device_opened_again_between_any_two_calls_is_the_same(tmp_path, policy):
    def again(device):
        device.close()
        return Cause(tmp_path / "home")  # all it needs to know is there

    settings: dict[str, Any] = {"system": f"cause:policy={policy},partition=uniform", "slots": 5}
    device, plain = story(opened(tmp_path / "home", **settings), again), story(in_memory(**settings))
    assert differences(device, plain) == []
    assert device.memory.stored() == plain.memory.stored()
    assert device.memory.policy.state() == plain.memory.policy.state()
    device.close()


def test_torch_sub_models_survive_too(tmp_path):
    def learner():
        return TorchLearner("mlp", classes=CLASSES, shape=(6,), epochs=2, options=(("width", 16),), round_to=2)

    device = opened(tmp_path / "home", learner=learner(), memory="1MB", slots=None)
    learn(device, a=30, b=20)
    before = {key: device.memory.shelf.get(key) for key in device.memory.stored()}
    device.close()
    device = Cause(tmp_path / "home")
    assert {key: device.memory.shelf.get(key) for key in device.memory.stored()} == before
    assert verify(device, processes=0).identical == sorted(before)
    device.close()


def test_forgetting_now_and_repairing_later_ends_where_forgetting_at_once_does(tmp_path):
    now, later = opened(tmp_path / "now"), opened(tmp_path / "later")
    for device, repair in ((now, "now"), (later, "later")):
        learn(device, a=30, b=20)
        learn(device, a=10, b=10)
        device.forget("a", rounds=[1], count=3, repair=repair)
        device.forget("b", rounds=[2], repair=repair)
        t = device.ledger.round + 1
        device.learn({"a": samples("a", t, 6)}, repair=repair)
    assert later.waiting()
    assert set(later.heads()) <= set(now.heads())
    later.repair()
    assert later.waiting() == []
    assert differences(now, later) == []
    now.close(), later.close()


def test_while_a_repair_waits_the_newest_clean_sub_model_votes(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    for _ in range(3):
        learn(device, a=30)
    clean = device.memory.shelf.get(device.memory.stored()[0])
    device.forget("a", rounds=[2], count=1, repair="later")
    assert [key.round for key in device.memory.stored()] == [1]
    assert device.memory.shelf.get(device.memory.stored()[0]) == clean
    assert len(device.predict(samples("x", 1, 5)[0])) == 5
    device.forget("a", rounds=[1], count=1, repair="later")
    assert device.heads() == {}
    device.repair()
    assert [key.round for key in device.memory.stored()] == [1, 2, 3]
    device.close()


def test_repair_stops_at_a_segments_end_and_goes_on_later(tmp_path):
    device, whole = opened(tmp_path / "home", shards=1), in_memory(shards=1)
    for each in (device, whole):
        for _ in range(4):
            learn(each, a=30)
    whole.forget("a", rounds=[1], count=1)
    device.forget("a", rounds=[1], count=1, repair="later")
    steps = 0
    while device.waiting():
        device.repair(stop=lambda: True)
        steps += 1
        assert [key.round for key in device.memory.stored()] == list(range(1, steps + 1))
    assert steps == 4
    assert differences(device, whole) == []
    device.close()


def test_a_second_process_is_refused_with_the_holders_pid_and_may_read(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=30)
    expected = device.predict(samples("x", 1, 5)[0]).tolist()
    code = (
        "import sys; from cause.device.device import Cause; from tests.device.homes import samples\n"
        "print(Cause(sys.argv[1], read_only=True).predict(samples('x', 1, 5)[0]).tolist())\n"
        "Cause(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "home"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CAUSE_TEST_KEY": MASTER},
    )  # fmt: skip
    assert done.stdout == f"{expected}\n"
    assert f"is in use by process {os.getpid()}" in done.stderr
    device.close()


def test_a_full_store_refuses_an_upload_and_nothing_changes(tmp_path):
    device = opened(tmp_path / "home", storage="40KB")
    learn(device, a=100)
    with pytest.raises(BudgetError, match=r"of 40\.00 KB for samples"):
        learn(device, b=2_000)
    assert device.ledger.round == 1
    learn(device, b=10)
    assert verify(device, processes=0).mismatched == []
    device.close()


@pytest.mark.parametrize("part", ["cause.toml", "ledger.db", "vault", "blocks"])
def test_a_home_with_something_missing_is_refused_and_left_alone(tmp_path, part):
    device = opened(tmp_path / "home")
    learn(device, a=30)
    device.close()
    (tmp_path / "home" / part).rename(tmp_path / "elsewhere")
    before = sorted(path.name for path in (tmp_path / "home").rglob("*"))
    with pytest.raises((HomeError, InputError)) as caught:
        Cause(tmp_path / "home")
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "home").rglob("*")) == before


def test_an_emptied_ledger_does_not_make_the_home_destroy_its_keys(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=30)
    keys = device.home.vault.names()
    device.close()
    for path in (tmp_path / "home").glob("ledger.db*"):
        path.unlink()
    (tmp_path / "home" / "ledger.db").touch()
    with pytest.raises(HomeError, match="is empty"):
        Cause(tmp_path / "home")
    with Vault.open(tmp_path / "home" / "vault", _source(), read_only=True) as vault:
        assert vault.names() == keys


def test_nothing_of_a_forgotten_block_is_remembered_in_memory(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=5, b=5)
        device.samples_of("a")
        remembered = device.home.store.blocks._metas
        names = device.home.ledger.upload("a", 1).blocks.names
        assert set(names) <= set(remembered)
        device.forget("a", rounds=[1], count=1)
        assert not set(names) & set(remembered)


def test_the_key_of_a_users_name_goes_with_their_last_sample(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=5, b=5)
        (before,) = device.home.database.row("SELECT key FROM directory")
        device.forget("a", rounds=[1], count=1)
        assert bytes(before) in device.home.vault, "something of this user is still held"
        device.forget("a")
        assert bytes(before) not in device.home.vault


def test_an_export_of_a_sub_model_that_was_evicted_since_is_tainted_too(tmp_path):
    with opened(tmp_path / "home", system="frugal:policy=latest", shards=1) as device:
        learn(device, a=5, b=20)
        export(device, tmp_path / "model.npz")
        learn(device, b=20)
        assert [key.round for key in device.memory.stored()] == [2]
        device.forget("a")
        (exported,) = status(device).exports
        assert exported.tainted is not None


def test_a_foreign_folder_a_newer_format_and_another_recipe_are_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"x")
    with pytest.raises(HomeError, match="is not a home"):
        Cause(tmp_path / "photos")
    with pytest.raises(HomeError, match="is not empty"):
        opened(tmp_path / "photos")
    device = opened(tmp_path / "home")
    learn(device, a=30)
    with pytest.raises(HomeError, match="was made with shards = 2, not 3"):
        opened(tmp_path / "home", shards=3)
    device.close()
    with pytest.raises(HomeError, match="recipe is not that of the sub-models"):
        Cause(tmp_path / "home", learner=TorchLearner("mlp", classes=CLASSES, shape=(6,)))
    home = Home(tmp_path / "home", _source())
    home.database.run("PRAGMA user_version=99")
    home.close()
    with pytest.raises(HomeError, match="has format 99"):
        Cause(tmp_path / "home")


def test_another_master_key_opens_nothing(tmp_path, monkeypatch):
    device = opened(tmp_path / "home")
    device.close()
    monkeypatch.setenv("CAUSE_TEST_KEY", "22" * 32)
    with pytest.raises(Exception, match="master key"):
        Cause(tmp_path / "home")


def test_a_damaged_sub_model_is_found_dropped_and_made_again(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    for _ in range(3):
        learn(device, a=30)
    head = device.memory.stored()[-1]
    whole = device.memory.shelf.get(head)
    path = device.home.shelf.files.path(device.home.shelf.names[head])
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    x = samples("x", 1, 5)[0]
    device.predict(x)  # the one before it answers
    assert device.waiting() == [0]
    device.repair()
    assert device.memory.shelf.get(head) == whole
    device.close()


def test_a_damaged_sub_model_whose_deletion_failed_is_deleted_by_the_next_training(tmp_path, monkeypatch):
    device = opened(tmp_path / "home", shards=1)
    for _ in range(3):
        learn(device, a=30)
    head = device.memory.stored()[-1]
    device.home.shelf.files.path(device.home.shelf.names[head]).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(SubModelDeletion, "delete_rows", lambda self: (_ for _ in ()).throw(HomeError("no room")))
        with pytest.raises(HomeError, match="no room"):
            device.predict(samples("x", 1, 5)[0])
    device.repair()
    rows = device.home.database.rows("SELECT key FROM sub_models")
    assert {bytes(name) for (name,) in rows} == set(device.home.shelf.names.values())
    device.close()


def test_nothing_in_the_home_names_a_user_or_shows_a_sample(tmp_path):
    device = opened(tmp_path / "home")
    x = np.full((3, 6), 1234.5, dtype=np.float32)
    device.learn({"maria-gonzalez": (x, [0, 1, 2])})
    device.forget("maria-gonzalez", rounds=[1], count=1, repair="later")
    data = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"maria" not in data
    assert x[0, :2].tobytes() not in data
    device.close()


def _source():
    return EnvKeySource("CAUSE_TEST_KEY")


def test_samples_that_cannot_be_read_any_more_can_be_forgotten_with_their_round_or_user(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=200, b=5)
    device.home.store.blocks.files.path(device.home.ledger.upload("a", 1).blocks.names[1]).write_bytes(
        b"nothing that was sealed"
    )
    device.close()
    with opened(tmp_path / "home") as again:
        again.forget("a")
        assert again.ledger.rounds_of("a") == []
        again.forget("b")
        assert list((tmp_path / "home" / "blocks").iterdir()) == []


def test_a_block_that_is_forgotten_while_it_is_read_leaves_nothing_in_memory(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=5, b=5)
        store, (name,) = device.home.store.blocks, device.home.ledger.upload("a", 1).blocks.names
        store.drop(name)
        read = store.files.read

        def meanwhile(requested):
            data = read(requested)
            if requested == name:
                store.files.read = read
                device.forget("a", repair="later")  # another thread's, while a worker's lesson is read
            return data

        monkeypatch.setattr(store.files, "read", meanwhile)
        with pytest.raises(HomeError, match="lost"):
            store.meta(name)
        assert name not in store._metas


def test_an_erasure_that_could_not_be_accepted_can_be_repeated_with_its_id(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=5)
        with monkeypatch.context() as broken:
            broken.setattr(device.home.database, "transaction", _full)
            with pytest.raises(HomeError, match="full"):
                device.serve([Request("a")], ids=["ab" * 16], **ERASE)
        assert device.ledger.rounds_of("a") == [1]
        device.serve([Request("a")], ids=["ab" * 16], **ERASE)
        assert device.ledger.rounds_of("a") == []
        assert bytes.fromhex("ab" * 16) not in device.home.vault


def test_no_receipt_says_that_samples_are_deleted_before_their_key_is_destroyed(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=5, b=5)
        (name,) = device.home.ledger.upload("a", 1).blocks.names
        with monkeypatch.context() as broken:
            broken.setattr(device.home.vault, "erase", lambda names: _full())
            with pytest.raises(HomeError, match="full"):
                device.serve([Request("a")], **ERASE)
        assert name in device.home.vault
        assert device.home.receipts.listed() == []
        device.repair()
        assert name not in device.home.vault
        assert not device.home.store.blocks.files.path(name).exists()
        assert [each["kind"] for each in device.home.receipts.listed()] == ["effect", "repair"]


def _full():
    raise HomeError("the disk is full")


def test_a_home_that_lost_its_configuration_is_not_made_anew(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=30)
    device.close()
    (tmp_path / "home" / "cause.toml").unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()}
    with pytest.raises(HomeError, match="is not empty"):
        opened(tmp_path / "home")
    assert {path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()} == before


def test_samples_expire_by_rounds_as_one_coalesced_forget(tmp_path):
    device = opened(tmp_path / "home", shards=1, retain="2 rounds")
    for _ in range(4):
        learn(device, a=20, b=10)
    assert device.ledger.rounds_of("a") == device.ledger.rounds_of("b") == [3, 4]
    effects = [each for each in device.home.receipts.listed() if each["kind"] == "effect"]
    assert len({each["served_with"] for each in effects}) == 2  # once in round 3, once in round 4
    assert verify(device, processes=0).identical == device.memory.stored()
    device.close()


def test_samples_expire_by_days(tmp_path):
    device = opened(tmp_path / "home", shards=1, retain="30 days")
    learn(device, a=20)
    device.home.time.now = lambda: time.time() + 40 * 86_400
    learn(device, b=10)
    assert device.ledger.rounds_of("a") == []
    assert device.expire() is None
    device.close()


class Eager:
    """A lock for which another thread waits at every release."""

    def __init__(self, lock, somebody_else):
        self.lock, self.depth, self.somebody_else = lock, 0, somebody_else

    def __enter__(self):
        self.lock.acquire()
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        self.lock.release()
        if not self.depth and self.somebody_else:
            other, self.somebody_else = Thread(target=self.somebody_else), None
            other.start()
            other.join()


@pytest.mark.parametrize("repair", ["now", "later"])
def test_a_request_for_samples_that_are_just_expiring_is_refused_and_changes_nothing(tmp_path, repair):
    device = opened(tmp_path / "home", shards=1, retain="2 rounds")
    for _ in range(2):
        learn(device, a=20, b=10)
    device.home.retain = (1, None)
    answers: list[Any] = []

    def forget():
        try:
            answers.append(device.forget("a", rounds=[1], repair="later"))
        except RequestError as error:
            answers.append(str(error))

    device.state.lock = Eager(device.state.lock, forget)  # type: ignore[assignment]
    done = device.expire(repair=repair)
    assert [(request.user, request.rounds) for request in done.requests] == [("a", (1,)), ("b", (1,))]
    assert answers == ["user 'a' has nothing retained of round 1 (of 2 only)"]
    assert device.ledger.rounds_of("a") == device.ledger.rounds_of("b") == [2]
    assert (device.waiting(), done.rsn) == (([], 30) if repair == "now" else ([0], 0))
    device.close()


def test_a_request_from_before_an_error_whose_samples_expired_since_is_served_once(tmp_path, monkeypatch):
    device = opened(tmp_path / "home", shards=1, retain="2 rounds")
    for _ in range(2):
        learn(device, a=20, b=10)
    with monkeypatch.context() as patch:
        patch.setattr(Home, "effect", lambda *_: (_ for _ in ()).throw(HomeError("no room")))
        with pytest.raises(HomeError, match="no room"):
            device.forget("a", rounds=[1])
    device.home.retain = (1, None)
    assert [request.user for request in device.expire().requests] == ["b"]
    assert device.ledger.rounds_of("a") == device.ledger.rounds_of("b") == [2]
    device.close()


@pytest.mark.parametrize("named", [{"rounds": (1, 2)}, {"samples": ((1, 0), (1, 4), (2, 0), (2, 1), (2, 2))}])
def test_an_accepted_request_of_which_others_took_a_part_still_takes_the_rest_after_a_crash(tmp_path, named):
    device = opened(tmp_path / "home", system="cause", repair="now")
    learn(device, a=5, b=5, c=5)
    learn(device, a=3, b=5, c=5)

    def crash(step):
        device.watch = None
        device.serve([Request("a", rounds=(1,))], **ERASE)  # another thread's, while the first of two is repaired
        raise KeyboardInterrupt

    device.watch = crash
    with pytest.raises(KeyboardInterrupt):
        device.serve([Request("b"), Request("a", **named)])
    assert device.ledger.rounds_of("a") == [2]
    device.close()
    with opened(tmp_path / "home", system="cause", repair="now") as again:
        assert again.home.accepted() == []
        assert again.ledger.rounds_of("a") == []


def test_the_status_of_a_reader_follows_the_writer(tmp_path):
    device = opened(tmp_path / "home", shards=1)
    learn(device, a=30)
    reader = Cause(tmp_path / "home", read_only=True)
    assert reader.status().round == 1
    device.forget("a", rounds=[1], count=1, repair="later")
    state = reader.status()
    assert [(shard.behind, shard.since is not None) for shard in state.shards] == [(1, True)]
    assert state.repair.rsn == 29
    reader.close(), device.close()


def test_a_home_made_to_repair_later_does_so_unless_the_call_says_otherwise(tmp_path):
    device = opened(tmp_path / "home", shards=1, repair="later")
    learn(device, a=30)
    device.forget("a", rounds=[1], count=1)
    learn(device, a=5)
    assert device.waiting() == [0]
    device.close()
    device = Cause(tmp_path / "home")
    device.forget("a", rounds=[1], count=1, repair="now")
    assert device.waiting() == []
    device.close()


def test_of_an_upload_that_lost_samples_the_history_keeps_no_classes(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, a=30, b=20)
    rows = "SELECT sealed_classes IS NULL FROM history WHERE kind='add' ORDER BY seq"
    assert device.home.database.rows(rows) == [(0,), (0,)]
    device.forget("a", rounds=[1], count=1, repair="later")
    assert sorted(device.home.database.rows(rows)) == [(0,), (1,)]
    device.close()


def test_who_writes_no_file_does_not_wait_for_the_disk(tmp_path):
    waited = []

    class Watched(Disk):
        def sync_folder(self, folder):
            waited.append(folder)
            super().sync_folder(folder)

    files = Files(tmp_path, Watched())
    files.write([])
    assert waited == []
    files.write([(b"name", b"data")])
    assert waited == [tmp_path]


def test_no_table_that_names_keys_is_left_out_when_a_home_is_cleaned(tmp_path):
    device = opened(tmp_path / "home")
    rows = "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type='table' AND c.name='key'"
    assert {table for (table,) in device.home.database.rows(rows)} == set(KEYED)
    device.close()


def modes(folder) -> dict[str, int]:
    """Of what is not its owner's alone."""
    all_modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    return {name: mode for name, mode in all_modes.items() if mode & 0o077}


@pytest.fixture
def open_handed():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_every_file_of_a_home_is_its_owners_alone(tmp_path, open_handed):
    with opened(tmp_path / "home") as device:
        learn(device, a=9)
        assert {path.name for path in (tmp_path / "home").glob("ledger.db*")} == {
            "ledger.db", "ledger.db-shm", "ledger.db-wal"
        }  # fmt: skip
        assert modes(tmp_path / "home") == {}


def test_a_ledger_that_others_may_read_is_its_owners_alone_once_it_was_opened_for_writing(tmp_path, open_handed):
    home = tmp_path / "home"
    opened(home).close()
    for end in ("", "-wal", "-shm"):
        (home / f"ledger.db{end}").touch()
        (home / f"ledger.db{end}").chmod(0o644)
    Cause(home, read_only=True).close()
    assert modes(home)["ledger.db"] == 0o644, "who only reads changes nothing"
    for end in ("-wal", "-shm"):
        (home / f"ledger.db{end}").touch()
        (home / f"ledger.db{end}").chmod(0o644)
    with Cause(home):
        assert modes(home) == {}


@pytest.mark.parametrize("system", ["frugal", "cause", "sisa"])
def test_a_life_in_many_processes_stores_what_one_process_stores(tmp_path, system):
    """Four rounds, a forget and a round, each in an opening of its own, beside the same in one."""
    apart, whole = tmp_path / "apart", tmp_path / "whole"
    steps = [
        lambda device: learn(device, alice=30),
        lambda device: learn(device, alice=31),
        lambda device: learn(device, alice=32),
        lambda device: learn(device, bob=33),
        lambda device: device.forget("alice", rounds=[2]),
        lambda device: learn(device, alice=8, bob=9, carol=10),
    ]
    with opened(whole, system=system, slots=3) as device:
        for step in steps:
            step(device)
            with opened(apart, system=system, slots=3) as other:
                step(other)
                views = [{key: each.memory.slot_of(key) for key in each.memory.stored()} for each in (device, other)]
                assert views[0] == views[1]
                assert other.memory.policy.state() == device.memory.policy.state()


def test_fewer_slots_than_are_in_use_are_refused_at_opening(tmp_path, monkeypatch):
    with opened(tmp_path / "home", slots=4) as device:
        for _ in range(4):
            learn(device, alice=20, bob=20)
    config = tmp_path / "home" / "cause.toml"
    config.write_text(config.read_text().replace("slots = 4", "slots = 2"))
    with pytest.raises(HomeError, match="was edited: slots 4 -> 2"):
        Cause(tmp_path / "home", learner=bayes())
    config.write_text(config.read_text().replace("slots = 2", "slots = 4"))
    monkeypatch.setattr("cause.engine.engine.sized", lambda *sizes, bounded, apart: (2, 10**9))
    with pytest.raises(BudgetError, match="4 of the memory's slots are in use, and only 2 are configured"):
        Cause(tmp_path / "home", learner=bayes())
