"""A home with an additive learner: in effect when a call returns, whole after a restart, small in its writes."""

import os
import tarfile
import weakref
from pathlib import Path

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.exports.export import export
from cause.device.fsck import examine_home
from cause.device.status import status
from cause.device.store.ledger import HomeLedger, StoredSegment
from cause.engine.adding import Adding, hash_of
from cause.errors import CauseError, HomeError, InputError
from tests.device.homes import CLASSES, FEATURES, MASTER, samples

EARLIER = Path(__file__).parents[1] / "fixtures" / "additive-chained.tar.xz"


def additive(**arguments) -> AdditiveLearner:
    return AdditiveLearner(**{"features": FEATURES, "scale": (-3, 3), "classes": CLASSES, **arguments})


def opened(folder, learner=None, **settings) -> Cause:
    os.environ["CAUSE_TEST_KEY"] = MASTER
    return Cause(folder, learner=learner or additive(), key={"env": "CAUSE_TEST_KEY"}, **settings)


def state_of(device: Cause) -> bytes:
    return device.memory.shelf.get(device.memory.head(0).key)


def crashed(device: Cause) -> None:
    """End a device as a crash does: nothing is stored that was not yet."""
    device.journal.close()


def clean(*rounds: dict[str, int]) -> bytes:
    """The state of a device in memory that learned only this."""
    device = Cause(learner=additive())
    for t, uploads in enumerate(rounds, start=1):
        device.learn({user: samples(user, t, count) for user, count in uploads.items()})
    return state_of(device)


def learn(device: Cause, **counts: int) -> None:
    t = device.ledger.round + 1
    device.learn({user: samples(user, t, count) for user, count in counts.items()})


def test_in_effect_and_repaired_when_a_call_returns(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, ann=5, bob=4)
        assert device.waiting() == []
        (done,) = device.forget("ann", repair="later")
        assert (done.rsn, done.samples, device.waiting()) == (0, 5, [])
        assert state_of(device) == clean({"bob": 4})
        status = device.status()
        assert (status.requests, status.repair.trainings, status.voting) == ((), 0, 1)
        kinds = [receipt["kind"] for receipt in device.home.receipts.listed()]
        assert kinds == ["effect", "repair"]
        for number in range(2):
            verification = device.verify(number)
            assert verification.holds
            assert not verification.superseded
        effect = device.home.receipts.listed()[0]
        assert effect["rsn_planned"] == 0
        assert effect["shards"][0]["serving"] is not None


def test_a_staged_upload_is_in_effect_when_the_call_returns(tmp_path):
    with opened(tmp_path / "home") as device:
        x, y = samples("ann", 1, 3)
        called = device.stage("ann", x, y, call="ab" * 16)
        assert device.stage("ann", x, y, call="ab" * 16).id == called.id  # a repeated call changes nothing
        assert (device.ledger.round, device.status().samples, device.waiting()) == (1, 3, [])
        assert (called.round, called.samples, len(called.handles)) == (1, 3, 3)
        assert state_of(device) == clean({"ann": 3})
        device.forget("ann", handles=called.handles[:1])
        assert device.status().samples == 2


@pytest.mark.parametrize("goes_on", ["opening", "stage", "repair"])
def test_an_upload_whose_call_ended_between_its_two_commits_is_learned_by_the_next_one(tmp_path, monkeypatch, goes_on):
    x, y = samples("ann", 1, 3)
    with opened(tmp_path / "home") as device:
        with monkeypatch.context() as broken:
            failing = CauseError("the disk is gone")
            broken.setattr(device.home.ledger, "record", lambda *_, **__: (_ for _ in ()).throw(failing))
            with pytest.raises(CauseError, match="do not send them again") as error:
                device.stage("ann", x, y, call="ab" * 16)
        assert "do not send them again" in error.value.recorded
        if goes_on == "opening":
            crashed(device)
            device = opened(tmp_path / "home")
        else:
            device.repair() if goes_on == "repair" else device.stage("ann", x, y, call="ab" * 16)
        assert len(device.home.inbox) == 0
        assert device.stage("ann", x, y, call="ab" * 16).round == 1
        assert state_of(device) == clean({"ann": 3})
        device.close()


