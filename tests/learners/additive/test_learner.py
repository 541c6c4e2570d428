"""AdditiveLearner: arguments, samples, predictions."""

import re

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.device.expected_accuracy import expected_accuracy, quick_estimate
from cause.engine.samples import arrays_of
from cause.errors import ArrivalError, BudgetError, InputError, LearnerError, NoVotersError, RequestError
from cause.learners.additive.heads.ridge import Ridge
from cause.learners.additive.leave_one_out import leave_one_out
from cause.learners.additive.rows import inputs_of
from cause.learners.additive.solve import lapack, portable
from cause.learners.described import build, describe
from cause.learners.trial import try_out

HEADS = ["ridge", "class-means", "gaussian-nb", "multinomial-nb"]


def learner(**arguments) -> AdditiveLearner:
    return AdditiveLearner(**{"features": 8, "scale": (-4, 4), "classes": 4, **arguments})


def samples(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    centres = np.random.default_rng(7).normal(scale=2, size=(4, 8))
    draw = np.random.default_rng(seed)
    y = draw.integers(4, size=n)
    return centres[y] + draw.normal(size=(n, 8)), y


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("expand", [0, 100])
@pytest.mark.parametrize("solve", ["lapack", "portable"])
def test_every_head_learns(head: str, expand: int, solve: str):
    device = Cause(learner=learner(head=head, expand=expand, solve=solve))
    device.learn({"ann": samples(200), "bob": samples(200, 1)})
    x, y = samples(500, 2)
    assert (device.predict(x) == y).mean() > 0.9
    device.forget("ann")
    assert (device.predict(x) == y).mean() > 0.85
    weights, probabilities = device.votes(x)
    assert weights.tolist() == [200]
    assert np.allclose(probabilities.sum(axis=2), 1)
    assert (probabilities >= 0).all()


@pytest.mark.parametrize("head", HEADS)
def test_leave_one_out_is_what_leaving_one_out_gives(head: str):
    made = learner(head=head)
    device = Cause(learner=made)
    device.learn({"ann": samples(40)})
    state = made.decode(device.memory.shelf.get(device.memory.head(0).key))
    (piece,) = device.ledger.lineage(0)[device.ledger.lineage(0).last].pieces
    found = leave_one_out(made, state, [piece])
    correct = 0
    for position in piece.positions:
        one = made.decode(made.encode(state))
        single = type(piece)(piece.upload, range(position, position + 1))
        made.subtract(one, single)
        if head == "ridge":  # its λ is that of all samples
            assert isinstance(made.head, Ridge)
            penalty = made.head._penalised(state) - state.parts["gram"].matrix()
            weights = lapack(one.parts["gram"].matrix() + penalty, one.parts["cross"].astype(float))
            (z, y, _), *_ = made.blocks(single)
            correct += int((z @ weights).argmax() == y[0])
        else:
            (z, y, _), *_ = made.blocks(single)
            correct += int(made.head.solve(one).probabilities(z).argmax() == y[0])
    assert (found.samples, found.correct) == (40, correct)


@pytest.mark.parametrize("head", HEADS)
def test_a_copy_is_equal_and_stays_as_it_is(head: str):
    made = learner(head=head, features=200)
    device = Cause(learner=made)
    device.learn({"ann": (np.tile(samples(40)[0], 25), samples(40)[1])})
    state = made.decode(device.memory.shelf.get(device.memory.head(0).key))
    (piece,) = device.ledger.lineage(0)[device.ledger.lineage(0).last].pieces
    copy, before = made.copied(state), made.encode(state)
    assert made.encode(copy) == before
    made.subtract(state, piece)
    assert made.encode(copy) == before != made.encode(state)
    made.add(copy, piece)
    assert made.encode(state) == made.encode(made.empty())


def test_the_portable_solution_is_the_one_of_lapack_but_for_rounding():
    draw = np.random.default_rng(0)
    a = draw.normal(size=(300, 40))
    a, b = a.T @ a + np.eye(40), draw.normal(size=(40, 3))
    assert np.allclose(portable(a, b), lapack(a, b), rtol=1e-9)


def test_a_description_makes_the_same_learner_again():
    made = learner(bits=12, squash=True, expand=32, head="ridge", solve="portable", keep="samples", seed=3)
    again = build(describe(made))
    assert again.recipe_digest == made.recipe_digest
    assert again.described() == made.described()


@pytest.mark.parametrize(
    "arguments",
    [{"bits": 16}, {"squash": True}, {"scale": (-4, 5)}, {"expand": 4}, {"head": "class-means"}, {"classes": 5},
     {"keep": "samples"}, {"features": 9}, {"seed": 1}, {"out_of_scale": "refuse"}],
)  # fmt: skip
def test_whatever_decides_a_state_is_in_the_digest(arguments: dict):
    assert learner(**arguments).recipe_digest != learner().recipe_digest


@pytest.mark.parametrize("arguments", [{"solve": "portable"}, {"regularization": 0.5}])
def test_what_only_decides_the_solution_is_not(arguments: dict):
    assert learner(**arguments).recipe_digest == learner().recipe_digest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": None}, "features=43"),
        ({"scale": None}, "scale"),
        ({"scale": (3, 3)}, "low below high"),
        ({"scale": (0, float("nan"))}, "low below high"),
        ({"scale": 5}, "pair"),
        ({"scale": ([0, 0], [1, 1])}, "2 numbers"),
        ({"bits": 9}, "8, 12 or 16"),
        ({"head": "tree"}, "tree"),
        ({"solve": "slowly"}, "slowly"),
        ({"keep": "all"}, "keep"),
        ({"expand": -1}, "expand"),
        ({"regularization": 0}, "regularization"),
        ({"regularization": "best"}, "regularization"),
        ({"regularization": True}, "regularization"),
        ({"classes": 0}, "classes"),
        ({"shape": (2, 4)}, "not both"),
        ({"features": None, "shape": ()}, "positive whole numbers"),
        ({"features": None, "shape": 3}, "positive whole numbers"),
        ({"scale": (10**400, 10**401)}, "pair"),
        ({"classes": None}, "classes"),
        ({"regularization": 1e300}, "below 1,000,000"),
        ({"backbone": "no-such"}, "no-such"),
        ({"backbone": 5}, "backbone"),
        ({"size": 3}, "size"),
        ({"out_of_scale": "refuse", "squash": True}, "squashing"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: dict, message: str):
    with pytest.raises(InputError, match=message) as error:
        learner(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 7)), [0, 1], "shape"),
        (np.full((2, 8), np.nan), [0, 1], "finite"),
        (np.full((2, 8), np.inf), [0, 1], "finite"),
        (np.zeros((2, 8)), [0, 4], "4 classes"),
        (np.zeros((2, 8)), [0], "one label"),
    ],
)
def test_wrong_samples_change_nothing(x: np.ndarray, y: list[int], message: str):
    device = Cause(learner=learner())
    device.learn({"bob": samples(9)})
    before = device.heads()
    with pytest.raises(InputError, match=message):
        device.learn({"ann": samples(5), "cem": (x, np.asarray(y))})
    assert device.heads() == before
    assert device.ledger.round == 1


