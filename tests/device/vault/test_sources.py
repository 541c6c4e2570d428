"""Where the master key comes from."""

import base64
import errno
import os
import sys

import pytest

from cause.device.disk import Disk
from cause.device.vault import CommandKeySource, EnvKeySource, FileKeySource, KeySource, RotatingFileKeySource
from cause.device.vault import RotatingKeySource as Rotating
from cause.device.vault.sources import new_master_key
from cause.errors import VaultError

KEY = bytes(range(32))
FORMS = [KEY, KEY.hex().encode(), KEY.hex().upper().encode() + b"\n", base64.b64encode(KEY) + b"\n"]
BAD = [b"", b"\n", KEY[:-1], KEY + b"x", KEY.hex().encode()[:-1], base64.b64encode(KEY[:-1]), b"z" * 64, b"a" * 10_000]


@pytest.mark.parametrize("form", FORMS)
def test_a_key_in_each_form_comes_from_each_source(tmp_path, form):
    path = tmp_path / "key"
    path.write_bytes(form)
    assert FileKeySource(path).read() == KEY
    command = [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({form!r})"]
    assert CommandKeySource(command).read() == KEY
    if form != KEY:
        assert EnvKeySource("MASTER", {"MASTER": form.decode()}).read() == KEY


@pytest.mark.parametrize("form", BAD)
def test_what_is_no_key_is_refused_and_not_shown(tmp_path, form):
    path = tmp_path / "key"
    path.write_bytes(form)
    with pytest.raises(VaultError, match="no key") as error:
        FileKeySource(path).read()
    assert form.decode(errors="replace").strip()[:20] not in str(error.value) or not form.strip()


def test_the_environment_is_read(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_MASTER", new_master_key())
    assert len(EnvKeySource("CAUSE_TEST_MASTER").read()) == 32
    monkeypatch.delenv("CAUSE_TEST_MASTER")
    with pytest.raises(VaultError, match="CAUSE_TEST_MASTER"):
        EnvKeySource("CAUSE_TEST_MASTER").read()


def test_a_missing_file_is_named(tmp_path):
    for source in (FileKeySource(tmp_path / "absent"), RotatingFileKeySource(tmp_path / "absent")):
        with pytest.raises(VaultError, match="absent"):
            source.read()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "empty"),
        (["/nonexistent/program"], "cannot run"),
        ([sys.executable, "-c", "import sys; sys.exit('no TPM here')"], "failed with 1, it said: no TPM here"),
        ([sys.executable, "-c", "print('short')"], "no key"),
        ([sys.executable, "-c", "import signal; signal.pause()"], "within 0.2 s"),
    ],
)
def test_a_command_that_gives_no_key_is_an_error(command, message):
    timeout = 0.2 if "pause" in str(command) else 30
    with pytest.raises(VaultError, match=message):
        CommandKeySource(command, timeout_s=timeout).read()


def test_a_command_is_run_without_a_shell(tmp_path):
    with pytest.raises(VaultError):
        CommandKeySource(["echo", f"$(touch {tmp_path}/made)"]).read()
    assert not (tmp_path / "made").exists()


def test_only_the_rotating_source_rotates(tmp_path):
    rotating = RotatingFileKeySource.create(tmp_path / "key")
    others = [FileKeySource(tmp_path / "x"), EnvKeySource("X"), CommandKeySource(["true"])]
    assert isinstance(rotating, Rotating)
    assert all(isinstance(source, KeySource) and not isinstance(source, Rotating) for source in others)


def test_a_rotated_key_replaces_the_old_one_in_every_byte(tmp_path):
    source = RotatingFileKeySource.create(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    for _ in range(3):
        old, new = source.read(), os.urandom(32)
        source.rotate(new)
        assert source.read() == RotatingFileKeySource(tmp_path / "key").read() == new
        assert old not in (tmp_path / "key").read_bytes()
    with pytest.raises(VaultError, match="exists already"):
        RotatingFileKeySource.create(tmp_path / "key")


def test_a_foreign_file_is_no_rotating_key(tmp_path):
    for data in (b"", KEY, bytes(8192), os.urandom(8192)):
        (tmp_path / "key").write_bytes(data)
        with pytest.raises(VaultError):
            RotatingFileKeySource(tmp_path / "key").read()
        assert (tmp_path / "key").read_bytes() == data


def test_a_key_file_of_one_copy_works_on_and_gets_a_second_one_where_there_is_room(tmp_path):
    path = tmp_path / "key"
    key = RotatingFileKeySource.create(path).read()
    path.write_bytes(path.read_bytes()[:8192])  # as version 0.1 made it

    class NoRoom(Disk):
        def open(self, path):
            file = super().open(path)
            write = file.write_at

            def limited(offset, data):
                if offset + len(data) > 8192:
                    raise OSError(errno.ENOSPC, "No space left on device")
                write(offset, data)

            file.write_at = limited
            return file

    tight = RotatingFileKeySource(path, NoRoom())
    tight.settle()
    assert tight.read() == key
    assert path.stat().st_size == 8192
    new = os.urandom(32)
    tight.rotate(new)
    assert tight.read() == new
    assert key not in path.read_bytes()
    roomy = RotatingFileKeySource(path)
    roomy.settle()
    data = path.read_bytes()
    assert data[:8192] == data[8192:]
    path.write_bytes(bytes(8192) + data[8192:])
    assert roomy.read() == new
