"""A home of an earlier version whose first opening is killed or cut loses nothing."""

import pytest

from tests.recording_disk import RecordingDisk
from tests.torture.migrations import ARCHIVES, interrupted_migrations

NAMES = ("0.1.0-frugal", "0.1.0-killed-unerased", "format-1")
TRIED = [path for path in ARCHIVES if path.name.removesuffix(".tar.xz") in NAMES]


@pytest.mark.parametrize("archive", TRIED, ids=NAMES)
def test_an_interrupted_migration_loses_nothing(archive, tmp_path):
    tries, problems = interrupted_migrations(archive, tmp_path, 12)
    assert (tries, problems) == (12, [])


def test_a_migration_that_syncs_nothing_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(RecordingDisk, "sync", lambda self, *files: None)
    _, problems = interrupted_migrations(TRIED[0], tmp_path, 12)
    assert problems
