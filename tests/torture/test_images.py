"""Power losses on real ext4: a second model, which knows nothing of the first."""

import os

import pytest

from tests.torture.images import Image, cut_image, why_not
from tests.torture.kills import torture
from tests.torture.test_kills import SHORT, wrong

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def test_a_copy_of_an_image_holds_what_was_synced_and_nothing_else(scratch):
    image = Image(scratch / "live", 8)
    with image.mounted() as folder:
        with (folder / "synced").open("wb") as file:
            file.write(b"there")
            file.flush()
            os.fsync(file.fileno())
            file.write(b" and more")
            file.flush()
        (folder / "other").write_bytes(b"lost")
        cut = image.copied(scratch / "cut")
    with cut.mounted() as folder:
        assert (folder / "synced").read_bytes() == b"there"
        assert not (folder / "other").exists() or (folder / "other").read_bytes() == b""


def test_a_power_loss_on_ext4_after_a_kill_and_an_opening_does_no_harm(deep):
    with torture(SHORT) as tortured:
        outcomes = [cut_image(tortured, seed) for seed in range(60 if deep else 4)]
    assert wrong(outcomes) == []
