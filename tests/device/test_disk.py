"""The file layer, and the one that records what a power loss could leave of it."""

import errno

import pytest

from cause.device.disk import Disk
from cause.device.store.blocks import Files
from tests.recording_disk import RecordingDisk, crash_states


def test_bytes_are_written_where_they_belong(tmp_path):
    disk = Disk()
    file = disk.create(tmp_path / "a")
    file.write_at(3, b"def")
    file.write_at(0, b"abc")
    file.write_at(6, memoryview(bytearray(b"ghi")))
    disk.sync(file)
    assert (disk.read(tmp_path / "a"), file.size()) == (b"abcdefghi", 9)
    file.close()
    again = disk.open(tmp_path / "a")
    again.write_at(0, b"X")
    again.close()
    assert disk.read(tmp_path / "a") == b"Xbcdefghi"


def test_an_existing_file_is_not_created_again(tmp_path):
    Disk().create(tmp_path / "a").close()
    with pytest.raises(FileExistsError):
        Disk().create(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_an_error_of_any_of_several_files_is_raised(tmp_path):
    disk = Disk()
    good, bad = disk.create(tmp_path / "good"), disk.create(tmp_path / "bad")
    disk.sync(good, bad)
    bad.close()
    for files in ([good, bad], [bad, good]):
        with pytest.raises(OSError, match="Bad file descriptor") as error:
            disk.sync(*files)
        assert error.value.errno == errno.EBADF
    good.close()


def test_a_file_is_replaced_whole_and_leftovers_do_not_matter(tmp_path):
    disk = Disk()
    (tmp_path / "a.part").write_bytes(b"left behind")
    disk.write_whole(tmp_path / "a", b"one")
    disk.write_whole(tmp_path / "a", b"two")
    assert disk.names(tmp_path) == ["a"]
    assert disk.read(tmp_path / "a") == b"two"


def contents(disk, done):
    """What may be there after so many operations."""
    return {
        tuple(sorted((str(p), d) for p, d in state.files().items())) for n, state in crash_states(disk) if n == done
    }


def test_a_write_that_is_not_synced_is_lost_there_or_torn(tmp_path):
    (tmp_path / "a").write_bytes(b"....")
    disk = RecordingDisk(tmp_path)
    file = disk.open(tmp_path / "a")
    file.write_at(0, b"abcd")
    disk.sync(file)
    file.close()
    assert contents(disk, 0) == {(("a", b"...."),)}
    assert contents(disk, 1) == {(("a", data),) for data in (b"....", b"abcd", b"ab..", b"..cd")}
    assert contents(disk, 2) == {(("a", b"abcd"),)}


def test_writes_to_two_files_reach_the_disk_in_any_order(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b".")
    disk = RecordingDisk(tmp_path)
    first, second = disk.open(tmp_path / "a"), disk.open(tmp_path / "b")
    first.write_at(0, b"1")
    second.write_at(0, b"2")
    disk.sync(second)
    first.close()
    second.close()
    assert contents(disk, 2) == {(("a", x), ("b", y)) for x in (b".", b"1") for y in (b".", b"2")}
    assert contents(disk, 3) == {(("a", x), ("b", b"2")) for x in (b".", b"1")}


def test_a_name_is_durable_with_its_folder_only_and_says_nothing_about_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    disk = RecordingDisk(tmp_path)
    file = disk.create(tmp_path / "new")
    file.write_at(0, b"n")
    file.close()
    disk.rename(tmp_path / "new", tmp_path / "a")
    assert contents(disk, 3) == {
        (("a", b"old"),),
        (("a", b"old"), ("new", b"")),
        (("a", b"old"), ("new", b"n")),
        (("a", b""),),  # renamed before its bytes were there
        (("a", b"n"),),
    }
    disk.sync_folder(tmp_path)
    assert contents(disk, 4) == {(("a", b""),), (("a", b"n"),)}


def test_a_whole_write_survives_every_power_loss_as_the_old_or_the_new(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    disk = RecordingDisk(tmp_path)
    disk.write_whole(tmp_path / "a", b"new contents")
    contents = {
        state.files().get(path) for _, state in crash_states(disk) for path in state.files() if path.name == "a"
    }
    assert contents == {b"old", b"new contents"}
    last = [state.files() for done, state in crash_states(disk) if done == len(disk.operations)]
    assert [list(files.values()) for files in last] == [[b"new contents"]]


def test_sealed_files_however_many_are_durable_once_they_are_written_and_once_they_are_removed(tmp_path):
    disk = RecordingDisk(tmp_path)
    files = Files(tmp_path, disk)
    contents = [(bytes([number]) * 16, b"sealed %d" % number) for number in range(20)]
    files.write(contents)
    written = [state.files() for done, state in crash_states(disk) if done == len(disk.operations)]
    assert [{bytes.fromhex(path.name): data for path, data in state.items()} for state in written] == [dict(contents)]
    files.remove([name for name, _ in contents])
    assert [state.files() for done, state in crash_states(disk) if done == len(disk.operations)] == [{}]


def test_a_failing_disk_fails_at_the_operation_that_was_named(tmp_path):
    disk = RecordingDisk(tmp_path, fail_at=1, error=errno.ENOSPC)
    file = disk.create(tmp_path / "a")
    with pytest.raises(OSError, match="No space left"):
        file.write_at(0, b"abcd")
    assert disk.read(tmp_path / "a") == b"ab"
    file.write_at(0, b"abcd")
    file.close()
    assert disk.read(tmp_path / "a") == b"abcd"


def test_files_are_synced_one_after_the_other_where_no_thread_can_be_started(tmp_path, monkeypatch):
    """At a limit of tasks a device must still forget."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    synced = []
    monkeypatch.setattr("threading.Thread.start", refuse)
    monkeypatch.setattr("cause.device.disk._sync", synced.append)
    disk = Disk()
    files = [disk.create(tmp_path / name) for name in "abc"]
    disk.sync(*files)
    assert sorted(synced) == sorted(file.descriptor for file in files)
