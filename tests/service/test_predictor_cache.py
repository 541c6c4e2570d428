"""Decoded heads are kept only while they vote, whoever forgets and whenever."""

import threading

import pytest

from cause.device.device import Cause
from cause.errors import NoVotersError
from cause.service.predictor_cache import PredictorCache
from cause.service.service import Service
from cause.service.settings import ServeSettings
from tests.device.homes import bayes, learn, opened, samples
from tests.waiting import wait_until


def test_heads_that_saw_what_expires_are_let_go(tmp_path):
    opened(tmp_path / "home", retain="1 rounds").close()
    service = Service(tmp_path / "home", ServeSettings(repair="never"))
    try:
        device = service.device
        device.stage("a", *samples("a", 1, 9))
        device.close_round()
        device.catch_up()
        service.predictors.predict(samples("a", 1, 2)[0])
        assert len(service.predictors._predictors) == 1
        device.close_round(empty=True)
        assert device.ledger.rounds_of("a") == []
        assert service.predictors._predictors == {}
    finally:
        service.start()
        service.close()


def test_a_head_that_is_forgotten_while_it_is_decoded_is_not_kept(monkeypatch):
    device = Cause(learner=bayes(), system="sisa", shards=2, slots=8)
    learn(device, a=40)
    heads, decode = PredictorCache(device), device.learner.decode
    assert len(device.heads()) == 2

    def meanwhile(blob):
        if device.ledger.rounds_of("a"):
            device.forget("a", repair="later")
        return decode(blob)

    monkeypatch.setattr(device.learner, "decode", meanwhile)
    with pytest.raises(NoVotersError):
        heads.predict(samples("b", 1, 2)[0])
    assert heads._predictors == {}


def test_the_service_lets_go_of_what_is_too_old_when_nobody_calls(tmp_path, monkeypatch):
    monkeypatch.setattr("cause.service.trainer.EXPIRE_S", 0.05)
    monkeypatch.setattr("cause.service.trainer.LOOK_S", 0.05)
    opened(tmp_path / "home", retain="10 days").close()
    service = Service(tmp_path / "home", ServeSettings(repair="never"))
    try:
        device, now = service.device, service.home.clock()
        device.stage("a", *samples("a", 1, 9))
        device.close_round()
        device.catch_up()
        device.stage("b", *samples("b", 2, 4))
        began = service.trainer._expired_at
        service.start()
        wait_until(lambda: service.trainer._expired_at > began)  # it was looked for
        assert (device.ledger.rounds_of("a"), len(service.home.inbox.uploads())) == ([1], 1)
        service.home.time.now = lambda: now + 11 * 86_400
        wait_until(lambda: device.ledger.rounds_of("a") == [] and not service.home.inbox.uploads())
    finally:
        service.close()


def test_nobody_waits_for_an_upload_that_is_looked_at(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        learn(device, a=5)
        looking, seen, go_on = device.learner.check, threading.Event(), threading.Event()

        def slowly(upload):
            seen.set()
            assert go_on.wait(20)
            looking(upload)

        monkeypatch.setattr(device.learner, "check", slowly)
        thread = threading.Thread(target=device.stage, args=("b", *samples("b", 2, 4)))
        thread.start()
        assert seen.wait(20)
        assert device.lock.acquire(timeout=5)
        device.lock.release()
        go_on.set()
        thread.join()
        assert len(device.home.inbox.uploads()) == 1
