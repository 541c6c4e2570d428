"""The membership audit, run for real: memorised canaries are seen, forgotten ones are not, and a no-op is caught."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cause.errors import LearnerError
from cause.lab.audit import attack, auc_interval, head_probabilities, problems
from cause.lab.report import tables
from examples import membership_audit as example

ROOT = Path(__file__).parents[2]


def silent(done, total):
    """No bar."""


@pytest.fixture(scope="module")
def record():
    return example.run(seed=0)


def rows_of(record, model):
    return {row.attack: row for row in record.rows if row.model == model}


def test_memorised_canaries_are_seen_and_forgotten_ones_are_not(record):
    before, after, retrained = (rows_of(record, model) for model in ("before", "after", "retrained"))
    assert before.keys() == after.keys() == retrained.keys() == {"loss", "calibrated"}
    for name in before:
        assert before[name].auc.low > 0.6
        assert before[name].tpr > 0.15
        assert before[name].minus_retrained.low > 0.1
        assert 0.5 in after[name].auc
        assert after[name].auc.high < 0.6  # and there was enough to look at to say so
    assert record.problems == []


def test_after_forgetting_the_audit_finds_what_it_finds_on_the_retrained_model(record):
    assert record.identical
    for name, row in rows_of(record, "after").items():
        retrained = rows_of(record, "retrained")[name]
        assert (row.auc, row.tpr) == (retrained.auc, retrained.tpr)
        assert (row.minus_retrained.low, row.minus_retrained.high) == (0, 0)
    assert record.accuracy["after"] == record.accuracy["retrained"] > 0.9


class Unplugged:
    """A learner that stops before its first training: the shards fall back on what is stored."""

    def __init__(self, learner):
        self._learner = learner

    def __getattr__(self, name):
        return getattr(self._learner, name)

    def train(self, parent, lesson, seed, tick):
        raise LearnerError("no power")


@pytest.fixture(scope="module")
def states():
    """One device's answers before forgetting, during the fallback, after the repair, and those of a clean room."""
    scene = example.draw(seed=1)
    device = example.learn(example.new_device(1), scene.rounds, silent)
    shards, answers = scene.shards(device), {"before": head_probabilities(device, scene.x)}
    learner, device.engine.learner = device.learner, Unplugged(device.learner)  # type: ignore[assignment]
    with pytest.raises(LearnerError, match="no power"):
        device.serve(scene.requests())
    answers["fallback"] = head_probabilities(device, scene.x)
    device.engine.learner = learner
    device.repair()
    answers["after"] = head_probabilities(device, scene.x)
    answers["retrained"] = head_probabilities(example.retrained(scene, device, 1, silent), scene.x)
    scores = {state: attack(each, scene.y, shards) for state, each in answers.items()}
    return answers, scores, scene


def test_a_forget_that_does_nothing_is_caught(states):
    answers, scores, scene = states
    messages = problems(scores["before"], scores["before"], scores["retrained"], scene.member)
    assert sum("forgotten samples differ from samples never seen" in line for line in messages) == 2
    assert sum("differs from that of the retrained model" in line for line in messages) == 2
    assert not example.same_bits(answers["before"], answers["retrained"])


def test_a_forget_that_leaves_out_one_shard_is_no_longer_the_retrained_model(states):
    """What the audit may be too coarse to see, the bits show."""
    answers, _, _ = states
    shard = min(answers["after"])
    assert not example.same_bits({**answers["after"], shard: answers["before"][shard]}, answers["retrained"])
    assert example.same_bits(answers["after"], answers["retrained"])


def test_what_serves_while_the_replay_waits_knows_nothing_either(states):
    answers, scores, scene = states
    assert not example.same_bits(answers["fallback"], answers["retrained"])  # older sub-models, not the final ones
    assert problems(scores["before"], scores["fallback"], scores["retrained"], scene.member) == []


def test_a_model_pushed_away_from_the_samples_is_caught(states):
    """Scores that are too low give a sample away as well."""
    _, scores, scene = states
    pushed = {name: each - 10 * scene.member for name, each in scores["after"].items()}
    messages = problems(scores["before"], pushed, scores["retrained"], scene.member)
    assert any("forgotten samples differ" in line for line in messages)
    assert auc_interval(pushed["loss"], scene.member).high < 0.5


def test_an_audit_that_could_not_see_anything_does_not_pass(states):
    _, scores, scene = states
    messages = problems(scores["retrained"], scores["after"], scores["retrained"], scene.member)
    assert [line.split(":")[0] for line in messages] == ["loss", "calibrated"]
    assert all("sees too little before forgetting" in line for line in messages)


def test_a_coin_alone_decides_which_of_a_pair_is_uploaded(states):
    """So forgotten and never seen are drawn alike, and nothing else of either is anywhere."""
    _, _, scene = states
    pairs = scene.member.reshape(-1, 2)
    assert (pairs.sum(axis=1) == 1).all()
    assert 0.3 < pairs[:, 0].mean() < 0.7
    for column in (scene.y, scene.when, np.array(scene.owner)):
        assert (column.reshape(-1, 2)[:, 0] == column.reshape(-1, 2)[:, 1]).all()
    uploaded = {x.tobytes() for round_ in scene.rounds for u in round_ for x in u.arrays(u.positions)[0]}
    kept = {x.tobytes() for round_ in scene.without_canaries() for u in round_ for x in u.arrays(u.positions)[0]}
    canaries = [x.tobytes() for x in scene.x]
    assert {x for x, member in zip(canaries, scene.member, strict=True) if member} == uploaded - kept
    assert not kept & set(canaries)
    assert not (uploaded | set(canaries)) & {x.tobytes() for x in scene.x_test}


def test_the_example_tells_what_it_found(record, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(example, "run", lambda seed, progress: record)
    assert example.main([]) == 0
    shown = capsys.readouterr().out
    assert "those of the retrained model, bit for bit" in " ".join(shown.split())
    assert f"{rows_of(record, 'before')['loss'].auc:.3f}" in shown
    assert example.main(["--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["identical"] is True
    assert [row["model"] for row in payload["rows"]] == ["before"] * 2 + ["after"] * 2 + ["retrained"] * 2
    assert example.main(["--seeds", "2", "--out", str(tmp_path / "audit.json")]) == 0
    assert "2 seeds" in capsys.readouterr().out
    written = json.loads((tmp_path / "audit.json").read_text())
    assert written["command"].startswith("python examples/membership_audit.py")
    assert [row["with_chance"] for row in written["result"]["summary"]] == [0, 0, 2, 2, 2, 2]


def test_the_example_fails_where_forgetting_did(record, capsys, monkeypatch):
    monkeypatch.setattr(example, "run", lambda seed, progress: replace(record, problems=["loss: they differ"]))
    assert example.main([]) == 1
    assert "loss: they differ" in capsys.readouterr().out
    monkeypatch.setattr(example, "run", lambda seed, progress: replace(record, identical=False))
    assert example.main(["--seeds", "2"]) == 1
    assert example.main(["--out", "/"]) == 2
    assert capsys.readouterr().err == "error: cannot write '/': it is a directory\n"


def test_the_page_quotes_the_committed_result():
    """`python examples/membership_audit.py --seeds 10 --out results/audit.json` measures anew."""
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    result = json.loads((ROOT / "results" / "audit.json").read_text(encoding="utf-8"))["result"]
    for row in result["summary"]:
        assert f"| {' | '.join(example.cells(row))} |" in page
    assert tables(ROOT / "results")["audit source"] in page
    assert f"{sum(each['identical'] for each in result['records'])} of {len(result['records'])} devices" in page
