"""Shards trained in another environment than the device's: each in one, recorded before it is trained, for ever."""

import shutil
import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from cause.cli import main
from cause.device.backup.backup import backup
from cause.device.backup.restore import restore
from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.device.repairing import start_over
from cause.device.verify import verify
from cause.engine import executor as executor_module
from cause.engine import training as training_module
from cause.engine.memory import SubModel
from cause.errors import AbsentEnvironmentError, InputError, PassingError
from cause.executors import InProcess
from cause.executors import in_process as in_process_module
from tests.clean_room import differences, trained_on
from tests.device.homes import learn, opened
from tests.two_environments import HERE, OTHER, Machines, PrecisionLearner, machine, uploads

SHARDS = 4
SETTINGS: dict[str, Any] = {"system": "frugal:partition=hash", "shards": SHARDS, "slots": 40, "seed": 3}
BOTH = {"float64": 1, "float32": 1}
PLACED = {0: OTHER, 1: HERE, 2: OTHER, 3: HERE}


def made(home=None, executor=None, **others):
    return Cause(home, learner=PrecisionLearner(), executor=executor, **SETTINGS, **others)


def stored(device, shard):
    """Identity, environment and bits of the sub-models of a shard."""
    keys = device.memory.stored_of(shard)
    return {key: (device.memory[key], device.memory.shelf.get(key)) for key in keys}


def lived(executor, home=None):
    """A device that learned three rounds, forgot, and learned a fourth."""
    device = made(home, executor)
    for round_ in (1, 2, 3):
        device.learn(uploads(round_))
    device.forget("ann")
    device.forget("eve", rounds=[2])
    device.learn(uploads(4, ("bea", "cy", "ann")))
    return device


def clean(executor):
    """A device that never had what was forgotten."""
    rounds = [uploads(round_) for round_ in (1, 2, 3)]
    for round_ in rounds:
        del round_["ann"]
    del rounds[1]["eve"]
    rounds.append(uploads(4, ("bea", "cy", "ann")))
    return trained_on(rounds, PrecisionLearner(), executor=executor, **SETTINGS)


def test_a_shard_has_the_bits_and_the_name_of_its_one_environment():
    executor = Machines(**BOTH)
    device = lived(executor)
    assert device.memory.environments == PLACED
    assert set(executor.trained) == set(PLACED.items())
    wholly = {HERE: clean(InProcess())}
    with machine(OTHER):
        wholly[OTHER] = clean(InProcess())
    assert stored(wholly[HERE], 0) != stored(wholly[OTHER], 0), "the environments differ in their bits"
    for shard, environment in PLACED.items():
        kept = stored(device, shard)
        assert kept
        assert {sub_model.environment for sub_model, _ in kept.values()} == {environment}
        assert kept == stored(wholly[environment], shard)


def test_environments_do_not_depend_on_who_uploaded_so_the_clean_room_needs_no_record():
    assert differences(lived(Machines(**BOTH)), clean(Machines(**BOTH))) == []


def test_a_record_made_before_counts_whatever_machines_there_are_later():
    device = made(executor=Machines(**BOTH))
    device.learn(uploads(1, ("ann",)))
    assert device.memory.environments == PLACED, "of all shards, also of those without samples"
    device.engine.executor = Machines(float16=5, **BOTH)
    device.learn(uploads(2))
    device.forget("ann")
    for name in uploads(2):
        if device.ledger.rounds_of(name):
            device.forget(name)
    assert device.ledger.shards() == []
    device.learn(uploads(3))
    assert device.memory.environments == PLACED
    assert set(device.engine.executor.trained) == set(PLACED.items())


def test_a_device_with_one_environment_records_none_and_a_shard_it_has_trained_stays_its_own():
    device = made()
    device.learn(uploads(1, ("ann",)))
    (own,) = device.ledger.shards()
    assert device.memory.environments == {}
    device.engine.executor = Machines(**BOTH)
    device.learn(uploads(2))
    device.forget("ann", rounds=[1])
    assert device.memory.environments == {shard: name for shard, name in PLACED.items() if shard != own}
    assert {sub_model.environment for sub_model, _ in stored(device, own).values()} == {HERE}


