"""Partitions, policies, votes and learners of other packages."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cause.common.registry import Registry
from cause.device.device import Cause
from cause.engine.memory import POLICIES
from cause.engine.partition import PARTITIONERS
from cause.engine.presets import System, refuse_taken
from cause.engine.vote_proba import vote_proba
from cause.engine.voting import VOTES
from cause.errors import InputError
from cause.learners.additive import AdditiveLearner
from cause.learners.additive.heads import HEADS
from cause.learners.described import LEARNERS, build
from cause.learners.sklearn import SklearnLearner

ROOT = Path(__file__).parents[1]
CODE = """
import numpy as np
from cause.engine.memory.fifo import Fifo
from cause.learners.sklearn import SklearnLearner
from sklearn.naive_bayes import GaussianNB


class Second(Fifo):
    \"\"\"As fifo.\"\"\"


def first_voter(probabilities, weights):
    \"\"\"What the first head says.\"\"\"
    return probabilities[0].argmax(axis=1)


class Bayes(SklearnLearner):
    \"\"\"A learner of a package.\"\"\"

    def __init__(self, classes, features):
        super().__init__(GaussianNB(), classes=classes, features=features)

    def described(self):
        return {"kind": "bayes", "classes": self.classes, "features": self.features}
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package of a name, with some code and entry points, for this test alone."""
    for registry in (PARTITIONERS, POLICIES, VOTES, LEARNERS, HEADS):
        monkeypatch.setattr(registry, "_loaded", {})

    def install(package, groups, code=CODE):
        folder = tmp_path / "site" / package
        (folder / f"{package}-1.0.dist-info").mkdir(parents=True)
        (folder / f"{package}.py").write_text(code)
        (folder / f"{package}-1.0.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        lines = [f"[{group}]\n{name} = {package}:{what}\n" for group, name, what in groups]
        (folder / f"{package}-1.0.dist-info" / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, package, raising=False)
        return folder

    return install


def data(users=("ann", "bob", "carol"), count=40):
    rng = np.random.default_rng(0)
    return {user: (rng.normal(size=(count, 4)), np.arange(count) % 2) for user in users}


def test_a_policy_and_a_vote_of_a_package_are_used_by_name(installed):
    installed("other", [("cause.policies", "second", "Second"), ("cause.votes", "first", "first_voter")])
    learner = SklearnLearner(sklearn_nb(), classes=2, features=4)
    device = Cause(learner=learner, system="cause:policy=second,vote=first,gamma=1", shards=2, slots=4)
    for _ in range(3):
        device.learn(data())
    device.forget("bob")
    x = np.zeros((3, 4))
    assert type(device.memory.policy).__name__ == "Second"
    heads = device.heads()
    first = device.learner.decode(device.memory.shelf.get(heads[min(heads)].key))
    assert (device.predict(x) == device.learner.predict(first, x).argmax(axis=1)).all()
    assert list(POLICIES)[-1] == "second"
    assert "second" in POLICIES


def sklearn_nb():
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def test_a_vote_says_its_shares_or_gives_all_to_one_label(installed):
    code = CODE + "\nfirst_voter.shares = lambda probabilities, weights: probabilities[0]\n"
    votes = np.array([[[0.8, 0.2]], [[0.1, 0.9]]])
    installed("quiet", [("cause.votes", "first", "first_voter")])
    installed("saying", [("cause.votes", "open", "first_voter")], code)
    assert vote_proba("first", votes, np.ones(2)).tolist() == [[1, 0]]
    assert vote_proba("open", votes, np.ones(2)).tolist() == [[0.8, 0.2]]


def test_a_home_with_a_learner_and_a_policy_of_a_package_opens_with_it_and_names_it_without(
    installed, tmp_path, monkeypatch
):
    folder = installed("other", [("cause.policies", "second", "Second"), ("cause.learners", "bayes", "Bayes")])
    learner = build({"kind": "bayes", "classes": 2, "features": 4})
    with Cause(tmp_path / "device", learner=learner, system="frugal:policy=second", shards=2, slots=4) as device:
        device.learn(data())
        device.forget("bob")
    with Cause(tmp_path / "device") as device:
        assert type(device.memory.policy).__name__ == "Second"
        assert device.verify(processes=0).mismatched == []
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(folder)])
    POLICIES._loaded.clear()
    LEARNERS._loaded.clear()
    with pytest.raises(InputError, match=r"cause\.toml.*unknown policy 'second'.*'cause\.policies' is not installed"):
        Cause(tmp_path / "device")
    with pytest.raises(
        InputError, match=r"kind is one of torch, sklearn, additive, not 'bayes'.*'cause\.learners' is not inst"
    ):
        build({"kind": "bayes", "classes": 2, "features": 4})


HEAD = """
from cause.learners.additive.heads.class_means import ClassMeans


