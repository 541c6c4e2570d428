"""What a recipe says of inputs and of the loss: class weights, a loss of one's own, channels, whole numbers."""

import numpy as np
import pytest
import torch
from torch import nn

from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.presets import FIXED, System
from cause.errors import InputError, LearnerError
from cause.learners.described import build, describe
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner
from cause.learners.torch.data import Resident, Scaled
from tests.clean_room import clean_room, differences, live
from tests.learners.common_networks import NETWORKS, embedding, embedding_gru, layer_norm
from tests.learners.test_common_networks import SCENE, with_data
from tests.learners.test_torch import lesson

CLASSES = 3
CPU = torch.device("cpu")


def focal(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss of one's own."""
    chosen = torch.log_softmax(outputs, dim=1).gather(1, labels[:, None])[:, 0]
    return -((1 - chosen.exp()) ** 2 * chosen).mean()


def not_a_number(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return outputs - 1


def table(**parts) -> TorchLearner:
    return TorchLearner(layer_norm, classes=CLASSES, shape=(12,), epochs=2, batch_size=4, round_to=4, **parts)


def rows(count=6, shape=(12,), user="a"):
    draw = np.random.default_rng(count)
    return ArrayUpload(user, 1, draw.normal(size=(count, *shape)).astype(np.float32), np.arange(count) % CLASSES)


# The identity of recipes that say nothing of it is what it was: these digests are of the version before


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe("mlp", 10, (64,)), "85e809d23e89be9476c0154bca1e270cf777193ed0d9f4f91474604dc52e7575"),
        (
            Recipe(
                "cnn", 4, (1, 8, 8), mean=0.5, std=2.0, pruning="iterative", precision="bf16", epochs=3,
                options=(("width", 8),),
            ),
            "98e2907c5cb2ab1c423b0a0877d4a4ba5af9b3e326af80df9b15ca1598644f1e",
        ),
    ],
)  # fmt: skip
def test_recipes_without_these_parts_are_the_same_as_before(recipe, expected):
    assert recipe.digest.hex() == expected


