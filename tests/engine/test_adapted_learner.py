"""A learner of a user's own needs only the methods that a device calls; it is no subclass of `Learner`."""

import numpy as np
import pytest

from cause.common.hashing import digest
from cause.device.device import Cause
from cause.device.exports.export import form_of
from cause.engine.adapted_learner import AdaptedLearner, as_learner
from cause.engine.learner import Learner, LearnerLike
from cause.errors import HomeError, LearnerError
from cause.learners.deferred import DeferredLearner
from cause.learners.described import NotNamedError, describe
from cause.learners.sklearn import SklearnLearner
from cause.learners.trial import try_out
from cause.service.predictor_cache import PredictorCache
from tests.small_learners import FrequencyLearner


class Frequencies:
    """Predicts each class as often as it was seen. It has what every learner must have, and nothing else."""

    recipe_digest = digest("frequencies")
    environment = "test"
    sub_model_bytes = 24
    classes = 3

    def composed(self, system):
        return self

    def check(self, upload):
        pass

    def train(self, parent, lesson, seed, tick=None):
        counts = np.zeros(3) if parent is None else parent.copy()
        for upload, positions in lesson.pieces:
            counts += np.bincount(upload.labels(positions), minlength=3)
        tick(1, 1)
        return counts

    def predict(self, state, x):
        return np.tile(state / state.sum(), (len(x), 1))

    def encode(self, state):
        return state.tobytes()

    def decode(self, blob):
        return np.frombuffer(blob)

    def stored_bytes(self, blob):
        return len(blob)


class Talkative(Frequencies):
    """Has some of what a learner may have besides."""

    input_shape = (2,)
    features = 2
    notes = ("it only counts",)

    def composed(self, system):
        return Talkative()

    def predictor(self, state):
        return lambda x: self.predict(state, x)


X, Y = np.ones((6, 2), dtype=np.float32), np.array([0, 1, 1, 2, 2, 2])
ROUNDS = ({"ann": (X, Y), "bob": (X[:3] + 1, Y[:3])}, {"ann": (X + 2, Y)})


def sub_models(device):
    return {key: device.memory.shelf.get(key) for key in device.memory.stored()}


@pytest.mark.parametrize("setting", [{}, {"workers": 1}], ids=["in this process", "in a worker"])
def test_it_learns_and_forgets_like_a_subclass(setting):
    mine = Cause(learner=Frequencies(), system="sisa", shards=2, slots=8, **setting)
    ours = Cause(learner=FrequencyLearner(), system="sisa", shards=2, slots=8)
    for device in (mine, ours):
        for arrived in ROUNDS:
            device.learn(arrived)
        device.forget("ann", rounds=[1])
    assert sub_models(mine) == sub_models(ours) != {}
    assert mine.predict(X).tolist() == ours.predict(X).tolist()
    assert np.array_equal(PredictorCache(mine).predict(X).probabilities, PredictorCache(ours).predict(X).probabilities)
    assert form_of(mine, None) == "npz"
    mine.close()


def test_a_home_is_opened_again_with_it(tmp_path):
    with pytest.warns(UserWarning, match="it only counts"):
        device = Cause(tmp_path / "home", learner=Talkative(), system="sisa", shards=2, slots=8)
    device.learn(ROUNDS[0])
    assert device.status().notes == ("it only counts",)
    before = sub_models(device)
    device.close()
    with pytest.raises(HomeError, match="give the learner"):
        Cause(tmp_path / "home")
    device = Cause(tmp_path / "home", learner=Talkative())
    assert sub_models(device) == before
    device.close()


def test_what_it_does_not_have_is_as_in_every_learner():
    learner = as_learner(Frequencies())
    assert isinstance(learner, AdaptedLearner)
    assert as_learner(learner) is learner.composed(None) is learner.shortened() is learner
    assert (learner.input_shape, learner.recipe, learner.features, learner.tokens) == (None,) * 4
    assert (learner.notes, learner.device_type, learner.users_code) == ([], "cpu", None)
    with pytest.raises(NotNamedError, match=r"^a Frequencies cannot be written down"):
        describe(learner)
    with pytest.raises(LearnerError, match=r"^a Frequencies has no network"):
        learner.network(np.ones(3))


def test_what_it_has_besides_is_used():
    learner = as_learner(Talkative())
    assert (learner.input_shape, learner.notes) == ((2,), ["it only counts"])
    assert isinstance(learner.composed(None), AdaptedLearner)
    assert learner.predictor(np.ones(3))(X).shape == (6, 3)


def test_its_own_way_of_not_rounding_is_what_the_trial_uses():
    class Rounding(Talkative):
        exact = False

        def composed(self, system):
            return self

        def shortened(self):
            return self

        def unrounded(self):
            exact = Rounding()
            exact.exact = True
            return exact

        def train(self, parent, lesson, seed, tick=None):
            trials.append(self.exact)
            return super().train(parent, lesson, seed, lambda done, total: None)

    trials: list[bool] = []
    try_out(as_learner(Rounding()))
    assert set(trials) == {True}


def test_its_own_arrays_are_exported_and_its_own_settings_of_a_home_are_taken():
    class Described(Frequencies):
        def exported(self, state):
            return {"counts": state}

        def as_written(self, description):
            return self if description == {} else Talkative()

    learner = as_learner(Described())
    assert list(learner.exported(np.ones(3))) == ["counts"]
    assert learner.as_written({}) is learner
    assert learner.as_written({"kind": "talkative"}).notes == ["it only counts"]


@pytest.mark.parametrize(
    ("kind", "not_passed_on"),
    [(AdaptedLearner, {"law", "recorded"}), (DeferredLearner, {"law", "as_written"})],
)
def test_only_these_members_of_a_learner_are_not_passed_on(kind, not_passed_on):
    members = {name for name in (*vars(Learner), *vars(LearnerLike)) if not name.startswith("_")}
    assert members - set(vars(kind)) == not_passed_on


def test_every_property_of_a_learner_is_passed_on():
    """A user's object around a learner, which passes every attribute on."""
    from sklearn.naive_bayes import GaussianNB

    class Around:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    inner = SklearnLearner(GaussianNB(), classes=3, features=2)
    outer = as_learner(Around(inner))
    members = [name for name, member in vars(Learner).items() if isinstance(member, property)]
    assert len(members) > 8
    for name in members:
        if name != "type_name":
            assert getattr(outer, name) == getattr(inner, name), name
    assert outer.described() == inner.described()