class Means(ClassMeans):
    \"\"\"A head of a package.\"\"\"
"""


def test_a_home_with_a_head_of_a_package_opens_by_its_name(installed, tmp_path, monkeypatch):
    folder = installed("other", [("cause.heads", "means", "Means")], HEAD)
    learner = AdditiveLearner(features=4, scale=(-4, 4), classes=2, head="means")
    with Cause(tmp_path / "home", learner=learner) as device:
        device.learn(data())
        device.forget("bob")
    with Cause(tmp_path / "home") as device:
        assert isinstance(device.learner, AdditiveLearner)
        assert type(device.learner.head).__name__ == "Means"
        assert device.verify().holds
    monkeypatch.setattr(HEADS, "_loaded", {})
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part != str(folder)])
    with pytest.raises(InputError, match=r"unknown head 'means'.*cause\.heads"):
        Cause(tmp_path / "home")


def test_wrong_settings_of_a_learner_are_one_line(installed):
    installed("other", [("cause.learners", "bayes", "Bayes")])
    with pytest.raises(InputError, match=r"not settings of a learner of kind 'bayes': .*'colour'"):
        build({"kind": "bayes", "classes": 2, "features": 4, "colour": 1})


def test_a_name_of_ours_stays_ours_and_something_new_with_it_is_refused(installed, tmp_path):
    installed("other", [("cause.policies", "fifo", "Second")])
    assert POLICIES["fifo"].__name__ == "Fifo"
    assert list(POLICIES).count("fifo") == 1
    with pytest.raises(InputError, match="the policy 'fifo' is ours, and the package 'other' brings another"):
        refuse_taken(System(policy="fifo"))
    refuse_taken(System(policy="cost"))
    learner = SklearnLearner(sklearn_nb(), classes=2, features=4)
    with pytest.raises(InputError, match="the policy 'fifo' is ours"):
        Cause(tmp_path / "device", learner=learner, system="frugal:policy=fifo", shards=2, slots=4)


def test_a_home_of_ours_opens_beside_a_package_with_its_name(installed, tmp_path):
    learner = SklearnLearner(sklearn_nb(), classes=2, features=4)
    with Cause(tmp_path / "device", learner=learner, system="frugal:policy=fifo", shards=2, slots=4) as device:
        device.learn(data())
    installed("other", [("cause.policies", "fifo", "Second")])
    with Cause(tmp_path / "device") as device:
        assert type(device.memory.policy).__name__ == "Fifo"


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("Second", "import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Second", "raise RuntimeError('two\\nlines')", "cannot be loaded: RuntimeError: two$"),
        ("Third", CODE, "cannot be loaded: AttributeError"),
        ("first_voter", CODE, "is no policy: <function first_voter"),
        ("np.ndarray", CODE, "is no policy: <class 'numpy.ndarray'>"),
    ],
)
def test_a_package_that_cannot_be_used_fails_only_where_its_name_is_used(installed, what, code, message):
    installed("broken", [("cause.policies", "second", what)], code)
    assert POLICIES["fifo"].__name__ == "Fifo"
    assert "second" in POLICIES
    with pytest.raises(InputError, match=f"^the policy 'second' of the package 'broken' {message}"):
        System(policy="second")
    assert "the policy 'second' of the package 'broken'" in POLICIES.summaries()["second"]


def test_one_name_in_two_packages_is_refused(installed):
    installed("one", [("cause.policies", "second", "Second")])
    installed("two", [("cause.policies", "second", "Second")])
    with pytest.raises(InputError, match=r"'second' comes with several packages \(one, two\)"):
        System(policy="second")


def test_a_name_that_no_composition_can_hold_is_refused(installed):
    installed("other", [("cause.policies", "a,b", "Second")])
    with pytest.raises(InputError, match="has a name that no composition can hold"):
        System(policy="a,b")


def test_registries_without_a_group_take_nothing_from_packages(installed):
    installed("other", [("cause.policies", "second", "Second")])
    with pytest.raises(InputError, match=r"unknown policy 'second': one of fifo$"):
        Registry("policy", {"fifo": int})["second"]


def run(*arguments, folder=None):
    """A command in a fresh process, with the packages of a folder beside CAUSE."""
    path = [str(folder)] if folder else []
    environment = {**os.environ, "PYTHONPATH": ":".join([*path, *filter(None, sys.path)])}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment)


def cause(*arguments, folder=None):
    return run("-c", "from cause.cli import main; main()", *arguments, folder=folder)


def test_entry_points_are_not_searched_before_a_name_is_unknown():
    code = "import sys, cause.engine.presets; from cause.cli.commands import COMMANDS; list(COMMANDS.values());"
    done = run("-c", code + "print('importlib.metadata' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_systems_lists_what_packages_bring_and_what_is_refused(installed):
    good = installed("good", [("cause.policies", "second", "Second"), ("cause.policies", "fifo", "Second")])
    bad = installed("bad", [("cause.votes", "loud", "loud")], "import no_such_module")
    shown = json.loads(cause("systems", "--json", folder=f"{good}:{bad}").stdout)
    assert shown["policy"]["second"] == "As fifo. [good]"
    assert shown["policy"]["fifo"].startswith("A pointer walks")
    assert shown["vote"]["loud"].startswith(
        "the vote 'loud' of the package 'bad' cannot be loaded: ModuleNotFoundError"
    )
    assert shown["refused"] == ["the policy 'fifo' of the package 'good' is refused: the name is ours"]
    done = cause("simulate", "--policy", "fifo", folder=good)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: the policy 'fifo' is ours, and the package 'good' brings another")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example package, built and installed into a folder of its own, without a network."""
    if find_spec("hatchling") is None or find_spec("pip") is None:
        pytest.skip("the example package is built by hatchling and installed by pip: both are in the extra `dev`")
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    done = run("-m", "pip", "install", *options, "--target", folder, ROOT / "examples" / "plugin")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_the_example_package_is_listed_and_simulated(example):
    listed = json.loads(cause("systems", "--json", folder=example).stdout)
    assert listed["partition"]["household"].endswith("[cause-plugin-example]")
    options = ["--samples", "2000", "--users", "20", "--rounds", "4", "--slots", "8", "--json"]
    done = cause("simulate", "--partition", "household", "--policy", "crowded", *options, folder=example)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rsn"] > 0
    without = cause("simulate", "--partition", "household", *options)
    assert without.returncode == 2
    assert "unknown partition 'household'" in without.stderr


