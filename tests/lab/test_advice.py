"""Advice: candidates are measured for real, what was not is named, and the printed command makes the device."""

import json
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from cause.data.dataset import Dataset
from cause.device.device import Cause
from cause.engine.training import Training
from cause.errors import InputError
from cause.lab.advice import advise, sample_of
from cause.lab.advice import candidates as advice_candidates
from cause.lab.advice.cache import MeasurementCache
from cause.lab.advice.candidates import ADDITIVE, EXPORTING, Candidate, candidates
from cause.lab.advice.choose import choose
from cause.lab.advice.measure import Demand, Features, Row, TimeUpError, measure
from cause.lab.digits import load_digits
from cause.learners.additive import AdditiveLearner
from cause.learners.described import build
from tests.cli.test_device import cause, place, refused
from tests.waiting import wait_until

__all__ = ["cause", "place", "refused"]
DEMAND = Demand(rounds=3, users=9)


def digits(n: int = 400, *, table: bool = False, users: bool = False) -> Dataset:
    x, y = load_digits()
    owners = np.array([f"user {row % 12}" for row in range(n)]) if users else None
    if table:
        return Dataset((x[:n].reshape(n, -1) / 4 - 2).astype(np.float32), y[:n], 10, "digits", users=owners)
    return Dataset((x[:n] * 15.9).astype(np.uint8), y[:n], 10, "digits", users=owners)


def one(sample, kind: str, text: str = "") -> Candidate:
    return next(each for each in candidates(sample) if each.kind == kind and text in each.name)


def test_pictures_have_their_channels_first_and_nothing_is_in_both_parts():
    sample = sample_of(digits(), 200)
    assert sample.shape == (1, 8, 8)
    assert (len(sample.y), len(sample.y_test), len(sample.all_y)) == (160, 40, 400)
    seen = {row.tobytes() for row in sample.x}
    assert sum(row.tobytes() in seen for row in sample.x_test) == 0
    with pytest.raises(InputError, match="at least 50 samples"):
        sample_of(digits(40), 200)


@pytest.mark.parametrize(
    ("users", "table", "name"),
    [
        (False, False, "64 random filters"),
        (True, False, "64 random filters"),
        (False, True, "ridge, scale ±100"),  # where λ decides much: the recipe's rule, not a backbone's constant
        (False, True, "Gaussian naive Bayes, scale ±1"),
    ],
)
def test_an_additive_candidate_is_measured_as_the_device_itself_would_be(users, table, name):
    """Features are computed once for all heads; the accuracy is that of a device that is given the inputs."""
    sample = sample_of(digits(users=users, table=table), 400)
    candidate = one(sample, ADDITIVE, name)
    row = measure(candidate, sample, DEMAND, Features(), time.monotonic() + 300)
    device = Cause(learner=build(candidate.learner))
    device.learn({"all": (sample.x, sample.y)})
    assert row.accuracy == float((device.predict(sample.x_test) == sample.y_test).mean()) > 0.7
    assert (row.rsn, row.sub_models, row.sub_model_bytes) == (0, 1, device.learner.sub_model_bytes)


def test_a_trained_candidate_has_an_rsn_that_grows_with_the_requests():
    sample = sample_of(digits(table=True, users=True), 400)
    candidate = one(sample, "estimator", "GaussianNB, frugal, S = 4")
    rsn = [
        measure(candidate, sample, Demand(rho=rho, rounds=3), Features(), time.monotonic() + 300).rsn
        for rho in (0.0, 0.1, 0.9)
    ]
    assert rsn[0] == 0 < rsn[1] < rsn[2]


