"""On a full disk everybody can be forgotten."""

import pytest

from tests.device.homes import LEARNERS
from tests.torture.full_disk import DISKS, HOW, full_disk, no_tmpfs
from tests.torture.images import why_not


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("kind", LEARNERS)
def test_everybody_is_forgotten_on_a_full_disk(disk, how, kind):
    reason = no_tmpfs() if disk == "tmpfs" else why_not()
    if reason is not None:
        pytest.skip(reason)
    forgets, problems = full_disk(DISKS[disk](), how, kind)
    assert problems == []
    assert forgets > 0
