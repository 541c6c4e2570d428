"""Pruning: how much is removed, that it stays removed, and that unlearning stays exact."""

from typing import Any

import pytest
import torch
from torch import nn

from cause.engine.presets import FIXED, PRESETS, System
from cause.errors import InputError, LearnerError
from cause.learners import codec
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.models import factory
from cause.learners.torch.pruning import one_shot
from cause.learners.torch.pruning.feasible import Plan
from cause.learners.torch.pruning.iterative import IterativePruner, parameters
from cause.learners.torch.pruning.widths import shrink
from tests.clean_room import clean_room, differences, live
from tests.learners.test_torch import CLASSES, SCENE, SHAPE, frozen_backbone, image, lesson, same, upload, with_data
from tests.quick import quick_only

PAPERS = ("resnet34", "vgg16", "mobilenetv2", "densenet121")


def learner(system: System | None = None, **changes) -> TorchLearner:
    settings = {"epochs": 4, "batch_size": 4, "options": (("width", 8),), "round_to": 1, "steps": 2, **changes}
    recipe = Recipe("cnn", CLASSES, SHAPE, **settings)
    return TorchLearner(recipe if system is None else recipe.composed(system))


@pytest.mark.parametrize("name", ["cause", "omp-70", "omp-95", "frugal"])
def test_presets_that_prune_are_bit_exact(name):
    system, fits = PRESETS[name], {"slots": 12, "data": with_data}
    room = live(SCENE, system, shards=2, learner=learner(system), **fits)
    assert differences(room.device, clean_room(room, SCENE, system, learner=learner(system), **fits)) == []


@pytest.mark.parametrize("importance", ["magnitude", "gradient"])
def test_filters_are_removed_in_the_first_segment_and_never_later(importance):
    trainer = learner(pruning="iterative", importance=importance)
    dense = sum(t.numel() for t in learner().train(None, lesson(upload()), b"s" * 32).values())
    first = trainer.train(None, lesson(upload()), b"s" * 32)
    assert sum(t.numel() for t in first.values()) < 0.36 * dense
    later = trainer.train(trainer.decode(trainer.encode(first)), lesson(upload("b")), b"t" * 32)
    assert {name: t.shape for name, t in later.items()} == {name: t.shape for name, t in first.items()}
    assert not same(first, later)


def test_an_emptied_first_segment_is_pruned_in_the_next():
    from cause.engine.requests import Request
    from cause.lab.trace import Add, Round, Trace
    from tests.learners.test_torch import add

    scene = Trace([Round(1, [add("a", 6)]), Round(2, [Add("b", add("b", 7).part)], [Request("a")])])
    system = System(gamma=FIXED)
    room = live(scene, system, shards=1, slots=9, learner=learner(system), data=with_data)
    clean = clean_room(room, scene, system, learner=learner(system), slots=9, data=with_data)
    assert differences(room.device, clean) == []
    (key,) = room.device.memory.stored()
    assert len(room.device.memory.shelf.get(key)) < 0.7 * len(
        learner().encode(learner().train(None, lesson(upload()), b"s" * 32))
    )


def test_a_segment_of_one_is_pruned_with_batch_normalisation_in_eval_mode():
    trainer = learner(pruning="iterative")
    state = trainer.train(None, lesson(upload(count=1)), b"s" * 32)
    assert not state["1.running_mean"].any()  # as it was made: a single sample has no statistics


def test_a_frozen_batch_norm_stays_in_eval_mode_after_pruning():
    def make(classes, shape):
        network = nn.Sequential(frozen_backbone(32, shape), nn.ReLU(), nn.Linear(32, 16), nn.Linear(16, classes))
        built.append(network)
        return network

    built: list[Any] = []
    trainer = TorchLearner(
        Recipe("frozen", CLASSES, SHAPE, epochs=2, batch_size=4, pruning="iterative", target=0.1, round_to=1), make=make
    )
    trainer.train(None, lesson(upload()), b"s" * 32)
    norm = built[-1][0][0][1]
    assert not norm.training
    assert not norm.running_mean.any()
    assert built[-1][2].training


@pytest.mark.parametrize("target", [0.7, 0.95])
def test_masked_weights_stay_zero_and_the_mask_is_stored_not_guessed(target):
    trainer = learner(pruning="one-shot", target=target)
    first = trainer.train(None, lesson(upload()), b"s" * 32)
    later = trainer.train(trainer.decode(trainer.encode(first)), lesson(upload("b")), b"t" * 32)
    masks = {name for name in first if name.endswith(one_shot.MASK)}
    assert masks
    kept = total = 0
    for name in masks:
        weight = name.removesuffix(one_shot.MASK)
        assert torch.equal(first[name], later[name])
        assert not later[weight][~later[name]].any()
        kept, total = kept + int(first[name].sum()), total + first[name].numel()
    assert kept / total == pytest.approx(1 - target, abs=0.01)