class Broken(Machines):
    """Fails before the first segment is trained, as a device that is switched off."""

    def train(self, learner, work, on_epoch):
        raise KeyboardInterrupt
        yield


def test_the_record_is_durable_before_the_first_segment_is_trained(tmp_path):
    with made(tmp_path / "home", Broken(**BOTH)) as device, pytest.raises(KeyboardInterrupt):
        device.learn(uploads(1))
    executor = Machines(float16=1, **BOTH)
    with made(tmp_path / "home", executor) as device:
        assert device.memory.environments == PLACED
        device.repair()
        assert set(executor.trained) == set(PLACED.items())


@pytest.fixture(scope="module")
def lived_home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lived")
    lived(Machines(**BOTH), folder / "home").close()
    return folder


@pytest.fixture
def home(lived_home, tmp_path):
    """A copy of a home with two shards of another environment."""
    shutil.copytree(lived_home, tmp_path, dirs_exist_ok=True)
    return tmp_path / "home"


def test_without_a_machine_of_its_environment_a_shard_waits_and_forgets_at_once(home):
    with made(home) as device:
        before = {shard: stored(device, shard) for shard in PLACED}
        with pytest.raises(AbsentEnvironmentError, match=f"shard 0 waits for .*{OTHER}.*only: {HERE}") as caught:
            device.learn(uploads(5))
        assert len(str(caught.value).splitlines()) == 1
        assert device.waiting() == [0, 2], "the others were trained"
        assert [stored(device, shard) for shard in (0, 2)] == [before[0], before[2]]
        shards = device.status().shards
        assert [(shard.environment, shard.problem) for shard in shards] == [
            (OTHER, "AbsentEnvironmentError"), (HERE, None), (OTHER, "AbsentEnvironmentError"), (HERE, None),
        ]  # fmt: skip
        (user, first) = next(
            (user, key.round)
            for user in uploads(1)
            for key, _ in (device.ledger.pieces_of(user, 1) or [])
            if key.shard == 2
        )
        with pytest.raises(AbsentEnvironmentError):
            device.forget(user)
        assert device.ledger.rounds_of(user) == []
        assert all(key.round < first for key in device.memory.stored_of(2)), "nothing that saw the samples is left"
        device.predict(np.zeros((2, 4)))
    with made(home, Machines(**BOTH)) as device:
        device.repair()
        assert device.waiting() == []
        assert verify(device, executor=Machines(**BOTH)).mismatched == []


def test_a_replay_is_compared_where_the_environment_is_and_unverifiable_elsewhere(home):
    with made(home, read_only=True) as device:
        here = device.verify(processes=0)
        assert {key.shard for key in here.identical} == {1, 3}
        assert {key.shard for key in here.unverifiable} == {0, 2}
        assert here.holds
        there = device.verify(executor=Machines(**BOTH))
        assert sorted(there.identical) == sorted(here.identical + here.unverifiable) == device.memory.stored()
        with machine(OTHER):
            elsewhere = device.verify(processes=0)
        assert (sorted(elsewhere.identical), sorted(elsewhere.unverifiable)) == (
            sorted(here.unverifiable), sorted(here.identical),
        )  # fmt: skip


def test_predictions_backups_and_receipts_treat_a_sub_model_as_data(home, tmp_path):
    x = np.random.default_rng(1).normal(size=(20, 4))
    with made(home) as device:
        expected = device.predict(x)
        backup(device.home, tmp_path / "b.tar")
        own = [body for body in device.home.receipts.listed() if body["kind"] == "repair"]
        serving = {shard["shard"]: shard["serving"].get("environment") for body in own for shard in body["shards"]}
        assert {serving[shard] for shard in serving if shard in (0, 2)} == {OTHER}
        assert {serving[shard] for shard in serving if shard in (1, 3)} == {None}, "that of the receipt"
        assert {body["environment"] for body in own} == {HERE}
    for path in home.glob("ledger.db*"):
        path.unlink()
    restore(tmp_path / "b.tar", home)
    assert examine_home(home).problems == []
    with made(home) as device:
        assert device.memory.environments == PLACED
        assert (device.predict(x) == expected).all()
        assert verify(device, executor=Machines(**BOTH)).sub_models == len(device.memory)


