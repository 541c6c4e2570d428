"""Settings change by `cause config` alone; an edited file is refused, and the message names what differs."""

import errno
import json
import os
import shutil

import pytest

from cause.cli import main
from cause.device.config import read_config
from cause.device.fsck import examine_home
from cause.device.home.home import Home
from cause.device.settings import change, changed
from cause.device.vault import EnvKeySource
from cause.errors import CauseError, HomeError, InputError
from tests.device.homes import learn, opened
from tests.recording_disk import RecordingDisk, crash_states
from tests.torture.recorded_home import on

SOURCE = EnvKeySource("CAUSE_TEST_KEY")


@pytest.fixture
def home(tmp_path):
    with opened(tmp_path / "home") as device:
        for _ in range(3):
            learn(device, a=40, b=30)
    return tmp_path / "home"


@pytest.fixture
def cause(capsys):
    def run(*args):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def edit(home, old, new):
    path = home / "cause.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('repair = "now"', 'repair = "now"\nretain = "1 rounds"', "retain None -> '1 rounds'"),
        ("seed = 0", "seed = 7", "seed 0 -> 7"),
        ("slots = 8", "slots = 80", "slots 8 -> 80"),
    ],
)
def test_an_edited_file_is_refused_and_the_setting_is_named(home, old, new, named, cause):
    edit(home, old, new)
    for read_only in (False, True):
        with pytest.raises(HomeError, match="was edited") as error:
            Home(home, SOURCE, read_only=read_only)
        assert named in str(error.value)
    assert named in examine_home(home).problems[0].what
    code, _, err = cause("status", home)
    assert (code, named in err, err.count("\n")) == (2, True, 1)


def test_a_comment_is_no_edit(home):
    path = home / "cause.toml"
    path.write_text("# ours\n" + path.read_text())
    opened(home).close()


def test_a_setting_is_changed_after_saying_what_it_does(home, cause):
    code, out, _ = cause("config", home, "retain=2 rounds", "--yes")
    assert code == 0
    assert "retain None -> '2 rounds'" in out
    assert "140 samples" in out
    assert examine_home(home).problems == []
    with opened(home) as device:
        assert device.home.retain == (2, None)
        before = sum(segment.count for shard in device.ledger.shards() for segment in device.ledger.lineage(shard))
        learn(device, c=1)
        after = sum(segment.count for shard in device.ledger.shards() for segment in device.ledger.lineage(shard))
    assert before - after == 140 - 1


def test_settings_are_shown_and_reported_as_json(home, cause):
    code, out, _ = cause("config", home, "--json")
    assert (code, json.loads(out)["device"]["repair"]) == (0, "now")
    code, out, _ = cause("config", home, "repair=later", "deadline_days=7", "--yes", "--json")
    payload = json.loads(out)
    assert code == 0
    assert payload["changed"] == [
        {"setting": "deadline_days", "old": 30.0, "new": 7.0},
        {"setting": "repair", "old": "now", "new": "later"},
    ]
    assert read_config(home / "cause.toml").settings.repair == "later"


def test_nothing_is_changed_without_a_yes(home, cause, monkeypatch):
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    before = (home / "cause.toml").read_bytes()
    assert cause("config", home, "retain=1 rounds")[0] == 130
    assert (home / "cause.toml").read_bytes() == before
    opened(home).close()


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ("seed=3", "seed cannot be changed"),
        ("system=cause", "system cannot be changed"),
        ("shards=5", "shards cannot be changed"),
        ("classes=5", "classes cannot be changed"),
        ("learner.features=5", "learner cannot be changed"),
        ("slots=4", "can only be raised"),
        ("memory=4GB", "raise `slots`"),
        ("retain=soon", "N rounds"),
        ("workers=many", "must be int"),
        ("colour=red", "no setting 'colour'"),
        ("retain", "name=value"),
        ("key.env=NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
    ],
)
def test_what_cannot_be_changed_is_refused(home, cause, setting, match):
    before = (home / "cause.toml").read_bytes()
    code, _, err = cause("config", home, setting, "--yes")
    assert (code, err.count("\n")) == (2, 1)
    assert match in err
    assert (home / "cause.toml").read_bytes() == before


def test_the_place_of_the_key_can_change(home, cause, monkeypatch):
    monkeypatch.setenv("CAUSE_OTHER_KEY", os.environ["CAUSE_TEST_KEY"])
    assert cause("config", home, "key.env=CAUSE_OTHER_KEY", "--yes")[0] == 0
    monkeypatch.delenv("CAUSE_TEST_KEY")
    with opened(home) as device:
        assert device.ledger.round == 3
    monkeypatch.setenv("CAUSE_OTHER_KEY", "22" * 32)
    code, _, err = cause("status", home)
    assert (code, "master key" in err) == (2, True)


def test_an_edited_file_is_taken_over_with_accept(home, cause):
    edit(home, 'repair = "now"', 'repair = "later"')
    code, out, _ = cause("config", home, "--accept", "--yes")
    assert (code, "repair 'now' -> 'later'" in out) == (0, True)
    opened(home).close()
    edit(home, "seed = 0", "seed = 1")
    code, _, err = cause("config", home, "--accept", "--yes")
    assert (code, "seed cannot be changed" in err) == (2, True)


