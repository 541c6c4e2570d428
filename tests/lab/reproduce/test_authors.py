"""The authors' training as published: what it does, and that it is not exact."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cause.lab.authors import network, softmax_twice
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.data import load_split
from cause.lab.reproduce.recipes import RECIPES
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import run_cell
from cause.lab.reproduce.summary import trained_size
from tests.lab.reproduce.tiny import TINY

AUTHORS = replace(TINY, recipe="authors")


@pytest.fixture(scope="module")
def digits():
    return load_split("digits", None)


def test_a_run_has_one_round_and_users_with_all_classes():
    cell = AUTHORS.training("digits", "cnn", "cause")[0]
    assert cell.settings["rounds"] == 1
    assert cell.settings["alpha"] == 1e6


@pytest.mark.parametrize(("system", "brightest"), [("cause", 16.0), ("sisa", 16.0), ("arcane", 1.0)])
def test_pixels_are_divided_by_the_brightest_except_in_arcanes_script(digits, system, brightest):
    recipe, _ = RECIPES["authors"].compose(digits, "cnn", system, 3)
    assert (recipe.mean, recipe.std, recipe.optimizer, recipe.epochs) == (0.0, brightest, "adam", 3)


def test_the_loss_is_that_of_probabilities_taken_for_logits():
    logits, labels = torch.randn(7, 10, generator=torch.Generator().manual_seed(0)), torch.arange(7)
    probabilities = logits.exp() / logits.exp().sum(1, keepdim=True)
    expected = -(probabilities.exp() / probabilities.exp().sum(1, keepdim=True)).log()[range(7), labels].mean()
    assert softmax_twice(logits, labels).item() == pytest.approx(expected.item())


def start_of(digits, system, seed=0):
    recipe, _ = RECIPES["authors"].compose(digits, "cnn", system, 2)
    make = RECIPES["authors"].start(digits, recipe, system, seed, "cpu")
    return make and make(digits.classes, digits.shape).state_dict()


def test_causes_start_depends_on_every_users_samples_so_it_is_not_exact(digits):
    first = start_of(digits, "cause")
    same, y = start_of(digits, "cause"), digits.y.copy()
    y[0] = (y[0] + 1) % 10
    other = start_of(replace(digits, y=y), "cause")
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_other_systems_start_from_random_weights(digits):
    assert start_of(digits, "sisa") is None
    assert start_of(digits, "omp-70") is None


def test_the_start_is_used():
    cell = AUTHORS.training("digits", "cnn", "cause-no-sc", shards=2)[0]
    settings = {**cell.settings, "share": 0.05, "epochs": 1}
    accuracy = {
        recipe: run_cell(Cell("train", {**settings, "recipe": recipe}), Resources()).result["accuracy"]
        for recipe in ("authors", "paper")
    }
    # 36 samples a shard teach nothing in one epoch; the 1,438 of the start do
    assert accuracy["authors"] > accuracy["paper"] + 0.2


def test_its_results_say_that_they_are_not_exact():
    done = [Done(cell, {}, 0.0, {}) for cell in AUTHORS.training("digits", "cnn", "cause")]
    assert "recipe authors (not exact: CAUSE starts from one epoch on all users' samples)" in trained_size(done)


def test_the_network_has_as_many_parameters_as_the_papers():
    made = network(10, (3, 32, 32))
    assert sum(p.numel() for p in made.parameters()) == pytest.approx(23.61e6, rel=0.005)  # the paper's pruning table
    assert made(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.long
def test_the_network_is_trained_and_pruned():
    data = load_split("digits32", None)
    recipe, system = RECIPES["authors-network"].compose(data, "resnet34", "cause", 2)
    from cause.lab.reproduce.kinds.prune import lesson_of
    from cause.learners.torch import TorchLearner

    recipe = replace(recipe, options=(("width", 8),), compute="fp32")
    learner = TorchLearner(recipe).composed(system)
    state = learner.train(None, lesson_of(data, 64), bytes(32))
    whole = sum(p.numel() for p in network(10, (3, 32, 32), width=8).parameters())
    kept = sum(t.numel() for name, t in state.items() if t.is_floating_point() and "running" not in name)
    assert kept < 0.45 * whole
    assert np.isfinite(learner.predict(state, data.x_test[:4])).all()
