"""What every shelf must do: in memory, in a folder, in a home, and one of the user's own with three methods."""

import pytest

from cause.device.device import Cause
from cause.engine.memory import MemoryShelf, Shelf
from cause.engine.samples import SegmentKey
from cause.errors import DamageError
from tests.device.homes import LEARNERS, bayes, learn, opened, samples
from tests.folder_shelf import FolderShelf

KEY = SegmentKey(0, 1)


@pytest.fixture(params=["memory", "folder", "home"])
def shelf(request, tmp_path):
    if request.param == "home":
        with opened(tmp_path / "home") as device:
            yield device.home.shelf
    else:
        yield MemoryShelf() if request.param == "memory" else FolderShelf(tmp_path / "folder")


def test_the_bytes_that_were_stored_are_returned(shelf):
    shelf.put(KEY, b"weights")
    shelf.put(SegmentKey(1, 1), b"")
    assert (shelf.get(KEY), shelf.get(SegmentKey(1, 1))) == (b"weights", b"")
    assert not shelf.is_pending(KEY)


def test_a_state_that_is_added_later_has_its_bytes_at_once(shelf):
    shelf.put_later(KEY, lambda: b"sums")
    assert shelf.get(KEY) == b"sums"
    shelf.write(KEY)
    assert shelf.get(KEY) == b"sums"


def test_other_bytes_can_be_stored_after_the_first_were_destroyed(shelf):
    for blob in (b"one", b"two"):
        shelf.put(KEY, blob)
        assert shelf.get(KEY) == blob
        shelf.destroy(KEY)
    shelf.put_later(KEY, lambda: b"three")
    shelf.destroy(KEY)


@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_a_damaged_file_is_a_damage_error(tmp_path, damage):
    shelf = FolderShelf(tmp_path / "folder")
    shelf.put(KEY, b"weights")
    damaged(shelf, KEY, damage)
    with pytest.raises(DamageError):
        shelf.get(KEY)


@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_a_device_predicts_without_a_damaged_sub_model_and_repairs_it(tmp_path, damage):
    shelf = FolderShelf(tmp_path / "folder")
    device = Cause(learner=bayes(), system="frugal", shards=2, slots=8, shelf=shelf)
    for _ in range(2):
        learn(device, ann=40, bob=30)
    inputs, head = samples("ann", 1, 5)[0], device.heads()[0]
    before, blob = device.predict(inputs), shelf.get(head.key)
    damaged(shelf, head.key, damage)
    assert len(device.predict(inputs)) == 5
    device.repair()
    assert shelf.get(head.key) == blob
    assert (device.predict(inputs) == before).all()


@pytest.mark.parametrize("kind", ["bayes", "additive"])
def test_a_shelf_of_ones_own_needs_three_methods(kind):
    class Own(Shelf):
        def __init__(self):
            self.blobs: dict[SegmentKey, bytes] = {}

        def put(self, key, blob):
            self.blobs[key] = blob

        def get(self, key):
            return self.blobs[key]

        def destroy(self, key):
            del self.blobs[key]

    make, system, shards = LEARNERS[kind]
    shelf = Own()
    own, usual = (Cause(learner=make(), system=system, shards=shards, slots=8, shelf=s) for s in (shelf, None))
    for device in (own, usual):
        for _ in range(3):
            learn(device, ann=12, bob=9)
        device.forget("ann", rounds=[2])
    assert sorted(shelf.blobs) == sorted(own.memory.stored())
    assert {key: own.memory.shelf.get(key) for key in own.memory.stored()} == {
        key: usual.memory.shelf.get(key) for key in usual.memory.stored()
    }


def damaged(shelf: FolderShelf, key: SegmentKey, damage: str) -> None:
    """Change a byte of a sub-model's file, or delete it."""
    path = shelf.path(key)
    if damage == "lost":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
