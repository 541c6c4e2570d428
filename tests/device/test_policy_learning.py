"""What a device's policy learns from requests lasts, can be reset, and is not learned from expiry."""

import json

import pytest

from cause.cli import main
from tests.device.homes import learn, opened


def policy(device):
    return device.memory.policy.state()


def test_new_frugal_homes_learn_and_the_counts_outlive_the_samples(tmp_path):
    with opened(tmp_path / "home") as device:
        assert device.system.policy == "adaptive"
        for _ in range(3):
            learn(device, a=9, b=8)
        device.forget("a", rounds=[1], count=2)
        device.forget("b")
        assert policy(device) == {"named_2": 2, "oldest_2": 2}
    with opened(tmp_path / "home") as device:
        assert policy(device) == {"named_2": 2, "oldest_2": 2}
        assert device.ledger.rounds_of("b") == []


def test_a_request_that_was_only_accepted_is_learned_from_at_the_next_opening(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=9, b=8)

        def stopped(*arguments, **named):
            raise RuntimeError("stopped")

        with monkeypatch.context() as patched:
            patched.setattr(device.engine, "delete", stopped)
            with pytest.raises(RuntimeError):
                device.forget("a")
    with opened(tmp_path / "home") as device:
        assert device.ledger.rounds_of("a") == []
        assert policy(device) == {"named_0": 1, "oldest_0": 1}


def test_expiry_teaches_nothing(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        for _ in range(4):
            learn(device, a=9, b=8)
        assert device.ledger.rounds_of("a") == [3, 4]
        assert policy(device) == {}
        device.forget("a", rounds=[4])
        assert policy(device) == {"named_0": 1, "oldest_3": 1}


def test_an_expiry_that_was_only_accepted_teaches_nothing_at_the_next_opening(tmp_path):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        learn(device, a=9, b=8)
        learn(device, a=9, b=8)
        device.home.retain = (1, None)
        device.home.accept(device.home.expired())
    with opened(tmp_path / "home", retain="2 rounds") as device:
        assert device.ledger.rounds_of("a") == [2]
        assert policy(device) == {}


def test_a_command_deletes_what_was_learned(tmp_path, capsys):
    with opened(tmp_path / "home") as device:
        learn(device, a=9, b=8)
        device.forget("a")
        stored = device.memory.stored()
    reset = ["config", str(tmp_path / "home"), "--reset-policy"]
    assert json.loads(run(capsys, *reset, "--json")) == {"home": str(tmp_path / "home"), "reset": True}
    assert "has learned nothing" in run(capsys, *reset)
    with opened(tmp_path / "home") as device:
        assert policy(device) == {}
        assert device.memory.stored() == stored
        device.forget("b", count=1, rounds=[1])
        assert device.reset_policy()
        assert not device.reset_policy()
        assert policy(device) == {}


def test_other_policies_have_nothing_to_reset(tmp_path):
    with opened(tmp_path / "home", system="cause", slots=3) as device:
        for _ in range(3):
            learn(device, a=9, b=8)
        before = policy(device)
        assert before["jumps"] > 0
        assert not device.reset_policy()
        assert policy(device) == before


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert not ended.value.code
    return capsys.readouterr().out
