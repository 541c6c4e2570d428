"""A home whose making is killed, and killed again while it is made anew, can be made."""

import shutil

from tests.device.homes import learn, opened
from tests.recording_disk import RecordingDisk
from tests.torture.recorded_home import on


def made_on(disk):
    with on(disk):
        opened(disk.root / "home").close()


def test_a_making_that_is_killed_twice_can_be_done_again(tmp_path, thorough):
    (tmp_path / "first").mkdir()
    first = RecordingDisk(tmp_path / "first")
    made_on(first)
    tried = 0
    for killed in range(5, len(first.operations), 37 if thorough else 91):
        shutil.rmtree(tmp_path / "second", ignore_errors=True)
        second = RecordingDisk.resumed(tmp_path / "second", first.initial, first.operations[:killed])
        made_on(second)
        for again in range(killed, min(killed + 40, len(second.operations)), 5):
            shutil.rmtree(tmp_path / "third", ignore_errors=True)
            RecordingDisk.resumed(tmp_path / "third", second.initial, second.operations[:again])
            tried += 1
            opened(tmp_path / "third" / "home").close()
    with opened(tmp_path / "third" / "home") as device:
        learn(device, a=20)
        assert device.verify(processes=0).mismatched == []
    assert tried > (15 if thorough else 5)
