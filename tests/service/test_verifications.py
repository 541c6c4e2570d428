"""Replays in the background: what is forgotten meanwhile ends them."""

import multiprocessing

import pytest

from cause.cli import main
from cause.client import Client
from cause.device.device import Cause
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.service.events import Events
from cause.service.verifications import Verifications
from tests.device.homes import ERASE, opened, samples
from tests.executors.worker_learners import Held
from tests.service.services import Running
from tests.waiting import wait_until


@pytest.fixture
def device(tmp_path):
    (tmp_path / "0").touch()
    device = Cause(learner=Held(tmp_path), system="cause-no-sc", shards=1, slots=4)
    device.learn([TraceUpload("ann", 1, (Part(30),)), TraceUpload("bob", 1, (Part(20),))])
    yield device
    (tmp_path / "0").touch()  # a replay that is still waiting would keep this process from its end


def test_a_replay_of_what_is_being_forgotten_ends_at_once_and_begins_again(device, tmp_path):
    verifications = Verifications(device, Events(), 1)
    (tmp_path / "0").unlink()  # from here on replays take for ever
    before = set(multiprocessing.active_children())
    asked = verifications.start(None)
    (process,) = wait_until(lambda: set(multiprocessing.active_children()) - before)
    wait_until(lambda: verifications._pool)
    device.serve([Request("ann")], **ERASE)
    verifications.restart()
    wait_until(lambda: not process.is_alive())  # not `join`: another thread joins it, too
    wait_until(lambda: verifications.get(asked.id).state != "running")  # a repair would make new sub-models
    assert verifications.get(asked.id).state == "nothing", "no sub-model is left"
    (tmp_path / "0").touch()
    verifications.close()


def test_a_stop_does_not_wait_for_a_replay(device, tmp_path):
    verifications = Verifications(device, Events(), 1)
    (tmp_path / "0").unlink()
    asked = verifications.start(None)
    wait_until(lambda: verifications._pool)
    verifications.close()
    assert verifications.get(asked.id).state == "failed"


def test_a_replay_during_which_something_is_always_forgotten_does_not_tell_of_a_moment_long_gone(device, monkeypatch):
    verify = device.verify

    def meanwhile(receipt, **options):
        device.serve([Request("ann", rounds=(1,), count=1)], **ERASE)
        return verify(receipt, **(options | {"processes": 0}))

    monkeypatch.setattr(device, "verify", meanwhile)
    verifications = Verifications(device, Events(), 1)
    asked = verifications.start(None)
    wait_until(lambda: verifications.get(asked.id).state != "running")
    assert verifications.get(asked.id).state == "failed"
    verifications.close()


def test_a_verification_without_sub_models_does_not_say_that_it_holds(tmp_path):
    with Running(tmp_path / "home") as device, Client(str(device.http.base_url), device.secrets["operator"]) as client:
        assert client.verify().state == "nothing"
        device.learn(ann=8)
        assert client.verify().state == "holds"
        request = client.erase("ann")
        assert client.verify(request.receipts[0]).state == "nothing"


def test_the_command_says_so_where_there_is_nothing_to_replay(tmp_path, capsys):
    with opened(tmp_path / "home") as device:
        device.learn({"ann": samples("ann", 1, 4)})
        device.forget("ann")
    for receipt, text in (([], "compare\n"), (["0"], "compare; the receipt is signed by the device and in its log\n")):
        with pytest.raises(SystemExit) as ended:
            main(["verify", *receipt, "--home", str(tmp_path / "home"), "--processes", "0"])
        assert not ended.value.code
        assert capsys.readouterr().out.endswith(f"nothing was replayed: there is no sub-model to {text}")
