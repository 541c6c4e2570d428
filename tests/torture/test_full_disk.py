"""On a full disk every user can be forgotten."""

import pytest

from tests.device.homes import LEARNERS
from tests.quick import quick_only
from tests.torture.full_disk import DISKS, HOW, full_disk, no_tmpfs
from tests.torture.images import why_not

EVERY = [(kind, disk, how) for kind in LEARNERS for disk in DISKS for how in HOW]


@pytest.mark.parametrize(("kind", "disk", "how"), quick_only(EVERY, EVERY[:: len(HOW) + 1]))
def test_everybody_is_forgotten_on_a_full_disk(kind, disk, how):
    reason = no_tmpfs() if disk == "tmpfs" else why_not()
    if reason is not None:
        pytest.skip(reason)
    forgets, problems = full_disk(DISKS[disk](), how, kind)
    assert problems == []
    assert forgets > 0
