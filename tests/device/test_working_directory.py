"""A home is a folder, not a path: it stays the same one when the program changes directory or the folder is moved."""

import contextlib

import pytest

from cause.device.backup.archive import Archive
from cause.device.backup.backup import backup
from cause.device.store.layout import Layout
from cause.device.vault import CommandKeySource, FileKeySource, RotatingFileKeySource, Vault
from cause.device.vault.sources import new_master_key
from cause.errors import HomeError, InputError, ReadError
from tests.device.homes import bayes, learn, opened, samples


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def moved_away(tmp_path):
    """A device that was opened by a relative path, in a program that works elsewhere now."""
    (tmp_path / "one").mkdir()
    (tmp_path / "elsewhere").mkdir()
    with contextlib.chdir(tmp_path / "one"):
        device = opened("dev", system="frugal:partition=hash")
        learn(device, ann=20, bob=20)
    with contextlib.chdir(tmp_path / "elsewhere"), device:
        yield device


def test_a_relative_home_forgets_predicts_and_learns_after_chdir(moved_away, tmp_path):
    before = set(files(tmp_path / "one" / "dev"))
    moved_away.forget("ann", repair="later")
    assert before - set(files(tmp_path / "one" / "dev")), "no file of the forgotten samples was removed"
    assert moved_away.samples_of("ann") == []
    moved_away.repair()
    assert len(moved_away.predict(samples("x", 1, 3)[0])) == 3
    learn(moved_away, ann=5)
    moved_away.stage("eve", *samples("eve", 1, 3))
    assert moved_away.verify(processes=0).holds
    assert files(tmp_path / "elsewhere") == []


def test_a_relative_home_leaves_another_home_of_the_same_name_alone(moved_away, tmp_path):
    with opened("dev") as other:
        learn(other, zed=10, yan=10)
    before = {path: (tmp_path / "elsewhere" / path).read_bytes() for path in files(tmp_path / "elsewhere")}
    learn(moved_away, ann=5)
    moved_away.forget("ann")
    after = {path: (tmp_path / "elsewhere" / path).read_bytes() for path in files(tmp_path / "elsewhere")}
    assert after == before


def test_every_path_that_is_kept_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text(new_master_key())
    assert Layout("dev").folder.is_absolute()
    assert FileKeySource("key").path.is_absolute()
    assert RotatingFileKeySource.create("rotating").path.is_absolute()
    with Vault.create("vault", FileKeySource("key")) as vault:
        assert vault.folder.is_absolute()
    with opened("dev") as device:
        learn(device, ann=8)
        backup(device.home, "dev.backup")
    with Archive("dev.backup") as archive:
        assert archive.path.is_absolute()


def test_a_key_command_is_run_from_where_it_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "print-key"
    program.write_text("#!/bin/sh\nprintf %064d 0\n")
    program.chmod(0o755)
    source = CommandKeySource(["./print-key"])
    monkeypatch.chdir("/")
    assert source.read() == bytes(32)


def test_a_relative_path_in_a_deleted_folder_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="relative to a folder that is gone: name an absolute path"):
        opened("dev")


@pytest.mark.parametrize("part", ["sub-models", ""])
def test_a_missing_folder_makes_no_sub_model_count_as_damaged(tmp_path, part):
    with opened(tmp_path / "dev") as device:
        learn(device, ann=20, bob=20)
        stored = device.memory.stored()
        (tmp_path / "dev" / part).rename(tmp_path / "away")
        with pytest.raises(ReadError, match=r"is gone|was moved"):
            device.predict(samples("x", 1, 3)[0])
        assert device.memory.stored() == stored
        (tmp_path / "away").rename(tmp_path / "dev" / part)
        assert len(device.predict(samples("x", 1, 3)[0])) == 3


def test_a_home_that_was_replaced_while_it_was_open_is_not_written_to(tmp_path):
    with opened(tmp_path / "other", learner=bayes()) as other:
        learn(other, zed=10)
    with opened(tmp_path / "dev") as device:
        learn(device, ann=20)
        (tmp_path / "dev").rename(tmp_path / "away")
        (tmp_path / "other").rename(tmp_path / "dev")
        before = files(tmp_path / "dev")
        for call in (
            lambda: learn(device, bob=5),
            lambda: device.forget("ann"),
            lambda: device.stage("e", *samples("e", 1, 2)),
        ):
            with pytest.raises(HomeError, match="was moved, removed or replaced while it was open"):
                call()
        assert files(tmp_path / "dev") == before
        (tmp_path / "dev").rename(tmp_path / "other")
        (tmp_path / "away").rename(tmp_path / "dev")
        device.forget("ann")
        assert device.samples_of("ann") == []
    with opened(tmp_path / "other", learner=bayes()) as other:
        assert len(other.samples_of("zed")) == 10
    assert files(tmp_path / "dev" / "blocks") == []