def test_features_out_of_scale_are_clipped_and_counted_and_the_count_is_subtracted():
    device = Cause(learner=learner())
    device.learn({"ann": (np.full((2, 8), 99.0), [0, 1]), "bob": (np.full((1, 8), -99.0), [0])})
    made = device.learner
    assert made.decode(device.memory.shelf.get(device.memory.head(0).key)).clipped == 24
    device.forget("ann")
    assert made.decode(device.memory.shelf.get(device.memory.head(0).key)).clipped == 8


def test_features_out_of_scale_are_refused_if_asked():
    device = Cause(learner=learner(out_of_scale="refuse"))
    with pytest.raises(ArrivalError, match="feature 3 of row 1 is 5, outside of the scale -4 to 4"):
        device.learn({"ann": (np.array([[0.0] * 8, [0, 0, 0, 5, 0, 0, 0, 0]]), [0, 1])})
    assert device.ledger.round == 0


def test_an_overflow_is_refused_with_its_numbers(monkeypatch):
    made = learner(bits=16)
    device = Cause(learner=made)
    assert made.most_samples == (2**63 - 1) // 65_535**2
    monkeypatch.setattr(AdditiveLearner, "most_samples", 10)
    device.learn({"ann": samples(8)})
    with pytest.raises(BudgetError, match=r"3 samples more than the 8 that are held.* 10 samples"):
        device.learn({"bob": samples(3)})
    device.learn({"bob": samples(2)})


def test_a_merge_that_could_overflow_is_refused_with_its_numbers():
    made = learner(bits=16)
    one, other = made.empty(), made.empty()
    one.samples, other.samples = made.most_samples - 1, 2  # as if they had been added
    before = one.encoded()
    with pytest.raises(BudgetError, match=f"2 samples cannot be added to one of {made.most_samples - 1:,}"):
        one.merge(other, made.most_samples)
    assert one.encoded() == before
    other.samples = 1
    one.merge(other, made.most_samples)
    assert one.samples == made.most_samples
    other.samples = -1
    with pytest.raises(BudgetError, match="-1 samples"):
        one.merge(other, made.most_samples)


