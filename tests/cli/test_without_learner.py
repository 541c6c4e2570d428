"""Commands that retrain nothing before their answer do without the learner, and what they do is exact all the same."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from cause.cli.homes import opened as opened_by_command
from cause.device.device import Cause
from cause.engine.requests import Request
from cause.errors import HomeError
from cause.learners.deferred import DeferredLearner
from tests.clean_room import differences
from tests.device.homes import MASTER, opened, samples

SCRIPT = """
import sys
from cause.cli import main
for line in sys.stdin.read().splitlines():
    try:
        main(line.split())
    except SystemExit as ended:
        assert not ended.code, line
    heavy = {"torch", "sklearn", "scipy"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""
LINES = """
status home --json
forget home --user ann --rounds 1 --count 3 --plan --json
forget home --user cyd --json
forget home --user ann --rounds 1 --count 3 --repair later --json
receipts home --json
log home --json
config home --json
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        with opened(folder / "home", system="frugal", shards=3) as device:
            device.learn({user: samples(user, 1, 20) for user in ("ann", "bob", "cyd")})
            device.learn({user: samples(user, 2, 9) for user in ("ann", "bob")})
    return folder


@pytest.fixture
def copied(home, tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    shutil.copytree(home / "home", tmp_path / "home")
    return tmp_path / "home"


def test_looking_and_forgetting_import_nothing_that_learns(copied):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=LINES.strip(),
        cwd=copied.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with Cause(copied, read_only=True) as device:
        assert "cyd" not in [user for user in ("ann", "cyd") if device.ledger.rounds_of(user)]
        (effect, *_) = device.home.receipts.listed()
        assert effect["environment"] == device.learner.environment


def test_what_is_forgotten_without_the_learner_is_what_is_forgotten_with_it(copied, tmp_path):
    shutil.copytree(copied, tmp_path / "other")
    request = Request("ann", rounds=(1,))
    with opened_by_command(copied, deferred=True) as device:
        assert isinstance(device.learner, DeferredLearner)
        device.serve([request], repair="later")
        assert not device.learner.is_loaded
        device.repair()
        assert device.learner.is_loaded
        with Cause(tmp_path / "other") as other:
            other.serve([request])
            assert differences(device, other) == []
            x = np.concatenate([samples(user, 1, 20)[0] for user in ("ann", "bob")])
            assert device.predict(x).tolist() == other.predict(x).tolist()
        assert device.verify(processes=0).holds


def test_a_learner_with_another_recipe_is_refused_before_anything_is_destroyed(copied, monkeypatch):
    from cause.cli.forget import _load_if_needed
    from cause.learners import described

    build = described.build
    monkeypatch.setattr(described, "build", lambda parts: build({**parts, "epochs": 7}))
    with opened_by_command(copied, deferred=True) as device:
        with pytest.raises(HomeError, match="recipe is not that of the sub-models"):
            _load_if_needed(device, Request("ann", rounds=(1,)))
        assert device.ledger.rounds_of("ann") == [1, 2]
        assert device.home.accepted() == []


def test_a_home_that_does_not_remember_its_environment_is_opened_with_its_learner_once(copied):
    with Cause(copied) as device, device.home.database.transaction():
        device.home.database.run("DELETE FROM meta WHERE name='environment'")
    with opened_by_command(copied, deferred=True) as device:
        assert not isinstance(device.learner, DeferredLearner)
    with opened_by_command(copied, deferred=True) as device:
        assert isinstance(device.learner, DeferredLearner)
