"""Tokens go by the home's time: a clock that jumps neither locks everybody out nor makes expired tokens valid again."""

import time

import pytest

from cause.device.store.clock import Clock
from cause.service import home_time
from cause.service.service import tokens_of
from cause.service.tokens import Tokens
from tests.service.services import Running

DAY_S = 86_400.0


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setattr(home_time, "EVERY_S", 0.0)
    with Running(tmp_path / "home") as running:
        running.learn(ann=5, bob=5)  # the home has seen a time that it believes
        yield running


@pytest.mark.parametrize("days", [3650, 400, 40, -40, -15_000])
def test_tokens_stay_valid_and_expired_ones_stay_expired_when_the_clock_jumps(running, days):
    tokens = running.service.tokens
    _, expired = tokens.create(["operator"], expires_s=-1.0)
    running.service.home.time.wall = lambda: time.time() + days * DAY_S
    assert running.get("/v1/status").json()["clock"], "the jump is seen"
    assert running.get("/v1/token").status_code == 200
    assert running.post("/v1/users/ann/erasures", body={}).status_code == 202
    refused = running.http.get("/v1/token", headers={"Authorization": f"Bearer {expired}"})
    assert refused.status_code == 401
    made, secret = tokens.create(["operator"], expires_s=DAY_S)
    assert abs(made.created - time.time()) < 60
    assert running.http.get("/v1/token", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_a_command_beside_the_service_goes_by_the_same_time(running, monkeypatch):
    for clocked in (Clock.__init__, Tokens.__init__):  # the default clock of both: 1970
        monkeypatch.setattr(clocked, "__defaults__", (lambda: 1000.0,))
    tokens: Tokens = tokens_of(running.folder)
    try:
        made, secret = tokens.create(["operator"])
    finally:
        tokens.close()
    assert made.created > 50 * 365 * DAY_S
    assert running.http.get("/v1/token", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