def test_staged_uploads_expire_by_rounds_as_learned_ones_do(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        for t in range(1, 6):
            device.stage("ann", *samples("ann", t, 3))
            assert device.status().samples == 3 * min(t, 2)


def test_the_state_is_that_of_before_after_a_restart_and_after_a_crash(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5, bob=4)
    device.forget("bob", rounds=[1], count=1)
    before = state_of(device)
    device.close()
    with opened(tmp_path / "home") as device:
        assert device.waiting() == []
        assert state_of(device) == before
        learn(device, ann=2)
        after = state_of(device)
        crashed(device)
    with opened(tmp_path / "home") as device:
        assert device.state.waiting() == [0]
        assert device.predict(samples("ann", 1, 2)[0]).shape == (2,)  # what is missing is added up first
        assert state_of(device) == after
        device.repair()
        assert device.verify().holds
    with Cause(tmp_path / "home", read_only=True) as reader:
        assert reader.predict(samples("ann", 1, 2)[0]).shape == (2,)


def test_a_crash_after_a_forget_adds_up_what_is_left(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5, bob=4)
    device.close()
    device = opened(tmp_path / "home")
    files = set(device.home.layout.sub_models.iterdir())
    device.forget("ann")
    assert not files & set(device.home.layout.sub_models.iterdir()), "a state that has seen ann is still there"
    crashed(device)
    with opened(tmp_path / "home") as device:
        device.repair()
        assert state_of(device) == clean({"bob": 4})


def test_a_damaged_state_is_added_up_again(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5)
    before = state_of(device)
    device.close()
    (file,) = device.home.layout.sub_models.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert any("sub-model (0,1)" in problem.what for problem in examine_home(tmp_path / "home").problems)
    with opened(tmp_path / "home") as device:
        device.repair()
        assert state_of(device) == before
        assert device.verify().holds


def test_samples_that_are_damaged_can_still_be_forgotten(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5, bob=4)
    learn(device, bob=2)
    (name,) = device.home.ledger.upload("ann", 1).blocks.names
    path = device.home.store.blocks.files.path(name)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    device.home.store.blocks.clear()
    device.forget("ann")
    assert device.waiting() == []
    assert state_of(device) == clean({"bob": 4}, {"bob": 2})
    device.close()


def test_a_segment_of_which_only_a_part_could_be_added_is_added_once(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, cid=3)
        add, calls = AdditiveLearner.add, []

        def failing(self, state, piece):
            calls.append(piece.upload.user)
            if len(calls) == 2:
                raise HomeError("the disk")
            add(self, state, piece)

        with monkeypatch.context() as patch:
            patch.setattr(AdditiveLearner, "add", failing)
            with pytest.raises(HomeError, match="the disk"):
                learn(device, ann=5, bob=4)
        device.repair()
        assert calls == ["ann", "bob"]
        assert state_of(device) == clean({"cid": 3}, {"ann": 5, "bob": 4})


def test_a_prediction_that_has_begun_is_of_the_state_that_it_began_with(tmp_path):
    x = samples("cid", 3, 20)[0]
    with opened(tmp_path / "home") as device:
        learn(device, ann=20, bob=20)
        before = device.engine.training.predictor(device.learner, device.memory.head(0))  # solved when it is called
        learn(device, cid=30)
        alone = Cause(learner=additive())
        learn(alone, ann=20, bob=20)
        assert np.array_equal(before(x), alone.votes(x)[1][0])
        assert not np.array_equal(before(x), device.votes(x)[1][0])


def test_a_forget_lets_go_of_what_was_solved_with_the_samples(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, ann=20, bob=20)
        law = device.engine.training
        assert isinstance(law, Adding)
        device.predict(samples("cid", 3, 2)[0])
        solved = weakref.ref(law._solution)
        device.forget("ann")
        assert solved() is None


def test_a_forget_looks_at_no_other_round(tmp_path, monkeypatch):
    """Not at its digests, nor at its rows of the ledger: the time of a forget does not grow with the rounds."""
    device = opened(tmp_path / "home")
    for count in (5, 4, 3, 2):
        learn(device, ann=count, bob=2)
    device.close()
    device = opened(tmp_path / "home")  # neither does the first one of a process

    def read(*args):
        pytest.fail(f"a forget has read {args}")

    with monkeypatch.context() as patch:
        for name in ("digests", "pieces"):
            patch.setattr(HomeLedger, name, read)
        device.forget("ann", rounds=[2], count=1)
        device.forget("bob", rounds=[3])
    assert device.memory.head(0).identity == hash_of(device.learner.recipe_digest, device.ledger.lineage(0)).value
    for number in range(4):
        assert device.verify(number).holds
    assert device.verify(3).superseded == []
    device.close()


def test_a_receipt_commits_to_the_samples_that_are_left(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, ann=5, bob=4)
        device.forget("ann", rounds=[1], count=1)
        receipt = device.home.receipts.listed()[0]
        assert receipt["shards"][0]["data_form"] == "set-hash"
        learn(device, cleo=3)  # later rounds are no part of it
        assert device.home.receipts.check_commitments(receipt) == ([], ["sub-model (0,1)"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StoredSegment, "piece_digests", [bytes(32)])
            assert device.home.receipts.check_commitments(receipt)[0] == ["data of shard 0"]
        device.forget("bob", rounds=[1], count=1)
        assert device.home.receipts.check_commitments(receipt) == ([], ["data of shard 0", "sub-model (0,1)"])


def test_an_identity_names_the_recipe_and_the_samples():
    devices = [Cause(learner=additive(**arguments)) for arguments in ({}, {}, {"seed": 1})]
    for device in devices:
        learn(device, ann=5)
    one, same, other = (device.memory.head(0).identity for device in devices)
    assert one == same != other


def test_a_home_whose_identities_are_chained_goes_on(tmp_path):
    """Made by commit e162b58 with `learn` of this file: ann=5 and bob=4, bob=3, cleo=2; two of ann's forgotten."""
    with tarfile.open(EARLIER) as archive:
        archive.extractall(tmp_path, filter="data")
    with opened(tmp_path / "home") as device:
        assert len(device.memory.head(0).identity) == 32
        for number in range(2):
            assert device.verify(number).holds
            assert device.verify(number).superseded == []
        device.predict(samples("ann", 1, 2)[0])
        assert len(device.memory.head(0).identity) == 32, "a prediction stores no other state"
        device.forget("bob", rounds=[1], count=1)
        learn(device, ann=2)
        assert device.memory.head(0).identity == hash_of(device.learner.recipe_digest, device.ledger.lineage(0)).value
        assert device.verify(2).holds
        assert device.verify(3).holds
        state = state_of(device)
    assert examine_home(tmp_path / "home").problems == []
    with opened(tmp_path / "home") as device:
        assert state_of(device) == state
        assert device.verify().holds


@pytest.mark.parametrize("writer", [False, True])
def test_after_a_crash_nothing_waits_and_the_status_says_so(tmp_path, writer):
    device = opened(tmp_path / "home")
    learn(device, ann=5, bob=4)
    device.close()
    device = opened(tmp_path / "home")
    device.forget("ann")
    crashed(device)  # no stored state is left
    with Cause(tmp_path / "home", read_only=not writer) as device:
        assert status(device).degraded is None
        assert status(device).repair.samples == 0
    with Cause(tmp_path / "home", read_only=not writer) as device:
        assert (device.waiting(), list(device.heads()), len(device.voters())) == ([], [0], 1)
    with Cause(tmp_path / "home") as device:
        export(device, tmp_path / "export")
        assert state_of(device) == clean({"bob": 4})


LEARN, FORGET, CRASH, CLOSE = "learn", "forget", "crash", "close"


@pytest.mark.parametrize(
    "steps",
    [
        [(LEARN, "zed"), (FORGET, "zed"), (FORGET, "bob")],  # it is back at the stored state when bob is forgotten
        [(LEARN, "zed"), (FORGET, "zed"), (LEARN, "yan"), (FORGET, "ann")],
        [(LEARN, "zed"), CRASH, (FORGET, "zed"), CLOSE, (LEARN, "zed"), (FORGET, "cleo")],
        [(FORGET, "cleo"), CRASH, (LEARN, "cleo"), CLOSE, (FORGET, "cleo"), (FORGET, "bob")],
    ],
)
def test_receipts_of_a_home_whose_identities_are_chained_hold_after_any_calls(tmp_path, steps):
    with tarfile.open(EARLIER) as archive:
        archive.extractall(tmp_path, filter="data")
    device = opened(tmp_path / "home")
    for step in steps:
        if step in (CRASH, CLOSE):
            crashed(device) if step == CRASH else device.close()
            device = opened(tmp_path / "home")
        else:
            call, user = step
            learn(device, **{user: 2}) if call == LEARN else device.forget(user)
        assert device.verify(processes=0).holds
        for number in range(device.home.receipts.size):
            assert device.verify(number, processes=0).wrong == [], step
    device.close()
    with opened(tmp_path / "home") as device:
        assert all(device.verify(number, processes=0).holds for number in range(device.home.receipts.size))


def test_doctor_and_verify_find_a_state_that_is_not_the_sum(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5)
    law = device.engine.training
    assert isinstance(law, Adding)
    law._sums.parts["cross"][0, 0] += 1
    device.close()  # stored, sealed, and wrong
    with opened(tmp_path / "home") as device:
        assert not device.verify().holds
    health = examine_home(tmp_path / "home")
    assert any("is not the sum of the samples" in problem.what for problem in health.problems)


def test_a_whole_home_is_healthy(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, ann=5)
        device.forget("ann", rounds=[1], count=2)
    assert examine_home(tmp_path / "home").problems == []


def test_backup_and_restore(tmp_path):
    device = opened(tmp_path / "home")
    learn(device, ann=5, bob=4)
    backup(device.home, tmp_path / "backup")
    device.forget("ann")
    before = state_of(device)
    device.close()
    for path in (tmp_path / "home" / "blocks").iterdir():
        path.unlink()
    restore(tmp_path / "backup", tmp_path / "home")
    with opened(tmp_path / "home") as device:
        device.repair()
        assert state_of(device) == before == clean({"bob": 4})


def test_an_export_is_tainted_by_a_later_forget(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, ann=5, bob=4)
        made = export(device, tmp_path / "export")
        assert made.form == "npz"
        arrays = np.load(tmp_path / "export" / made.files[0])
        assert "weights" in arrays
        device.forget("ann")
        assert device.status().exports[0].tainted is not None


def test_another_recipe_is_refused(tmp_path):
    opened(tmp_path / "home").close()
    with pytest.raises(HomeError, match="recipe"):
        opened(tmp_path / "home", additive(scale=(-3, 4)))
    with Cause(tmp_path / "home") as device:  # as its cause.toml describes it
        assert device.learner.described() == additive().described()


def test_shards_are_refused_before_a_home_is_made(tmp_path):
    with pytest.raises(InputError, match="one sum over all samples"):
        opened(tmp_path / "home", shards=4)
    assert not (tmp_path / "home").exists()


def test_a_full_disk_while_a_state_is_stored_loses_nothing(tmp_path, monkeypatch):
    device = opened(tmp_path / "home")
    learn(device, ann=60)

    def full(self, contents):
        raise HomeError("no space left on device")

    monkeypatch.setattr(type(device.home.shelf.files), "write", full)
    device.close()
    monkeypatch.undo()
    with opened(tmp_path / "home") as device:
        device.repair()
        assert state_of(device) == clean({"ann": 60})


def test_a_home_keeps_its_rule_for_lambda(tmp_path):
    """A home of a version whose default was a constant is opened by a program that gives no λ."""
    x, _ = samples("ann", 1, 30)
    with opened(tmp_path / "home", additive(expand=64, regularization=0.1)) as device:
        learn(device, ann=30, bob=20)
        before = device.votes(x)[1].tobytes()
    with opened(tmp_path / "home", additive(expand=64)) as device:
        assert device.learner.described()["regularization"] == 0.1
        assert device.votes(x)[1].tobytes() == before
    with opened(tmp_path / "home", additive(expand=64, regularization="gcv")) as device:  # set explicitly
        assert device.votes(x)[1].tobytes() != before
    with opened(tmp_path / "new", additive(expand=64)) as device:
        learn(device, ann=30)
    assert 'regularization = "gcv"' in (tmp_path / "new" / "cause.toml").read_text()
    with Cause(tmp_path / "new") as device:
        assert device.learner.described()["regularization"] == "gcv"


def test_a_home_with_a_rule_for_lambda_is_opened_with_another_solver(tmp_path):
    """The solver is no part of the recipe; a portable solution has a constant λ."""
    with opened(tmp_path / "home", additive(expand=16)) as device:
        learn(device, ann=30, bob=20)
    with opened(tmp_path / "home", additive(expand=16, solve="portable")) as device:
        assert device.learner.described()["regularization"] == 0.1
        assert device.verify().holds
    with pytest.raises(CauseError, match="recipe"):
        opened(tmp_path / "home", additive(expand=16, head="class-means"))
