"""The examples run as they are, and fail when a result is not exact."""

from functools import cache
from itertools import count
from pathlib import Path

import pytest

from cause.common.hashing import digest
from cause.device.device import Cause
from cause.engine import training
from examples import custom_torch_model, digits_on_a_device
from tests.quick import quick_only
from tests.warm_processes import run_warm

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "digits_on_a_device": [
        "Round 3: 400 digits of 4 users, 2 shards trained",
        "bob wants everything forgotten, now:",
        "carol wants her round 2 forgotten, and the training can wait: 2 sub-models are destroyed.",
        "The device was switched off and on. Shards that wait for their training: [",
        "Repaired:",
        "bob's receipt is signed and in the log.",
        "of 3 stored sub-models of the shard, bit for bit.",
    ],
    "custom_torch_model": [
        "Round 2: 450 digits of 3 users, 2 shards trained",
        "Frozen part: as it was.",
        "carol's round 1 is forgotten:",
        "Trained again from what is retained: 2 of 2 are the same bits.",
        "with the same users in the same shards: 4 of 4 sub-models are the same bits.",
    ],
}


@pytest.fixture(scope="module")
def run_example(tmp_path_factory):
    """Run an example as a program, once for all tests; returns the ended process and the home it made."""

    @cache
    def run(name):
        script, home = ROOT / "examples" / f"{name}.py", tmp_path_factory.mktemp(name) / "device"
        return run_warm(["--home", home], tmp_path_factory.mktemp("printed"), script), home

    return run


@pytest.mark.parametrize("name", quick_only(EXAMPLES, ["digits_on_a_device"]))
def test_an_example_runs_as_a_program_and_tells_what_it_did(name, run_example):
    done, home = run_example(name)
    assert (done.returncode, done.stderr) == (0, "")
    output = done.stdout
    for line in EXAMPLES[name]:
        assert line in output
        output = output[output.index(line) :]  # in this order
    assert (home / "ledger.db").exists()


def test_the_device_that_an_example_leaves_behind_has_forgotten(run_example, capsys):
    _, home = run_example("digits_on_a_device")
    with Cause(home) as device:
        assert list(device.ledger.rounds_of("bob")) == []
        assert list(device.ledger.rounds_of("carol")) == [1, 3]
        assert [output["samples"] for output in device.home.receipts.listed()] == [300, 300, 100, 100]
    assert digits_on_a_device.main(["--home", str(home)]) == 2
    assert "is there already: name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("example", [custom_torch_model, pytest.param(digits_on_a_device, marks=pytest.mark.long)])
@pytest.mark.usefixtures("one_process_trial")
def test_an_example_fails_where_a_training_cannot_be_repeated(example, monkeypatch, capsys):
    drawn = count()
    monkeypatch.setattr(training, "training_seed", lambda *parts: digest("never twice", next(drawn)))
    assert example.main([]) == 1
    assert "0 of " in capsys.readouterr().out