@pytest.mark.long
def test_a_change_that_is_cut_off_anywhere_is_finished_or_never_was(home, tmp_path, thorough):
    disk = RecordingDisk(tmp_path)
    with on(disk):
        home_to_change = Home(home, SOURCE)
        change(home_to_change, changed(home_to_change.config, {"retain": "9 rounds"}))
        home_to_change.close()
    seen = set()
    for _, state in crash_states(disk, most=4 if thorough else 1):
        state.write_to(tmp_path / "state")
        with opened(tmp_path / "state" / "home") as device:
            seen.add(device.home.retain)
        retain = read_config(tmp_path / "state" / "home" / "cause.toml").settings.retain
        assert retain in (None, "9 rounds")
        assert examine_home(tmp_path / "state" / "home").problems == []
        shutil.rmtree(tmp_path / "state")
    assert seen == {(None, None), (9, None)}


def test_a_change_on_a_disk_that_fails_is_one_line(home, tmp_path):
    number, lines = 0, []
    while True:
        disk = RecordingDisk(tmp_path)
        with on(disk):
            home_to_change = Home(home, SOURCE)
            disk.fail_at, disk.error = len(disk.operations) + number, errno.EIO
            try:
                change(home_to_change, changed(home_to_change.config, {"workers": str(number % 2 + 1)}))
            except CauseError as error:
                lines.append(str(error))
            reached = len(disk.operations) > disk.fail_at
            disk.fail_at = None
            home_to_change.close()
        opened(home).close()
        number += 1
        if not reached:
            break
    assert number > 5
    assert lines
    assert not any("\n" in line for line in lines)


def test_values_are_checked_before_anything_is_done():
    from cause.device.config import Config, Settings

    with pytest.raises(InputError, match="deadline"):
        changed(Config(Settings(), {"env": "X"}), {"deadline_days": "-1"})


def test_a_home_that_could_never_learn_is_not_made(tmp_path):
    with pytest.raises(InputError, match="cannot have partition=given"):
        opened(tmp_path / "home", system="frugal:partition=given")
    assert not (tmp_path / "home").exists()


def test_fewer_slots_than_before_are_refused_in_one_line_and_nothing_changes(tmp_path):
    with opened(tmp_path / "home", slots=8) as device:
        for _ in range(3):
            learn(device, a=5, b=5)
        config, stored = device.home.config, device.memory.stored()
    with pytest.raises(HomeError, match="was made with slots = 8, not 3"):
        opened(tmp_path / "home", slots=3)
    with pytest.raises(InputError, match="slots can only be raised, from 8 on, not to 3"):
        changed(config, {"slots": "3"})
    with opened(tmp_path / "home", slots=8) as device:
        assert device.memory.stored() == stored


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workers=-1", "workers must be from 0 (train in this process) to 256, not -1"),
        ("workers=257", "workers must be from 0"),
        ("workers=1000000", "workers must be from 0"),
        ("deadline_days=1e-300", "a deadline is at least a minute"),
        ("input_shape=5", "is 5 values, but the learner takes 6 features"),
    ],
)
def test_a_setting_with_which_nothing_works_is_refused_when_it_is_said(home, cause, setting, message):
    before = (home / "cause.toml").read_bytes()
    code, _, err = cause("config", home, setting, "--yes")
    assert code == 2
    assert message in err
    assert (home / "cause.toml").read_bytes() == before
    name, _, value = setting.partition("=")
    edited = before.decode()
    if name == "input_shape":
        edited = edited.replace("[device]\n", "[device]\ninput_shape = [5]\n")
    for old in (f"{name} = 0\n", f"{name} = 30.0\n"):
        edited = edited.replace(old, f"{name} = {value}\n")
    (home / "cause.toml").write_text(edited)
    code, _, err = cause("config", home, "--accept", "--yes")
    assert code == 2
    assert message in err


def test_a_home_is_not_made_with_a_setting_with_which_nothing_works(tmp_path):
    with pytest.raises(InputError, match="workers must be from 0"):
        opened(tmp_path / "home", workers=300)
    with pytest.raises(InputError, match="which is 5 values, but the learner takes 6 features"):
        opened(tmp_path / "home", input_shape=(5,))
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("workers", [-1, 257])
def test_a_home_that_has_such_a_number_of_workers_already_still_forgets(home, cause, monkeypatch, workers):
    with monkeypatch.context() as before:  # as an earlier version accepted it
        before.setattr("cause.device.settings.check_new_settings", lambda config: None)
        assert cause("config", home, f"workers={workers}", "--yes")[0] == 0
    with pytest.warns(UserWarning, match=f"workers = {workers} is out of range: this process trains"):
        device = opened(home)
    with device:
        device.forget("a")
        assert device.samples_of("a") == []
        learn(device, c=5)
    assert cause("config", home, "workers=0", "--yes")[0] == 0
    opened(home).close()