def test_a_shard_that_starts_over_is_wholly_of_this_machine(home):
    with made(home) as device:
        with pytest.raises(InputError, match="shard 9 holds no samples"):
            start_over(device, [9])
        wrongs: list[Any] = [2, None, [True], [2.0], "2"]
        for wrong in wrongs:
            with pytest.raises(InputError, match="named by their numbers"):
                start_over(device, wrong)
        dropped = start_over(device, [2])
        assert {key.shard for key in dropped} == {2}
        assert 2 not in device.heads()
    with made(home) as device:
        assert (device.waiting(), device.memory.environments) == ([2], PLACED | {2: HERE})
        assert device.repair() > 0
        assert {key.shard for key in device.verify(processes=0).unverifiable} == {0}
        assert stored(device, 2) == stored(clean(InProcess()), 2)
    assert examine_home(home).problems == []


def test_doctor_finds_a_chain_of_two_environments(home):
    with closing(sqlite3.connect(home / "ledger.db")) as database, database:
        database.execute("UPDATE sub_models SET environment='another' WHERE shard=2 AND round=1")
    assert any("(2,1) was trained in another environment" in problem.what for problem in examine_home(home).problems)


def cause(*arguments, code=0):
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == code


def test_commands_name_what_waits_and_the_way_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with opened("home") as device:
        learn(device, a=9, b=9, c=9, d=9)
        environment = device.learner.environment
        device.home.placed(dict.fromkeys(device.ledger.shards(), "torch 0, another"))
    np.savez("data.npz", x=np.zeros((4, 6), np.float32), y=np.arange(4) % 2, users=list("abcd"))
    cause("learn", "home", "data.npz", code=2)
    said = capsys.readouterr().err
    assert "shard 0 waits for a worker of its environment (torch 0, another)" in said
    assert len(said.splitlines()) == 1
    cause("status", "home")
    assert "waits for a worker of its environment (torch 0, another)" in " ".join(capsys.readouterr().out.split())
    cause("repair", "home", "--from-scratch", "0", "--from-scratch", "1")
    capsys.readouterr()
    with opened("home") as device:
        assert device.memory.environments == {0: environment, 1: environment}
        assert device.waiting() == []
    cause("learn", "home", "data.npz", "--other-environments", "whole-shards", code=2)
    assert "name the cluster with --ray" in capsys.readouterr().err


# The rules, each broken on purpose


class Free(Machines):
    """Gives a shard to whichever machine is free: the one that has trained least."""

    def place(self, shard):
        used = [environment for _, environment in self.trained]
        return min(sorted(self.room, reverse=True), key=used.count)


def test_red_when_a_shard_goes_to_whichever_machine_is_free(monkeypatch):
    with pytest.raises(PassingError, match="is trained in another environment"):
        lived(Free(**BOTH))
    guarded = executor_module.train_segment

    def unguarded(learner, parent, task, tick):
        return guarded(learner, parent, executor_module.Task(task.lesson, task.seed), tick)

    monkeypatch.setattr(in_process_module, "train_segment", unguarded)
    device = lived(Free(**BOTH))
    monkeypatch.undo()
    assert verify(device, executor=Machines(**BOTH)).mismatched
    assert differences(device, clean(Machines(**BOTH)))


def test_red_when_the_environment_of_the_device_is_written_for_all(monkeypatch):
    monkeypatch.setattr(
        training_module, "SubModel", lambda key, identity, size, environment: SubModel(key, identity, size, HERE)
    )
    device = lived(Machines(**BOTH))
    monkeypatch.undo()
    assert {sub_model.environment for sub_model, _ in stored(device, 0).values()} != {PLACED[0]}
    assert differences(device, clean(Machines(**BOTH))) == ["other heads"]


def test_red_when_a_replay_chooses_again(monkeypatch):
    device = made(executor=Machines(**BOTH))
    device.learn(uploads(1))
    device.memory.environments.clear()
    monkeypatch.setattr(training_module.Training, "_is_placed", lambda self, shard: False)
    device.engine.executor = Machines(float16=1, **BOTH)
    device.learn(uploads(2))
    mixed = [
        shard for shard in PLACED if len({sub_model.environment for sub_model, _ in stored(device, shard).values()}) > 1
    ]
    assert mixed, "chains of two environments"
