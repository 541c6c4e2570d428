"""Homes of the systems as printed in the paper: heads without a slot are restored when a home is opened."""

import pytest

from tests.device.homes import learn, opened

SYSTEMS = ["cause-no-sc-printed", "cause-printed:partition=hash", "sisa-printed", "cause-printed:replays=newest"]


def story(device, reopen):
    """Rounds and requests for which 3 slots are too few; returns what is stored after each."""
    seen = []

    def step(device, do):
        do(device)
        device = reopen(device)
        memory = device.memory
        seen.append(({key: memory.slot_of(key) for key in memory.stored()}, memory.apart(), memory.policy.state()))
        assert device.verify(processes=0).mismatched == []
        return device

    for _ in range(4):
        device = step(device, lambda device: learn(device, a=9, b=8, c=7, d=6, e=5))
    device = step(device, lambda device: device.forget("a", rounds=[3]))
    device = step(device, lambda device: device.forget("b", rounds=[2], repair="later"))
    device = step(device, lambda device: learn(device, a=4, b=3, c=2))
    device = step(device, lambda device: device.repair())
    device.close()
    return seen


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_home_goes_on_as_if_it_had_never_been_closed(tmp_path, name):
    def reopen(device):
        device.close()
        return opened(tmp_path / "closed", system=name, shards=3, slots=3)

    whole = story(opened(tmp_path / "open", system=name, shards=3, slots=3), lambda device: device)
    assert story(opened(tmp_path / "closed", system=name, shards=3, slots=3), reopen) == whole
    assert any(apart for _, apart, _ in whole), "every head had a slot all the time"


def test_only_the_newest_of_a_replay_is_stored(tmp_path):
    for name, kept in (("cause-no-sc", [1, 2, 3, 4]), ("cause-no-sc:replays=newest", [4])):
        with opened(tmp_path / name, system=name, shards=1, slots=6) as device:
            for _ in range(4):
                learn(device, a=9, b=8)
            device.forget("a", rounds=[1])
            assert [key.round for key in device.memory.stored()] == kept
            assert device.verify(processes=0).mismatched == []