def test_what_does_not_fit_the_time_or_the_memory_is_named_and_not_guessed():
    sample = sample_of(digits(table=True), 300)
    two = [one(sample, ADDITIVE, "ridge"), one(sample, "network", "recommended, S = 4")]
    late = advise(sample, DEMAND, minutes=1e-9, among=two)
    assert (late.rows, late.command, list(late.not_measured)) == ([], None, [each.name for each in two])
    small = advise(sample, Demand(memory="10KB", rounds=3), among=[one(sample, ADDITIVE, "2,048")])
    ((name, why),) = small.not_measured.items()
    assert "2,048 random units" in name
    assert "memory" in why.lower() or "KB" in why
    stopped = advise(sample, DEMAND, minutes=0.002, among=two)  # the network is given up while it learns
    assert two[1].name in stopped.not_measured


def test_a_candidate_that_is_given_up_while_it_learns_is_no_failing_training(monkeypatch):
    """A device looks for the upload that makes a training fail: it trains each alone, which takes long."""
    searched = []
    monkeypatch.setattr(Training, "_quarantine", lambda self, *_, **__: searched.append(1) or [])
    sample = sample_of(digits(table=True), 300)
    steps = iter(range(1_000_000))

    def clock() -> float:
        return next(steps) / 100  # the deadline passes at the hundredth look

    candidate = one(sample, "network", "frugal, S = 4")
    build(candidate.learner)
    with monkeypatch.context() as patched:
        patched.setattr("cause.lab.advice.measure.time.monotonic", clock)
        with pytest.raises(TimeUpError):
            measure(candidate, sample, DEMAND, Features(), 1.0)
    assert next(steps) > 100
    assert searched == []


def test_measurements_are_kept_and_not_made_again(tmp_path):
    sample, file = sample_of(digits(table=True), 300), tmp_path / "kept.json"
    two = [one(sample, ADDITIVE, "ridge"), one(sample, "estimator", "GaussianNB, frugal, S = 4")]
    first = advise(sample, DEMAND, cache=MeasurementCache(file), among=two[:1])
    begun = []
    second = advise(
        sample, DEMAND, cache=MeasurementCache(file), among=two, started=lambda each, *_: begun.append(each.name)
    )
    assert begun == [two[1].name]
    assert second.rows[0] == first.rows[0]
    begun.clear()
    advise(
        sample,
        Demand(rho=0.5, rounds=3),
        cache=MeasurementCache(file),
        among=two[:1],
        started=lambda e, *_: begun.append(e.name),
    )
    assert begun  # another demand is another measurement
    file.write_text('{"format": 1, "rows": {"a": {}}}')
    with pytest.raises(InputError, match="no measurements of cause advise"):
        MeasurementCache(file)


def row(name: str, accuracy: float, rsn: int, size: int = 1) -> Row:
    return Row(name, "network", accuracy, 0.01, rsn, 1_000, 1.0, 1.0, size, 1)


def test_the_choice_is_the_cheapest_of_the_accurate():
    assert choose([row("a", 0.9, 10), row("b", 0.885, 5), row("c", 0.879, 0)])[0].name == "b"
    assert choose([row("a", 0.9, 0, 9), row("b", 0.9, 0, 3)])[0].name == "b"
    chosen, reason = choose([row("a", 0.9, 10), row("b", 0.5, 0)])
    assert chosen.name == "a"
    assert "40.0 points worse" in reason


@pytest.mark.parametrize("table", [True, False])
def test_every_printed_command_makes_the_learner_that_was_measured(table, cause, monkeypatch):
    """Options, learners and tables must say the same: the home's recipe is the candidate's."""
    sample = sample_of(digits(table=table), 300)
    kinds = {}
    for each in candidates(sample):
        kinds.setdefault((each.kind, each.system), each)
    for number, each in enumerate(kinds.values()):
        made = cause("init", f"home{number}", *each.options("2GB"), "--json")
        assert build(made["learner"]).recipe_digest == build(each.learner).recipe_digest
        assert (made["device"]["shards"], made["device"]["memory"]) == (each.shards, "2GB")


def pictures() -> Dataset:
    """Pictures in colour: classes differ by what is bright."""
    draw = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = draw.integers(0, 120, size=(60, 16, 16, 3))
    x[np.arange(60), :, :, y] += 120
    return Dataset(x.astype(np.uint8), y, 3, "pictures")


