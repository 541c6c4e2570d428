"""Decoded heads are kept only while they vote, whoever forgets and whenever."""

import pytest

from cause.serve.heads import Heads, NobodyVotesError
from cause.serve.service import Service
from cause.serve.settings import ServeSettings
from cause.system import Cause
from tests.home.homes import bayes, learn, opened, samples


def test_heads_that_saw_what_expires_are_let_go(tmp_path):
    opened(tmp_path / "home", retain="1 rounds").close()
    service = Service(tmp_path / "home", ServeSettings(repair="never"))
    try:
        device = service.device
        device.stage("a", *samples("a", 1, 9))
        device.close_round()
        device.catch_up()
        service.heads.predict(samples("a", 1, 2)[0])
        assert len(service.heads._ready) == 1
        device.close_round()
        assert device.ledger.rounds_of("a") == []
        assert service.heads._ready == {}
    finally:
        service.start()
        service.close()


def test_a_head_that_is_forgotten_while_it_is_decoded_is_not_kept(monkeypatch):
    device = Cause(learner=bayes(), system="sisa", shards=2, slots=8)
    learn(device, a=40)
    heads, decode = Heads(device), device.learner.decode
    assert len(device.heads()) == 2

    def meanwhile(blob):
        if device.ledger.rounds_of("a"):
            device.forget("a", repair="later")
        return decode(blob)

    monkeypatch.setattr(device.learner, "decode", meanwhile)
    with pytest.raises(NobodyVotesError):
        heads.predict(samples("b", 1, 2)[0])
    assert heads._ready == {}