def filters(**settings) -> AdditiveLearner:
    return AdditiveLearner("random-filters", classes=4, shape=(1, 8, 8), size=4, **settings)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (learner(), learner(bits=12), "bits is 8 here and 12 there"),
        (learner(), learner(scale=(-2, 4)), "low is -4.0 here and -2.0 there"),
        (learner(), learner(scale=(-4, 2)), "high is 4.0 here and 2.0 there"),
        (learner(), learner(scale=([-4.0] * 8, 4)), "low differs"),
        (learner(), learner(squash=True), "squash is false here and true there"),
        (learner(), learner(classes=5), "classes is 4 here and 5 there"),
        (learner(features=4), learner(features=None, shape=(2, 2)), "backbone has shape [4] here and [2, 2] there"),
        (learner(expand=16), learner(expand=16, seed=1), "seed is 0 here and 1 there"),
        (learner(expand=16), learner(features=9, expand=16), "backbone has shape [8] here and [9] there"),
        (filters(), filters(seed=1), "backbone has seed 0 here and 1 there, seed is 0 here and 1 there"),
        (learner(head="class-means"), learner(head="multinomial-nb"), 'head is "class-means" here and "mult'),
    ],
)
def test_states_of_other_recipes_are_not_added(one: AdditiveLearner, other: AdditiveLearner, difference: str):
    mine, theirs = one.empty(), other.copied(other.decode(other.encode(other.empty())))
    mine.samples = theirs.samples = 1
    before = mine.encoded()
    with pytest.raises(LearnerError, match=re.escape(difference)) as refused:
        mine.merge(theirs, one.most_samples)
    assert "\n" not in str(refused.value)
    assert mine.encoded() == before


def test_states_that_are_solved_in_another_way_are_added():
    one, other = learner(regularization=0.5, solve="portable"), learner(regularization="gcv")
    assert one.recipe_digest == other.recipe_digest
    mine, theirs = one.empty(), other.empty()
    theirs.samples = 3
    mine.merge(theirs, one.most_samples)
    assert mine.samples == 3


def test_inputs_are_kept_if_asked():
    made = learner(keep="samples")
    device = Cause(learner=made)
    x, y = samples(3)
    device.learn({"ann": (x.astype(np.float32), y)})
    ((_, piece),) = device.ledger.held_pieces("ann", 1)
    rows, _ = arrays_of(*piece)
    kept = inputs_of(rows, 8, made.scale.dtype, (8,))
    assert kept is not None
    assert {tuple(row) for row in kept.tolist()} == {tuple(row) for row in x.astype(np.float32).tolist()}


def test_samples_are_forgotten_by_their_contents():
    device = Cause(learner=learner())
    x, y = samples(6)
    device.learn({"ann": (x, y)})
    (done,) = device.forget("ann", matching=x[:2])
    assert (done.samples, done.unmatched, done.rsn) == (2, 0, 0)
    with pytest.raises(RequestError):
        device.forget("ann", matching=x[:2])


def test_several_shards_are_refused():
    for arguments in ({"shards": 4}, {"system": "recommended"}, {"system": "cause:slices=2"}):
        with pytest.raises(InputError, match="one sum over all samples"):
            Cause(learner=learner(), **arguments)


def test_it_passes_the_trial_that_every_learner_of_a_home_must_pass():
    try_out(learner())


def test_one_sample_alone_cannot_be_predicted_from_the_others():
    device = Cause(learner=learner())
    device.learn({"ann": (np.zeros((1, 8)), [0])})
    assert expected_accuracy(device).accuracy is None
    assert quick_estimate(device) is None


def test_without_samples_nobody_votes():
    device = Cause(learner=learner())
    with pytest.raises(NoVotersError, match="no shard can vote"):
        device.predict(samples(2)[0])
    device.learn({"ann": samples(1)})
    assert device.predict(samples(2)[0]).shape == (2,)
    device.forget("ann")
    with pytest.raises(NoVotersError, match="no shard can vote"):
        device.predict(samples(2)[0])


def test_a_prediction_of_another_shape_is_refused():
    device = Cause(learner=learner())
    device.learn({"ann": samples(5)})
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        device.predict(np.zeros((2, 3)))
