"""A clock that jumps destroys nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.cli import main
from cause.device.home.home import Home
from cause.device.store.clock import ACROSS_BOOTS_S, TOLERANCE_S, Clock, boot_id, since_boot
from cause.engine.requests import Request
from tests.device.homes import learn, opened, samples

DAY, HOUR = 86_400.0, 3_600.0
START = 1_700_000_000.0


class Machine:
    """Its clocks: the one that people set, and the one that counts."""

    def __init__(self):
        self.time, self.counted, self.boot = START, 500.0, "first"

    def passes(self, seconds):
        self.time += seconds
        self.counted += seconds

    def restarts(self, off=60.0):
        self.time += off
        self.counted, self.boot = 5.0, self.boot + "'"


@pytest.fixture
def machine(monkeypatch):
    board = Machine()
    monkeypatch.setitem(Home.__init__.__kwdefaults__, "clock", lambda: board.time)
    monkeypatch.setattr(Clock.__init__, "__defaults__", (lambda: board.time,))
    monkeypatch.setitem(Clock.__init__.__kwdefaults__, "counter", lambda: board.counted)
    monkeypatch.setitem(Clock.__init__.__kwdefaults__, "boot", lambda: board.boot)
    return board


@pytest.fixture
def folder(tmp_path, machine):
    """A home that keeps samples for 90 days, with rounds of the last 30."""
    path = tmp_path / "home"
    for _ in range(3):
        with opened(path, retain="90 days") as device:
            learn(device, alice=40, bob=30)
            device.stage("carol", *samples("carol", device.ledger.round, 5))
        machine.passes(10 * DAY)
    return path


def again(folder):
    return opened(folder, retain="90 days")


def ages(device, now):
    rows = device.home.database.rows("SELECT arrived FROM uploads ORDER BY id")
    return [round((now - arrived) / DAY, 3) for (arrived,) in rows]


def test_a_clock_far_ahead_for_one_round_destroys_nothing(folder, machine):
    """It left 60 of 478 samples."""
    machine.time += 400 * DAY
    with again(folder) as device:
        learn(device, dora=60)
        assert "the clock says 2025-01-17T22:13:20.000Z" in device.status().clock
        assert "should be about 2023-12-14T22:13:20.0" in device.status().clock
    machine.time -= 400 * DAY
    machine.passes(DAY)
    with again(folder) as device:
        learn(device, dora=9)
        assert device.status().clock is None
        assert device.status().samples == 3 * 70 + 60 + 9
        assert [upload.samples for upload in device.home.inbox.uploads()] == [5, 5, 5]
        assert ages(device, machine.time) == pytest.approx([31, 31, 21, 21, 11, 11, 1, 0], abs=0.01)


@pytest.mark.parametrize("off", [-400 * DAY, -START, -2 * HOUR, 2 * HOUR, ACROSS_BOOTS_S + DAY, 1e12])
def test_a_jump_within_a_boot_is_not_believed(folder, machine, off):
    machine.time += off
    with again(folder) as device:
        assert device.expire() is None
        learn(device, dora=3)
        assert "--trust-clock" in device.status().clock
        machine.time -= off
        assert device.status().clock is None
        assert ages(device, machine.time)[-1] == pytest.approx(0, abs=0.01)


def test_what_grows_too_old_while_the_clock_is_not_believed_stays_until_it_is(folder, machine):
    """The seconds counted since the last round alone destroy nothing."""
    with again(folder) as device:
        machine.passes(100 * DAY)
        machine.time += 400 * DAY
        assert device.expire() is None
        learn(device, dora=3)
        assert device.status().samples == 3 * 70 + 3
        machine.time -= 400 * DAY
        assert device.expire().samples == 3 * 70
        assert len(device.home.inbox) == 0


@pytest.mark.parametrize("off", [-HOUR / 2, HOUR / 2])
def test_what_a_time_server_corrects_is_believed(folder, machine, off):
    machine.time += off
    with again(folder) as device:
        assert device.status().clock is None


@pytest.mark.parametrize(("off", "believed"), [(-DAY, False), (HOUR, True), (6 * DAY, True), (8 * DAY, False)])
def test_after_a_restart_of_the_machine_a_few_days_are_believed(folder, machine, off, believed):
    with again(folder) as device:
        device.expire()
    machine.restarts(off)
    with again(folder) as device:
        assert (device.status().clock is None) == believed


def test_a_board_that_starts_in_1970_dates_its_samples_by_what_it_last_knew(folder, machine):
    with again(folder) as device:
        device.expire()
    now = machine.time
    machine.restarts()
    machine.time = 5.0
    with again(folder) as device:
        learn(device, dora=3)
        machine.passes(HOUR)
        learn(device, dora=4)
        assert device.status().clock is not None
        machine.time = now + 3 * DAY + HOUR  # it asked a time server: the board was off for three days
        assert device.status().clock is None
        device.expire()
        assert ages(device, machine.time)[-2:] == pytest.approx([3 + 1 / 24, 3], abs=0.01)


def test_who_trusts_the_clock_lets_what_is_too_old_go_and_nothing_else(folder, machine):
    """A device that was off for 75 days: rounds 1 and 2 are 105 and 95 days old then."""
    with again(folder) as device:
        device.expire()
    machine.restarts(75 * DAY)
    with again(folder) as device:
        learn(device, dora=60)
        machine.passes(DAY)
        assert device.expire() is None
        done = device.expire(trust_clock=True)
        assert sum(shard.forgotten for shard in done.shards) == 2 * 70
        assert device.status().clock is None
        assert device.status().samples == 70 + 60
        assert ages(device, machine.time) == pytest.approx([86, 86, 1], abs=0.01), "dora's are a day old, not 76"
        assert [round((machine.time - each.arrived) / DAY) for each in device.home.inbox.uploads()] == [86]


def test_a_clock_that_was_wrong_from_the_start_can_be_put_right(tmp_path, machine):
    machine.time += 400 * DAY
    with opened(tmp_path / "home", retain="90 days", repair="later") as device:
        learn(device, alice=20)
        device.forget("alice", rounds=[1], count=3)
        machine.time -= 400 * DAY
        assert device.status().clock is not None
        device.expire(trust_clock=True)
        assert ages(device, machine.time) == [0.0]
        assert device.status().requests[0].deadline == machine.time + 30 * DAY
        machine.passes(80 * DAY)
        learn(device, bob=5)
        assert device.ledger.rounds_of("alice") == [1]
        machine.passes(11 * DAY)
        learn(device, bob=5)
        assert device.ledger.rounds_of("alice") == []


def test_a_long_uptime_needs_no_confirmation_of_the_clock(tmp_path, machine):
    with opened(tmp_path / "home", retain="90 days") as device:
        learn(device, alice=20)
    machine.passes(200 * DAY)
    with opened(tmp_path / "home", retain="90 days") as device:
        learn(device, bob=20)
        assert device.status().clock is None
        assert device.ledger.rounds_of("alice") == []


def test_forgetting_and_retention_by_rounds_do_not_ask_the_clock(tmp_path, machine):
    with opened(tmp_path / "home", retain="2 rounds") as device:
        learn(device, alice=20, bob=20)
        machine.time += 400 * DAY
        device.serve([Request("alice")])
        assert device.ledger.rounds_of("alice") == []
        learn(device, bob=20)
        learn(device, bob=20)
        assert device.ledger.rounds_of("bob") == [2, 3]


def test_the_commands_say_it_and_show_the_way_out(folder, machine, capsys):
    def cause(*args):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        assert ended.value.code == 0
        return capsys.readouterr().out

    machine.time += 400 * DAY
    for command in (["status", folder], ["doctor", "--home", folder], ["expire", folder]):
        lines = [line for line in cause(*command).splitlines() if "the clock says 2025-" in line]
        assert len(lines) == 1
        assert lines[0].startswith("note: ")
        assert "2023-" in lines[0]
        assert "--trust-clock" in lines[0]
    assert "--trust-clock" in json.loads(cause("status", folder, "--json"))["clock"]
    payload = json.loads(cause("expire", folder, "--trust-clock", "--json"))
    assert (payload["samples"], payload["clock"]) == (3 * 70, None)
    assert "the clock says" not in cause("status", folder)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["passes", "jumps", "restarts"]), st.floats(-800 * DAY, 800 * DAY)), max_size=12
    )
)
def test_the_time_of_a_home_never_runs_ahead_of_what_passed(steps):
    """Whatever the clock says, within a boot the home's time is at most an hour off what was counted."""

    class Meta(dict[str, Any]):
        def set(self, name, value):
            self[name] = value

    machine = Machine()
    meta: Any = Meta()
    clock = Clock(meta, lambda: machine.time, counter=lambda: machine.counted, boot=lambda: machine.boot)
    clock.note()
    low = high = machine.time
    for what, amount in steps:
        if what == "passes":
            machine.passes(abs(amount))
            low, high = low + abs(amount), high + abs(amount)
        elif what == "jumps":
            machine.time += amount
            high += TOLERANCE_S
            low -= TOLERANCE_S
        else:
            machine.restarts(amount)
            low, high = low - TOLERANCE_S, high + ACROSS_BOOTS_S + TOLERANCE_S
        assert low - 1 <= clock.now() <= high + 1
        clock.note()


def test_this_machine_has_these_clocks():
    assert boot_id()
    assert boot_id() == boot_id()
    assert 0 < since_boot() <= since_boot()