def test_the_public_backbone_is_measured_by_onnx_runtime_and_the_command_makes_the_same_device(cause):
    for module in EXPORTING:
        pytest.importorskip(module)
    sample = sample_of(pictures(), 60)
    candidate = one(sample, ADDITIVE, "EfficientNet-Lite0 at 96")
    with closing(Features()) as features:
        measured = features.exported(candidate)
        learner = build({**candidate.learner, "backbone": str(measured)})
        digest = sha256(measured.read_bytes()).hexdigest()
    assert not measured.exists()
    advice = advise(sample, DEMAND, among=[candidate])
    export, init = advice.command.split(" && ")
    line = [sys.executable, "-m", "cause", *shlex.split(export)[1:], "--json"]  # another process than the measurement's
    exported = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    assert exported["sha256"] == digest
    made = cause(*shlex.split(init.replace("HOME", "home"))[1:], "--json")
    device = Cause(learner=build(made["learner"]))
    assert device.learner.recipe_digest == learner.recipe_digest
    device.learn({"all": (sample.x, sample.y)})
    assert advice.rows[0].accuracy == float((device.predict(sample.x_test) == sample.y_test).mean()) > 0.7


def test_without_onnx_runtime_the_public_backbone_is_computed_by_torch(monkeypatch):
    sample = sample_of(pictures(), 60)
    monkeypatch.setattr(advice_candidates, "find_spec", lambda name: None if name == "onnxruntime" else name)
    candidate = one(sample, ADDITIVE, "EfficientNet-Lite0 at 96")
    assert (candidate.learner["backbone"], candidate.learner["size"]) == ("efficientnet-lite0", 96)
    (command,) = candidate.commands("2GB")
    assert command[:6] == ["cause", "init", "HOME", "--learner", "additive", "--classes"]