@pytest.mark.parametrize(
    "parts",
    [
        {"class_weights": (1.0, 1.0, 4.0)},
        {"loss": "tests.learners.test_inputs_and_losses:focal"},
        {"mean": tuple(range(12)), "std": (2.0,) * 12},
        {"input_dtype": "int64"},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_each_part_is_part_of_the_identity(parts):
    assert Recipe("x:y", CLASSES, (12,), **parts).digest != Recipe("x:y", CLASSES, (12,)).digest


@pytest.mark.parametrize(
    "parts", [{"class_weights": [1, 1, 4]}, {"loss": focal}, {"mean": list(range(12)), "std": [2.0] * 12}],
    ids=lambda parts: next(iter(parts)),
)  # fmt: skip
def test_each_part_changes_what_is_learned_exactly_and_comes_back_from_a_configuration(parts):
    own = table(**parts)
    assert not torch.equal(
        own.train(None, lesson(rows()), b"s" * 32)["0.weight"],
        table().train(None, lesson(rows()), b"s" * 32)["0.weight"],
    )
    assert build(describe(own)).recipe == own.recipe
    system, data = System(gamma=FIXED), with_data(NETWORKS["LayerNorm"])
    room = live(SCENE, system, shards=1, learner=table(**parts), data=data, classes=CLASSES)
    clean = clean_room(room, SCENE, system, learner=table(**parts), data=data, classes=CLASSES)
    assert differences(room.device, clean) == []


def test_a_weight_of_a_class_counts_its_samples_so_often():
    x, y = torch.randn(6, 12), torch.tensor([0, 1, 2, 2, 1, 0])
    from cause.learners.torch.losses import loss_of

    network = layer_norm(CLASSES, (12,))
    own = loss_of(network, x, y, Recipe("x:y", CLASSES, (12,), class_weights=(1.0, 2.0, 3.0)))
    expected = nn.functional.cross_entropy(network(x), y, torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(own, expected)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"class_weights": (1.0,)}, "1 class weights, but there are 3 classes"),
        ({"class_weights": (1.0, 0.0, 1.0)}, "must be above 0"),
        ({"mean": (1.0, 2.0)}, "mean has 2 numbers, but an input of shape"),
        ({"std": (1.0,) * 11 + (0.0,)}, "a std above 0"),
        ({"loss": "focal"}, "named as package.module:function"),
        ({"loss": "no.such:loss"}, "cannot find the loss"),
        ({"loss": "tests.learners.test_inputs_and_losses:focal", "class_weights": (1.0, 1.0, 1.0)}, "of your own"),
        ({"loss": lambda outputs, labels: outputs.sum()}, "cannot be imported by name"),
        ({"input_dtype": "int32"}, "unknown input_dtype 'int32'"),
        ({"input_dtype": "int64", "std": 255.0}, "stay as they are"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nonsense_is_refused(parts, message):
    with pytest.raises(InputError, match=message):
        table(**parts)


def test_a_loss_that_is_not_one_number_is_refused():
    own = table(loss="tests.learners.test_inputs_and_losses:not_a_number")
    with pytest.raises(LearnerError, match="must return one number that depends on the outputs, not a tensor of shape"):
        own.train(None, lesson(rows()), b"s" * 32)


@pytest.mark.parametrize("kind", [Scaled, Resident])
@pytest.mark.parametrize("shape", [(3, 4, 4), (3,), (3, 5)])
def test_each_channel_is_scaled_by_its_own_numbers(kind, shape):
    recipe = Recipe("x:y", CLASSES, shape, mean=(1.0, 2.0, 3.0), std=(1.0, 2.0, 4.0))
    x = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    made = kind.of(x, recipe, CPU).batch(torch.arange(5), augmented=False)
    channels = (3, *[1] * (len(shape) - 1))
    expected = (x - np.array([1, 2, 3.0]).reshape(channels)) / np.array([1, 2, 4.0]).reshape(channels)
    assert np.allclose(made.numpy(), expected, atol=1e-6)


# Whole numbers


def tokens(**parts) -> TorchLearner:
    return TorchLearner(embedding, classes=CLASSES, shape=(6,), epochs=1, round_to=4, **parts)


def test_a_network_with_an_embedding_gets_whole_numbers():
    own = tokens()
    assert own.recipe.input_dtype == "int64"
    assert describe(own)["input_dtype"] == "int64"
    x = np.arange(12).reshape(2, 6)
    assert Scaled.of(x, own.recipe, CPU).x.dtype == torch.int64
    assert Resident.of(x, own.recipe, CPU).batch(torch.arange(2), augmented=False).dtype == torch.int64
    state = own.train(None, lesson(ArrayUpload("a", 1, x, [0, 1])), b"s" * 32)
    same = own.predict(state, x.astype(np.float64))  # numbers that came as JSON
    assert np.array_equal(own.predict(state, x), same)


class Casting(nn.Module):
    """Takes floats and makes whole numbers of them by itself, as networks had to."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(20, 4), nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(x.long()).mean(dim=1))


def test_a_network_that_takes_floats_gets_floats_as_before():
    assert TorchLearner(lambda classes, shape: Casting(), classes=CLASSES, shape=(6,)).recipe.input_dtype is None
    explicit = TorchLearner(lambda classes, shape: Casting(), classes=CLASSES, shape=(6,), input_dtype="int64")
    assert explicit.recipe.input_dtype == "int64"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.full((1, 6), 20), "whole numbers from 0 to 19, as many as the embedding has, not 20"),
        (np.full((1, 6), -1), "whole numbers from 0 to 19, as many as the embedding has, not -1"),
        (np.full((1, 6), 0.5), r"must be whole numbers \(the recipe's input_dtype is int64\), not 0.5"),
    ],
)
def test_numbers_that_the_embedding_does_not_have_are_refused_before_anything_is_recorded(x, message):
    device = Cause(learner=tokens(), system="sisa", shards=1, slots=2)
    with pytest.raises(InputError, match=message):
        device.learn({"ann": (x, [0])})
    assert device.ledger.round == 0


@pytest.mark.usefixtures("one_process_trial")
def test_a_home_keeps_whole_numbers(tmp_path):
    own = TorchLearner(embedding_gru, classes=CLASSES, shape=(6,), epochs=1)
    x, y = np.arange(30).reshape(5, 6) % 20, np.arange(5) % CLASSES
    with Cause(tmp_path / "d", learner=own, system="sisa", shards=1, slots=2) as device:
        device.learn({"ann": (x, y), "bob": (x[::-1], y)})
        before = device.predict(x)
    with Cause(tmp_path / "d") as device:
        assert np.array_equal(device.predict(x), before)
        device.forget("ann")
        assert device.verify(processes=0).holds
