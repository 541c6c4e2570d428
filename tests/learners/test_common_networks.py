"""Ordinary networks: with the presets that prune, each learns and forgets exactly, pruned as far as it can be."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from cause.engine.arrays import TraceData
from cause.engine.presets import FIXED, PRESETS, System
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.lab.trace import Add, Round, Trace
from cause.learners.torch import TorchLearner
from tests.clean_room import clean_room, differences, live
from tests.learners.common_networks import CLASSES, NETWORKS, Network
from tests.quick import quick_only

SCENE = Trace(
    [
        Round(1, [Add("a", Part(5, None)), Add("b", Part(4, None))]),
        Round(2, [Add("a", Part(3, None)), Add("c", Part(4, None))], [Request("a", (1,), 2)]),
        Round(3, [Add("b", Part(3, None))], [Request("c")]),
    ]
)
ROUND_TO = 4


def learner(name: str) -> TorchLearner:
    network = NETWORKS[name]
    return TorchLearner(
        network.make, classes=CLASSES, shape=network.shape, epochs=2, batch_size=4, steps=1, round_to=ROUND_TO
    )


def with_data(network: Network):
    """Return the samples of some ids, the same at each call."""

    def made(upload) -> TraceData:
        rows, labels = [], []
        for position in upload.positions:
            draw = np.random.default_rng(zlib.crc32(f"{upload.user} {upload.round} {int(position)}".encode()))
            label = int(draw.integers(CLASSES))
            if network.tokens:
                rows.append(draw.integers(network.tokens, size=network.shape))
            else:
                rows.append((draw.normal(size=network.shape) + label).astype(np.float32))
            labels.append(label)
        return TraceData(upload, np.stack(rows), labels)

    return made


@pytest.mark.filterwarnings("ignore:pruning removes", "ignore:no layer of this network")
@pytest.mark.parametrize("name", quick_only(NETWORKS, list(NETWORKS)[::2]))
def test_an_ordinary_network_learns_and_forgets_exactly_with_a_preset_that_prunes(name):
    system, data = PRESETS["frugal"], with_data(NETWORKS[name])
    room = live(SCENE, system, shards=1, slots=12, learner=learner(name), data=data, classes=CLASSES)
    clean = clean_room(room, SCENE, system, slots=12, learner=learner(name), data=data, classes=CLASSES)
    assert differences(room.device, clean) == []
    assert len(room.device.memory) > 1
    own = room.device.learner
    assert own.pruning_plan.prunable == NETWORKS[name].pruned  # type: ignore[attr-defined]
    stored = own.decode(room.device.memory.shelf.get(room.device.memory.stored()[0]))
    dense = NETWORKS[name].make(CLASSES, NETWORKS[name].shape).state_dict()
    assert any(stored[key].shape != dense[key].shape for key in dense) == NETWORKS[name].pruned
    sizes = [tensor.numel() * (2 if tensor.is_floating_point() else 8) for tensor in stored.values()]
    assert sum(sizes) <= 1.1 * own.sub_model_bytes  # what the budget is divided by is what comes out
    assert torch.isfinite(
        torch.as_tensor(own.predict(stored, data(SCENE.rounds[0].uploads()[0]).arrays(range(3))[0]))
    ).all()


def test_which_layers_are_pruned_does_not_depend_on_seed_or_data():
    one, other = learner("TransformerEncoder"), learner("TransformerEncoder")
    system = System(gamma=FIXED)
    one, other = one.composed(system), other.composed(system)
    torch.manual_seed(5)
    assert one.pruning_plan == other.pruning_plan
    assert one.environment == other.environment
    assert "whole layers" in one.environment


def test_a_note_names_the_layers_that_are_kept_whole_and_the_target():
    (note,) = learner("LSTM").composed(PRESETS["frugal"]).notes
    assert note == "pruning removes 27% of the parameters, not 70%: kept whole are 0.layer (LSTM)"
    (note,) = learner("GRU").composed(PRESETS["cause"]).notes
    assert note.startswith("no layer of this network can lose filters: it is trained whole")
    assert learner("GRU").notes == []
    assert learner("LayerNorm").composed(PRESETS["frugal"]).notes == []


def test_the_documentation_lists_each_network_and_says_whether_it_is_pruned():
    page = (Path(__file__).parents[2] / "docs" / "networks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| (pruned|whole)", page, re.MULTILINE))
    assert rows == {name: "pruned" if network.pruned else "whole" for name, network in NETWORKS.items()}
