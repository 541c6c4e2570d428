"""A full disk can be opened, and can forget: on a small tmpfs and on a small ext4 image."""

import contextlib
import os
import shutil
import subprocess

import pytest

from cause.device.store.reserve import REQUEST_BYTES
from cause.errors import BudgetError, CauseError
from tests.device.homes import learn, opened, samples


@contextlib.contextmanager
def mounted(kind, tmp_path):
    point = tmp_path / "small"
    point.mkdir()
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(point)]
    else:
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("no mkfs.ext4 here")
        image = tmp_path / "image"
        image.write_bytes(bytes(4 << 20))
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(point)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.fixture(params=["tmpfs", pytest.param("ext4", marks=pytest.mark.long)])
def small(request, tmp_path):
    if os.geteuid():
        pytest.skip("mounting needs root")
    with mounted(request.param, tmp_path) as point:
        yield point


def fill(point, filler=True):
    """Learn until that is refused; then a file takes what is left."""
    device = opened(point / "home", shards=1, slots=3)
    number = until_refused(lambda number: learn(device, **{f"u{number}": 90, f"v{number}": 10}))
    assert number > 1
    until_refused(lambda number: device.stage(f"s{number}", *samples("s", number, 50)))
    if filler:
        fill_up(point)
    return device, number


def until_refused(call):
    """How often a call could be made."""
    for number in range(10_000):
        try:
            call(number)
        except CauseError:
            return number
    raise AssertionError("the disk is never full")


def fill_up(point):
    with contextlib.suppress(OSError), (point / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))


def held(device, user):
    return device.ledger.rounds_of(user)


@pytest.mark.parametrize("filler", [False, True], ids=["home alone", "with a filler"])
def test_a_full_disk_serves_every_request(small, filler):
    device, rounds = fill(small, filler)
    device.forget("u1", rounds=held(device, "u1"), count=37, repair="later")
    device.forget("v1", repair="later")
    device.close()
    device = opened(small / "home", shards=1, slots=3)
    for number in range(2, rounds):
        device.forget(f"u{number}", rounds=held(device, f"u{number}"), count=5, repair="later")
    for number in range(rounds):
        device.forget(f"u{number}", repair="later")
        assert held(device, f"u{number}") == []
    device.repair()
    device.close()


def test_a_full_disk_can_be_opened_again_and_again(small):
    device, _ = fill(small)
    device.close()
    for number in range(3):
        fill_up(small)
        with opened(small / "home", shards=1, slots=3) as device:
            device.forget(f"u{number}", repair="later")


def test_a_full_disk_opens_after_a_kill(small):
    pid = os.fork()
    if not pid:
        try:
            fill(small)
        finally:
            os._exit(0)  # as after a kill, the write-ahead log and its index stay
    os.waitpid(pid, 0)
    assert (small / "home" / "ledger.db-wal").exists()
    fill_up(small)
    with opened(small / "home", shards=1, slots=3) as device:
        device.forget("u0", repair="later")
        device.forget("u1", rounds=held(device, "u1"), count=3, repair="later")


def test_samples_are_refused_that_would_leave_no_room_to_forget(tmp_path, monkeypatch):
    device = opened(tmp_path / "home")
    learn(device, a=10)
    before = device.ledger.round
    monkeypatch.setattr("cause.device.disk.Disk.free_bytes", lambda self, folder: 1_000)
    with pytest.raises(BudgetError, match="that forgetting needs"):
        learn(device, b=200)
    with pytest.raises(BudgetError, match="that forgetting needs"):
        device.stage("b", *samples("b", 1, 200))
    monkeypatch.undo()
    monkeypatch.setenv("CAUSE_TEST_KEY", "11" * 32)
    assert device.ledger.round == before
    learn(device, b=200)
    device.close()


def test_the_reserve_grows_with_the_largest_upload(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, a=10)
        small = (tmp_path / "home" / "reserve").stat().st_size
        learn(device, b=8_000)
        file = (tmp_path / "home" / "reserve").stat()
        (largest,) = device.home.database.row("SELECT max(s) FROM (SELECT sum(bytes) s FROM blocks GROUP BY upload)")
        assert file.st_size > small
        assert file.st_size >= largest
        assert file.st_blocks * 512 >= file.st_size  # allocated, not only long


def test_the_reserve_has_room_for_a_request_of_each_user(tmp_path):
    def reserve(users):
        with opened(tmp_path / f"home-{users}") as device:
            learn(device, **{f"u{number}": 2 for number in range(users)})
            return (tmp_path / f"home-{users}" / "reserve").stat().st_size

    assert reserve(64) - reserve(1) >= 63 * REQUEST_BYTES
