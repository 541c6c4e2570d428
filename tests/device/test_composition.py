"""A home stays composed as it was made, whatever its preset means later."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from cause.cli import main
from cause.common.registry import Registry
from cause.device.composition import FORMER, LATER, system_of, table
from cause.device.config import parse_config, read_config
from cause.device.device import Cause
from cause.engine import presets
from cause.engine.presets import PRESETS, System
from cause.errors import HomeError, InputError
from cause.learners.sklearn import SklearnLearner

UPLOAD = {user: (np.arange(20.0).reshape(10, 2) + shift, np.arange(10) % 2) for user, shift in (("a", 0), ("b", 3))}


def bayes():
    return SklearnLearner(GaussianNB(), classes=2, features=2)


def change_presets(monkeypatch):
    """A later version in which every preset means something else."""
    other = {name: System(partition="uniform", policy="fifo", pruning="none") for name in PRESETS}
    changed = Registry("system", other)
    monkeypatch.setattr(presets, "PRESETS", changed)
    monkeypatch.setattr(presets.parse_system, "__defaults__", (changed,))


@pytest.mark.parametrize("name", ["frugal", "recommended", "sisa"])
def test_a_preset_that_changes_leaves_homes_alone(tmp_path, monkeypatch, name):
    with Cause(tmp_path / "home", learner=bayes(), system=name, shards=2, slots=8) as device:
        device.learn(UPLOAD)
        before = device.system
    change_presets(monkeypatch)
    with Cause(tmp_path / "home", system=name) as device:
        assert table(device.system) == table(before)
        device.forget("a")
        assert device.verify(processes=0).mismatched == []
    with Cause(tmp_path / "new", learner=bayes(), system=name, shards=2, slots=8) as device:
        assert device.system.policy == "fifo"  # the change is one


def test_a_name_without_a_composition_means_what_it_meant(monkeypatch):
    change_presets(monkeypatch)
    text = "\n".join(f"{k} = {v!r}" for k, v in {"system": "frugal:slices=2", "shards": 2}.items())
    config = parse_config(f'[device]\n{text}\n[key]\nenv = "K"\n'.encode(), "x")
    assert config.composition is None
    assert table(config.system) == table(FORMER["frugal"]) | {"slices": 2}


def test_the_former_presets_are_those_of_today_but_for_the_policy_of_frugal():
    today = {name: table(PRESETS[name]) for name in FORMER}
    assert today["frugal"].pop("policy") == "adaptive"
    former = {name: table(system) for name, system in FORMER.items()}
    assert former["frugal"].pop("policy") == "cost"
    assert former == today


def test_a_composition_of_an_earlier_version_lacks_parts_that_came_later():
    earlier = {name: value for name, value in table(PRESETS["frugal"]).items() if name not in LATER}
    assert table(system_of("frugal", earlier | {"policy": "cost"})) == table(FORMER["frugal"])


def test_a_home_without_a_named_system_is_the_recommended_one_with_nothing_left_open(tmp_path):
    Cause(tmp_path / "home", learner=bayes()).close()
    config = read_config(tmp_path / "home" / "cause.toml")
    assert (config.settings.system, config.system.pruning, config.system.rehearsal) == ("recommended", "none", 1.0)
    with Cause(tmp_path / "home", system=config.system) as device:  # named by value, too
        assert device.system == config.system


def test_a_larger_memory_later_does_not_change_the_pruning(tmp_path):
    torch = pytest.importorskip("cause.learners.torch")
    Cause(tmp_path / "home", learner=torch.TorchLearner("mlp", classes=2, shape=(2,)), memory="100KB").close()
    assert read_config(tmp_path / "home" / "cause.toml").system.pruning == "iterative-70"
    with pytest.raises(SystemExit):
        main(["config", str(tmp_path / "home"), "memory=1GB", "--yes"])
    with Cause(tmp_path / "home") as device:
        assert (device.system.pruning, device.memory.budget_bytes) == ("iterative-70", 2**30)


def test_what_pruning_cannot_make_smaller_is_not_pruned(tmp_path):
    Cause(tmp_path / "home", learner=bayes(), shards=2, memory=8 * bayes().sub_model_bytes).close()
    assert read_config(tmp_path / "home" / "cause.toml").system.pruning == "none"


def test_a_composition_cannot_be_edited(tmp_path):
    Cause(tmp_path / "home", learner=bayes()).close()
    path = tmp_path / "home" / "cause.toml"
    path.write_text(path.read_text().replace("rehearsal = 1.0", "rehearsal = 2.0"))
    with pytest.raises(HomeError, match=r"edited: composition\.rehearsal 1\.0 -> 2\.0"):
        Cause(tmp_path / "home")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partition": "none"}, "unknown partition"),
        ({"slices": True}, "slices must be int"),
        ({"more": 1}, "no 'more'"),
        ({"pruning": "if-needed"}, "leaves pruning open"),
    ],
)
def test_a_composition_is_checked(change, message):
    with pytest.raises(InputError, match=message):
        system_of("cause", table(System()) | change)


def test_a_composition_with_a_part_missing_is_refused():
    with pytest.raises(InputError, match="needs 'vote'"):
        system_of("cause", {name: value for name, value in table(System()).items() if name != "vote"})
