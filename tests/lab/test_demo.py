"""The main job on real data, small: exact against the clean room, and the simulator's RSN is the real one."""

import json
from typing import Any

import numpy as np
import pytest

from cause.cli import main
from cause.lab.clean_room import clean_room, compare, equals_scratch
from cause.lab.demo import SYSTEMS, Job, device_for, learner_for, run
from cause.lab.digits import share_out
from cause.learners.additive import AdditiveLearner
from cause.learners.torch import TorchLearner
from tests.quick import quick_only

SMALL: dict[str, Any] = {"users": 8, "rounds": 2, "rho": 0.5, "epochs": 1, "seed": 2}


@pytest.mark.parametrize("system", quick_only(SYSTEMS, ("cause", "additive")))
def test_every_system_is_exact_and_costs_what_the_simulator_says(system):
    outcome = run(Job(system, **SMALL))
    assert outcome.stored == outcome.clean == outcome.replayed > 0
    assert outcome.rsn == outcome.simulated_rsn
    assert (outcome.rsn > 0) == (system != "additive")  # which only subtracts
    assert outcome.used_bytes <= outcome.budget_bytes
    assert outcome.from_scratch is (True if system == "additive" else None)


def test_the_additive_state_is_compared_with_one_from_scratch():
    job = Job("additive", **SMALL)
    shared, device = share_out(job.users, job.rounds, job.rho, seed=job.seed), device_for(job)
    rounds = [shared.uploads(round_) for round_ in shared.trace.rounds]
    for round_ in shared.trace.rounds:
        device.learn(shared.uploads(round_))
        device.serve(round_.forgets)
    new = learner_for(job)
    assert isinstance(new, AdditiveLearner)
    assert equals_scratch(device, new, rounds)
    shared.x[shared.rows[rounds[-1][0].user, 2][-1]] += 1  # another brightness in one retained picture
    assert not equals_scratch(device, new, [shared.uploads(round_) for round_ in shared.trace.rounds])


def test_the_command_shows_the_additive_learner_beside_the_others(capsys):
    small = ["--users", "6", "--rounds", "2", "--epochs", "1", "--rho", "0.5"]
    with pytest.raises(SystemExit) as ended:
        main(["demo", "cause", "additive", *small])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "additive" in out.splitlines()[-1]
    assert "equals, bit for bit, that of a device from scratch" in out
    assert "additive" in SYSTEMS  # so `make demo` has it, too


def test_the_clean_room_sees_a_difference():
    job = Job("cause-no-sc", **SMALL)
    shared, device = share_out(job.users, job.rounds, job.rho, seed=job.seed), device_for(job)
    rounds = [shared.uploads(round_) for round_ in shared.trace.rounds]
    for uploads in rounds:
        device.learn(uploads)
    assert not compare(device, clean_room(device, TorchLearner(job.recipe()), rounds, job.seed)).mismatched
    shared.x[shared.rows[rounds[0][0].user, 1][0]] += 1
    changed = [shared.uploads(round_) for round_ in shared.trace.rounds]
    comparison = compare(device, clean_room(device, TorchLearner(job.recipe()), changed, job.seed))
    assert {key.shard for key in comparison.mismatched} == {device.ledger.placement(rounds[0][0].user)}
    assert compare(device, clean_room(device, TorchLearner(job.recipe()), rounds, job.seed + 1)).identical == []


def test_digits_are_shared_out_once_each():
    shared = share_out(seed=3)
    rows = np.concatenate(list(shared.rows.values()))
    assert len(rows) == len(set(rows.tolist())) == shared.trace.samples
    assert len(rows) + len(shared.y_test) == 1797
    assert 25 <= len({user for user, _ in shared.rows}) <= 30  # some users may get no samples
    for round_ in shared.trace.rounds:
        for upload in shared.uploads(round_):
            assert (upload.labels(upload.positions) == np.sort(upload.labels(upload.positions))).all()


def test_the_command_tells_what_it_did(capsys, tmp_path):
    small = ["--users", "6", "--rounds", "2", "--epochs", "1", "--rho", "0.5", "--plot", str(tmp_path / "d.png")]
    with pytest.raises(SystemExit) as ended:
        main(["demo", "cause", "sisa", *small, "--json", "--out", str(tmp_path / "d.json")])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["system"] for row in rows] == ["cause", "sisa"]
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "d.json").read_text())["result"]["rows"] == rows


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["demo", "nobody"], "unknown system 'nobody'"),
        (["demo", "--users", "0"], "number of users must be from 1"),
        (["demo", "--epochs", "0"], "epochs must be at least 1"),
        (["demo", "sisa", "--memory", "100KB"], "the heads of 4 shards need"),
        (["demo", "--jobs", "0"], "number of processes must be from 1"),
    ],
)
def test_bad_input_is_one_line(capsys, args, message):
    with pytest.raises(SystemExit) as ended:
        main(args)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def accuracy_of(job):
    """The accuracy of a device that has learned, without the checks of `run`."""
    shared, device = share_out(job.users, job.rounds, job.rho, seed=job.seed), device_for(job)
    for round_ in shared.trace.rounds:
        device.learn(shared.uploads(round_))
    return float((device.predict(shared.x_test) == shared.y_test).mean())


@pytest.mark.long
def test_pruning_to_70_percent_costs_at_most_two_points():
    settings: dict[str, Any] = {"users": 12, "rounds": 2, "shards": 1, "rho": 0.0, "epochs": 4}
    systems = ("cause-no-sc", "cause-no-sc:pruning=none")
    pruned, dense = (accuracy_of(Job(system, seed=0, **settings)) for system in systems)
    assert dense > 0.9
    assert pruned >= dense - 0.02
