"""Leaks put into the engine on purpose: the comparison with the clean room must fail for each of them.

Leaks of training and storage are in test_training_leaks.py; docs/laws.md lists all of them.
"""

import pytest

from cause.common import positions as pos
from cause.common.hashing import digest
from cause.engine import training
from cause.engine.ledger import MemoryLedger
from cause.engine.memory import Memory
from cause.engine.presets import FIXED, System
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.engine.segments import Segmenting
from cause.lab.trace import Add, Round, Trace
from tests.clean_room import clean_room, differences, live
from tests.small_learners import RememberingLearner
from tests.traces import SCENE

PLAIN = System(gamma=FIXED)


def red(system: System = PLAIN, **kwargs) -> list[str]:
    room = live(SCENE, system, shards=2, **kwargs)
    return differences(room.device, clean_room(room, SCENE, system))


@pytest.mark.parametrize("slices", [1, 3])
def test_without_a_leak_the_scene_is_green(slices: int):
    assert red(System(gamma=FIXED, slices=slices)) == []


def test_red_when_tainted_sub_models_stay(monkeypatch):
    monkeypatch.setattr(Memory, "drop_from", lambda self, key: [])
    assert red()


def test_red_when_retraining_starts_from_tainted_weights(monkeypatch):
    honest = RememberingLearner.train
    tainted = {}

    def train(self, parent, lesson, seed, tick=None):
        start = tainted.get(lesson.segment.shard, parent) if lesson.segment.round == 2 else parent
        state = tainted[lesson.segment.shard] = honest(self, start, lesson, seed)
        return state

    monkeypatch.setattr(RememberingLearner, "train", train)
    assert red()


def test_red_when_a_request_does_nothing_and_reports_success(monkeypatch):
    monkeypatch.setattr(MemoryLedger, "delete", lambda self, selection: None)
    assert red()


def test_red_when_a_second_request_brings_the_first_back(monkeypatch):
    honest = MemoryLedger.delete
    whole: dict = {}

    def delete(self, selection):
        for (user, round_), _ in selection.items():
            for key, _ in self.pieces_of(user, round_):
                for piece in self.lineage(key.shard)[key].pieces:
                    whole.setdefault((key, piece.upload.user), piece)  # as it first was
        honest(self, selection)
        for (user, _), _ in selection.items():
            for shard in self.shards():
                for segment in self.lineage(shard):
                    if (segment.key, user) not in whole:
                        continue
                    for (key, other), piece in whole.items():  # the other users' samples are all there again
                        if key == segment.key and other != user and other in segment._pieces:
                            segment._pieces[other] = piece
                            segment.count = sum(len(held) for _, held in segment.pieces)
                            segment._manifest, segment._digests = None, {}

    monkeypatch.setattr(MemoryLedger, "delete", delete)
    scene = Trace(
        [
            Round(1, [Add("a", Part(4)), Add("b", Part(3))], [Request("a", (1,), 2)]),
            Round(2, [], [Request("b", (1,), 1)]),
        ]
    )
    room = live(scene, PLAIN, shards=1)
    assert differences(room.device, clean_room(room, scene, PLAIN))
    monkeypatch.undo()
    room = live(scene, PLAIN, shards=1)
    assert not differences(room.device, clean_room(room, scene, PLAIN))


def test_red_when_slices_are_cut_by_position(monkeypatch):
    def sliced(self, upload, positions):
        own = list(positions)
        cuts = {i: [p for n, p in enumerate(own) if n * 3 // len(own) == i] for i in range(3)}
        return [(i, pos.from_values(part)) for i, part in cuts.items() if part]

    monkeypatch.setattr(Segmenting, "sliced", sliced)
    assert red(System(gamma=FIXED, slices=3))


def test_red_when_randomness_outlives_a_segment(monkeypatch):
    drawn = []

    def seed(*parts):
        drawn.append(parts)
        return digest(len(drawn))

    monkeypatch.setattr(training, "training_seed", seed)
    assert red()


def test_red_when_one_sample_is_corrupted():
    system = System(gamma=FIXED)
    room = live(SCENE, system, shards=2)
    room.retained.remove(min(room.retained))
    assert differences(room.device, clean_room(room, SCENE, system))


def test_red_when_one_bit_of_a_sub_model_is_corrupted():
    system = System(gamma=FIXED)
    room = live(SCENE, system, shards=2)
    clean = clean_room(room, SCENE, system)
    key = clean.memory.stored()[0]
    blob = bytearray(clean.memory.shelf.get(key))
    blob[5] ^= 1
    clean.memory.shelf.put(key, bytes(blob))
    assert differences(room.device, clean) == [f"sub-model {key}: other bytes"]
