"""`repair = "idle"`: a deadline beats idleness, new rounds take their repair along, and nothing waits unseen."""

import os
import time

import pytest

from cause.device.retention import retention
from cause.service.others_load import OthersLoad, Reading
from tests.device.homes import opened
from tests.service.services import Running, rows
from tests.waiting import wait_until

DAY = 86_400.0


class FakeLoad:
    """Says whether the machine is idle, and counts the questions."""

    def __init__(self, idle: bool) -> None:
        self.answer, self.asked = idle, 0

    def idle(self) -> bool:
        self.asked += 1
        return self.answer


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A service on a machine that is never idle; its clock is moved by `clock.now`."""
    monkeypatch.setattr(os, "getloadavg", lambda: (999.0, 999.0, 999.0))
    opened(tmp_path / "home").close()
    with Running(tmp_path / "home", repair="idle") as running:
        running.service.trainer.load = FakeLoad(idle=False)  # type: ignore[assignment]
        running.now = time.time()
        running.service.home.time.now = lambda: running.now
        running.learn(ann=30, bob=20)
        yield running


def erase(running, user="ann", **what) -> str:
    answer = running.post(f"/v1/users/{user}/erasures", body=what)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def looked(running) -> None:
    """Wait until the scheduler has looked twice more."""
    load = running.service.trainer.load
    before = load.asked
    running.service.trainer.wake()
    wait_until(lambda: load.asked > before)
    before = load.asked
    running.service.trainer.wake()
    wait_until(lambda: load.asked > before)


def state(running, request) -> str:
    return running.get(f"/v1/requests/{request}").json()["state"]


def test_a_deadline_that_is_near_beats_a_busy_machine(busy):
    request = erase(busy, rounds=[1], count=5)
    looked(busy)
    assert state(busy, request) == "in_effect"
    busy.now += 22 * DAY
    looked(busy)
    status = busy.get("/v1/status").json()
    assert state(busy, request) == "in_effect", "there is time still"
    assert (status["requests"]["due_soon"], status["requests"]["overdue"]) == (0, 0)
    busy.now += 2 * DAY
    busy.service.trainer.wake()
    wait_until(lambda: state(busy, request) == "repaired")
    assert busy.service.device.waiting() == []


def test_an_idle_machine_repairs_at_once(busy):
    request = erase(busy, rounds=[1], count=5)
    looked(busy)
    busy.service.trainer.load.answer = True
    busy.service.trainer.wake()
    wait_until(lambda: state(busy, request) == "repaired")


def test_a_new_round_of_a_waiting_shard_is_trained_with_its_repair_in_one_training(busy):
    device = busy.service.device
    (shard,) = {segment.shard for segment, _ in device.ledger.pieces_of("ann", 1)}
    request = erase(busy, rounds=[1], count=5)
    looked(busy)
    assert device.waiting() == [shard]
    trained = []
    publish = busy.service.events.publish
    busy.service.events.publish = lambda kind, **more: (trained.append((kind, more)), publish(kind, **more))
    assert busy.post("/v1/users/ann/samples", body=rows("ann", 2, 8)).status_code == 201
    assert busy.post("/v1/rounds").status_code == 202
    wait_until(lambda: device.waiting() == [])
    wait_until(lambda: state(busy, request) == "repaired")
    begun = [more for kind, more in trained if kind == "training.started"]
    assert [more["shards"] for more in begun] == [[shard]], "one training, not two"
    assert device.heads()[shard].key.round == 2


def test_rounds_and_erasures_under_load_leave_every_shard_voting(busy):
    for t in range(2, 8):
        erase(busy, "ann", rounds=[t - 1], count=1)
        erase(busy, "bob", rounds=[t - 1], count=1)
        for user in ("ann", "bob"):
            assert busy.post(f"/v1/users/{user}/samples", body=rows(user, t, 6)).status_code == 201
        assert busy.post("/v1/rounds").status_code == 202
    wait_until(lambda: busy.service.device.waiting() == [])
    status = busy.get("/v1/status").json()
    assert (status["voting"], status["degraded"], status["repair"]["trainings"]) == (2, None, 0)


def test_status_metrics_and_problem_say_degraded_and_overdue(tmp_path):
    opened(tmp_path / "home").close()
    with Running(tmp_path / "home", repair="never") as running:
        now = time.time()
        running.service.home.time.now = lambda: now
        running.learn(ann=30, bob=20)
        assert running.get("/v1/status").json()["problem"] is None
        erase(running, "ann", rounds=[1], count=5)
        wait_until(lambda: running.service.trainer.progress is None)
        (shard,) = running.service.device.waiting()
        status = running.get("/v1/status").json()
        assert status["degraded"]["not_voting"] == [shard]
        assert (status["degraded"]["of"], status["voting"]) == (2, 1)
        assert status["problem"] is None
        now += 2 * 3600
        body = running.get("/v1/status", "auditor").json()["problem"]
        assert body == "1 of 2 shards have not voted for more than an hour: repair now"
        now += 24 * DAY
        assert running.get("/v1/status").json()["requests"]["due_soon"] == 1
        now += 7 * DAY
        status = running.get("/v1/status").json()
        assert (status["requests"]["due_soon"], status["requests"]["overdue"]) == (0, 1)
        assert status["problem"] == "1 requests are past their deadline and not repaired: repair now"
        lines = running.get("/metrics").text.splitlines()
        assert "cause_degraded_shards 1.0" in lines
        assert "cause_overdue_requests 1.0" in lines
        assert retention(running.service.home).retain is None


def test_the_services_own_work_does_not_make_the_machine_busy():
    readings = iter([Reading(float(t), 2.0 * t, 1.9 * t) for t in range(0, 100, 10)])
    load = OthersLoad(cores=2, read=lambda: next(readings))
    assert [load.idle() for _ in range(4)] == [False, True, True, True]


def test_the_work_of_others_does():
    readings = iter([Reading(float(t), 2.0 * t, 0.1 * t) for t in range(0, 100, 10)])
    load = OthersLoad(cores=2, read=lambda: next(readings))
    assert not any(load.idle() for _ in range(4))


def test_what_others_did_longer_than_a_minute_ago_does_not_count():
    busy = [Reading(float(t), 2.0 * t, 0.0) for t in range(0, 60, 10)]
    calm = [Reading(float(t), 120.0, 0.0) for t in range(60, 200, 10)]
    readings = iter([*busy, *calm])
    load = OthersLoad(cores=2, read=lambda: next(readings))
    answers = [load.idle() for _ in range(20)]
    assert not any(answers[:6])
    assert all(answers[10:])


def test_a_reading_of_this_machine_counts_this_process():
    from cause.service.others_load import take_reading

    first = take_reading()
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    second = take_reading()
    assert second.own - first.own >= 0.1
    assert second.machine >= first.machine