def test_the_example_package_passes_the_contract_suites(example):
    suites = ["tests/engine/partition/test_contract.py", "tests/engine/memory/test_contract.py"]
    done = run("-m", "pytest", "-p", "no:cacheprovider", "-k", "household or crowded", *suites, "-rA", folder=example)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") >= 7
    assert "[crowded]" in done.stdout
    assert "[household]" in done.stdout


def test_a_device_with_the_example_package_forgets_exactly(example, tmp_path):
    script = tmp_path / "device.py"
    script.write_text(
        """
import sys
import numpy as np
from sklearn.naive_bayes import GaussianNB
from cause import Cause, SklearnLearner

rng = np.random.default_rng(0)
learner = SklearnLearner(GaussianNB(), classes=2, features=4)
users = ["smith/ann", "smith/bob", "jones/carol", "brown/dave"]
system = "frugal:partition=household,policy=crowded"
with Cause(sys.argv[1], learner=learner, system=system, shards=3, slots=6) as device:
    for _ in range(4):
        device.learn({user: (rng.normal(size=(30, 4)), np.arange(30) % 2) for user in users})
    assert device.ledger.placement("smith/ann") == device.ledger.placement("smith/bob")
    device.forget("smith/ann")
with Cause(sys.argv[1]) as device:
    verification = device.verify(processes=1)
    assert verification.identical and not verification.mismatched, verification
"""
    )
    done = run(script, tmp_path / "device", folder=example)
    assert done.returncode == 0, done.stderr
    left = cause("status", tmp_path / "device")
    assert left.returncode == 2
    assert "unknown partition 'household'" in left.stderr
