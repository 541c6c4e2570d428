"""A head of one's own: one class with a contribution and a solution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.errors import CauseError, InputError, LearnerError
from cause.learners.additive.heads import HEADS, Head, Setting, Solution, by_class
from cause.learners.additive.leave_one_out import leave_one_out
from cause.learners.described import NotNamedError, describe
from tests.learners.additive.cases import state_of
from tests.learners.additive.test_learner import samples


@dataclass(frozen=True)
class Shares(Solution):
    def probabilities(self, z):
        nearness = -np.abs(z[:, :-1, None] - self.arrays["mean"]).sum(axis=1)
        shares = np.exp((nearness - nearness.max(axis=1, keepdims=True)) / 255)
        return shares / shares.sum(axis=1, keepdims=True)


class NearestByLength(Head):
    """The class whose mean is nearest by the sum of absolute differences."""

    def shapes(self):
        return {"sums": (self.setting.features + 1, self.setting.classes)}

    @property
    def largest_contribution(self):
        return self.setting.largest

    def contribution(self, z, y) -> Mapping[str, np.ndarray]:
        return {"sums": by_class(z, y, self.setting.classes)}

    def solve(self, sums):
        table = sums.parts["sums"].astype(float)
        return Shares({"mean": np.where(table[-1] > 0, table[:-1] / np.maximum(table[-1], 1), np.inf)})


class OtherName(NearestByLength):
    """The same under another name."""


def learner(head=NearestByLength, **arguments) -> AdditiveLearner:
    return AdditiveLearner(features=8, scale=(-4, 4), classes=4, head=head, **arguments)


@pytest.mark.parametrize("expand", [0, 50])
def test_it_learns_forgets_exactly_and_predicts(expand: int):
    device, clean = (Cause(learner=learner(expand=expand)) for _ in range(2))
    device.learn({"ann": samples(200), "bob": samples(150, 1)})
    clean.learn({"bob": samples(150, 1)})
    x, y = samples(300, 2)
    assert (device.predict(x) == y).mean() > 0.9
    (done,) = device.forget("ann")
    assert done.rsn == 0
    assert state_of(device) == state_of(clean)
    assert device.verify().holds
    assert device.votes(x)[1].tobytes() == clean.votes(x)[1].tobytes()


def test_a_home_is_opened_with_it_and_refused_with_another(tmp_path):
    with Cause(tmp_path / "home", learner=learner()) as device:
        device.learn({"ann": samples(20), "bob": samples(20, 1)})
        before = state_of(device)
    with Cause(tmp_path / "home", learner=learner()) as device:
        assert state_of(device) == before
        device.forget("ann")
        assert device.verify().holds
    with pytest.raises(CauseError):
        Cause(tmp_path / "home", learner=learner(OtherName))
    with pytest.raises(NotNamedError):
        describe(learner())


def test_its_accuracy_is_estimated_by_leaving_each_sample_out():
    made = learner()
    device = Cause(learner=made)
    device.learn({"ann": samples(40)})
    state = made.decode(state_of(device))
    (piece,) = device.ledger.lineage(0)[device.ledger.lineage(0).last].pieces
    correct = 0
    for position in piece.positions:
        one, single = made.decode(made.encode(state)), type(piece)(piece.upload, range(position, position + 1))
        made.subtract(one, single)
        (z, y, _), *_ = made.blocks(single)
        correct += int(made.head.solve(one).probabilities(z).argmax() == y[0])
    result = leave_one_out(made, state, [piece])
    assert (result.samples, result.correct) == (40, correct)
    device.forget("ann", rounds=[1], count=39)
    state = made.decode(state_of(device))
    ((_, last),) = device.ledger.held_pieces("ann", 1)
    assert leave_one_out(made, state, [last]).samples == 0  # without it nobody could vote


def broken(contribution: Callable) -> type[Head]:
    return type("Broken", (NearestByLength,), {"contribution": contribution})


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (broken(lambda self, z, y: {"sums": z.T @ np.eye(4)[y]}), "float64"),
        (broken(lambda self, z, y: {"sums": by_class(z, y, 4) * 1000}), "largest"),
        (broken(lambda self, z, y: {"sum": by_class(z, y, 4)}), "other parts"),
        (broken(lambda self, z, y: {"sums": by_class(z, y, 4)[:2]}), "other parts"),
    ],
)
def test_a_contribution_that_cannot_be_summed_exactly_is_refused(head, message):
    device = Cause(learner=learner(head))
    with pytest.raises(LearnerError, match=message) as error:
        device.learn({"ann": samples(5)})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("head", [int, NearestByLength(Setting(8, 4, 255, 0.1, "lapack")), 5])
def test_something_else_than_a_head_is_one_line(head):
    with pytest.raises(InputError, match="a head is a name") as error:
        learner(head)
    assert "\n" not in str(error.value)


def test_names_of_ours_are_refused_with_what_exists():
    with pytest.raises(InputError, match=", ".join(sorted(HEADS))):
        learner("forest")