@pytest.mark.parametrize("model", quick_only(PAPERS, PAPERS[:3]))
def test_stored_size_of_the_papers_networks_at_70_percent(model):
    torch.manual_seed(0)
    network = factory(model)(10, (3, 32, 32))
    dense = codec.encode(network.state_dict())
    IterativePruner(network, torch.randn(2, 3, 32, 32), importance="magnitude", round_to=8).prune_to(0.7)
    state = network.state_dict()
    half = {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in state.items()}
    plain = sum(t.numel() * t.element_size() for t in factory(model)(10, (3, 32, 32)).state_dict().values())
    assert len(codec.encode(state)) <= 0.32 * len(dense)
    assert len(codec.encode(half)) <= 0.14 * plain
    again = factory(model)(10, (3, 32, 32))
    shrink(again, state)
    again.load_state_dict(state)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(again.eval()(x), network.eval()(x))


class Mine(nn.Module):
    """A user's own network, with a shortcut."""

    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.body = nn.Conv2d(16, 16, 3, padding=1)
        self.hidden, self.out = nn.Linear(16, 32), nn.Linear(32, classes)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + torch.relu(self.body(x))
        return self.out(torch.relu(self.hidden(x.mean(dim=(2, 3)))))


def test_a_users_residual_network_is_pruned():
    recipe = Recipe("mine", CLASSES, SHAPE, epochs=4, pruning="iterative", round_to=1)
    trainer = TorchLearner(recipe, make=lambda classes, shape: Mine(classes))
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    assert sum(t.numel() for t in state.values()) <= 0.3 * parameters(Mine(CLASSES))
    assert trainer.predict(trainer.decode(trainer.encode(state)), [image("a", 1, 0)[0]]).shape == (1, CLASSES)


class Stubborn(nn.Module):
    """It counts on a width that pruning changes."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, CLASSES)
        self.scale = torch.ones(32)

    def forward(self, x):
        return self.out(torch.relu(self.second(torch.relu(self.first(x.flatten(1))) * self.scale)))


def test_a_layer_that_cannot_lose_filters_is_kept_whole_and_named():
    recipe = Recipe("stubborn", CLASSES, SHAPE, epochs=2, pruning="iterative", round_to=1)
    trainer = TorchLearner(recipe, make=lambda classes, shape: Stubborn())
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    assert state["first.weight"].shape == (32, 64)
    assert state["second.weight"].shape[0] < 32
    assert "kept whole are first (Linear)" in trainer.notes[0]
    later = trainer.train(trainer.decode(trainer.encode(state)), lesson(upload("b")), b"t" * 32)
    assert {name: t.shape for name, t in later.items()} == {name: t.shape for name, t in state.items()}


def test_a_pruner_with_given_layers_says_where_it_failed():
    pruner = IterativePruner(Stubborn(), torch.zeros(2, *SHAPE), importance="magnitude", round_to=1)
    with pytest.raises(LearnerError, match="cannot prune the network: layer 'first' does not fit"):
        pruner.prune_to(0.7)


def test_what_cannot_be_reached_is_said():
    recipe = Recipe("mlp", CLASSES, SHAPE, epochs=2, pruning="iterative", target=0.99, round_to=8)
    trainer = TorchLearner(recipe)
    assert trainer.notes == ["pruning removes 93% of the parameters, not 99%"]
    state = trainer.train(None, lesson(upload()), b"s" * 32)
    assert sum(t.numel() * 4 for t in state.values()) == trainer.sub_model_bytes
    pruner = IterativePruner(factory("mlp")(CLASSES, SHAPE), torch.zeros(2, *SHAPE), importance="magnitude", round_to=8)
    with pytest.raises(LearnerError, match="cannot remove 99% of the parameters"):
        pruner.prune_to(0.99)


def test_a_linear_model_has_nothing_to_lose_and_is_trained_whole():
    recipe = Recipe("linear", CLASSES, SHAPE, epochs=2, pruning="iterative")
    trainer = TorchLearner(recipe, make=lambda classes, shape: nn.Sequential(nn.Flatten(), nn.Linear(64, classes)))
    whole = TorchLearner(
        Recipe("linear", CLASSES, SHAPE, epochs=2), make=lambda classes, shape: trainer._make(classes, shape)
    )
    assert same(*(each.train(None, lesson(upload()), b"s" * 32) for each in (trainer, whole)))
    assert trainer.sub_model_bytes == whole.sub_model_bytes
    assert trainer.notes[0].startswith("no layer of this network can lose filters")


def test_networks_that_could_be_pruned_before_are_pruned_as_before():
    assert learner(pruning="iterative").pruning_plan == Plan()
    recipe = Recipe("mine", CLASSES, SHAPE, epochs=4, pruning="iterative", round_to=1)
    assert TorchLearner(recipe, make=lambda classes, shape: Mine(classes)).pruning_plan == Plan()


@pytest.mark.parametrize(
    "wrong", [{"target": 0}, {"target": 1}, {"pruning": "some"}, {"importance": "luck"}, {"steps": 0}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InputError):
        Recipe("mlp", CLASSES, SHAPE, **wrong)


def test_sizes_at_the_target_width_are_those_that_come_out():
    for pruning, target in (("none", 0.7), ("iterative", 0.7), ("one-shot", 0.7), ("one-shot", 0.95)):
        trainer = learner(pruning=pruning, target=target, options=(("width", 32),))
        state = trainer.train(None, lesson(upload()), b"s" * 32)
        plain = sum(t.numel() * t.element_size() for t in one_shot.pack(state).values())
        assert plain == pytest.approx(trainer.sub_model_bytes, rel=0.25)