@pytest.mark.long
def test_the_command_recommends_a_home_that_learns_the_data(cause, refused):
    x, y = load_digits()
    np.savez("digits.npz", x=(x[:300] * 15.9).astype(np.uint8), y=y[:300])
    options = ["--minutes", 0.2, "--rounds", 2, "--plot", "front.png", "--json"]
    advice = cause("advise", "digits.npz", "--samples", 300, *options)
    assert Path("front.png").stat().st_size > 5_000
    assert advice["rows"]
    assert all(0 <= each["accuracy"] <= 1 for each in advice["rows"])
    command = advice["recommended"]["command"]
    assert command.startswith("cause init HOME --learner additive")
    cause("init", "home", *shlex.split(command)[3:])
    cause("learn", "home", "digits.npz", "--user", "ann")  # pictures as (height, width)
    assert cause("predict", "home", "digits.npz", "--json")["samples"] == 300
    shown = cause("advise", "digits.npz", "--samples", 300, *options[:4])
    assert "recommended: additive" in shown
    assert "--rho is a probability" in refused("advise", "digits.npz", "--rho", 3)
    assert "--minutes must be above 0" in refused("advise", "digits.npz", "--minutes", 0)
    assert "no data set" in refused("advise", "nothing.npz")


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    x, y = load_digits()
    np.savez(tmp_path / "t.npz", x=(x[:300].reshape(300, -1) / 4).astype(np.float32), y=y[:300])
    # a process that was started in the background ignores the signal
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{heed}; from cause.cli import main; main()"
    args = [sys.executable, "-c", start, "advise", "t.npz", "--samples", "300", "--rounds", "2", "--minutes", "5"]
    file = tmp_path / "cause-advice.json"
    with subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        wait_until(lambda: file.exists() and len(json.loads(file.read_text())["rows"]) >= 2, 120)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert (process.returncode, "goes on from there" in rest) == (130, True), rest
    kept = json.loads(file.read_text())["rows"]
    done = subprocess.run(
        [*args, "--minutes", "1e-6", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    advice = json.loads(done.stdout)
    assert {row["name"] for row in advice["rows"]} == {row["name"] for row in kept.values()}
    assert advice["not_measured"]


def test_pictures_with_their_channels_last_have_the_features_of_those_with_channels_first():
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 256, size=(5, 3, 9, 11), dtype=np.uint8)
    learner = AdditiveLearner("random-filters", shape=(3, 9, 11), size=4, classes=2)
    assert np.array_equal(learner.recorded(pictures), learner.recorded(np.moveaxis(pictures, 1, -1)))
    grey = AdditiveLearner("random-filters", shape=(1, 9, 11), size=4, classes=2)
    assert np.array_equal(grey.recorded(pictures[:, :1]), grey.recorded(pictures[:, 0]))
    device = Cause(learner=learner)
    device.learn({"ann": (np.moveaxis(pictures, 1, -1), [0, 1, 0, 1, 0])})
    assert np.array_equal(device.predict(pictures), device.predict(np.moveaxis(pictures, 1, -1)))
    with pytest.raises(InputError, match="takes"):
        device.predict(np.moveaxis(pictures, 1, 2))


def units() -> Dataset:
    """Twelve users; classes differ by a curved border in columns of very different size."""
    draw = np.random.default_rng(0)
    z = draw.normal(size=(1_500, 6))
    y = ((z[:, :3] ** 2).sum(axis=1) > 2.4).astype(np.int64)
    scales = np.array([1e-3, 1.0, 5e3, 1.0, 1e-3, 5e3])
    owners = np.array([f"user {row % 12}" for row in range(len(y))])
    return Dataset((z * scales).astype(np.float32), y, 2, "units", users=owners)


@pytest.mark.long
def test_where_units_are_mixed_one_range_a_column_is_recommended(cause):
    sample = sample_of(units(), 1_500)
    few = [each for each in candidates(sample) if each.kind == ADDITIVE and "units" in each.name]
    advice = advise(sample, DEMAND, among=few)
    assert advice.chosen is not None
    assert advice.command is not None
    assert advice.chosen.note == "2,048 random units, a range a column"
    assert "follow from this sample" in advice.reason
    accuracy = {row.name: row.accuracy for row in advice.rows}
    constants = [value for name, value in accuracy.items() if name != advice.chosen.name]
    assert accuracy[advice.chosen.name] > max(constants) + 0.05
    made = cause(*shlex.split(advice.command.replace("HOME", "home"))[1:], "--json")
    assert build(made["learner"]).recipe_digest == build(advice.chosen.learner).recipe_digest


def test_constants_are_recommended_unless_ranges_of_the_sample_are_clearly_better():
    rows = [row("constant", 0.900, 0), row("range", 0.908, 0)]
    assert choose(rows, ["range"])[0].name == "constant"
    assert choose(rows)[0].name == "range"
    assert choose([row("constant", 0.900, 0), row("range", 0.915, 0)], ["range"])[0].name == "range"


def test_users_are_held_out_whole():
    data = units()
    sample = sample_of(data, 1_500)
    owners = {row.tobytes(): user for row, user in zip(data.x, list(data.users), strict=True)}
    learned, tested = ({owners[row.tobytes()] for row in part} for part in (sample.x, sample.x_test))
    assert learned & tested == set()
    assert (len(learned), len(tested)) == (9, 3)
    assert set(sample.owners) == learned
    assert (len(sample.y), len(sample.y_test)) == (1_125, 375)
    alone = sample_of(replace(data, users=np.array(["ann"] * 1_400 + ["bob"] * 100)), 1_500)
    assert (len(alone.y), len(alone.y_test)) == (1_200, 300)


def test_no_range_is_proposed_for_numbers_that_are_not_finite():
    data = units()
    data.x[3, 2] = np.nan
    names = [each.name for each in candidates(sample_of(data, 1_500))]
    assert names
    assert not any("a range a column" in name for name in names)
