"""Every upload is looked at as a whole when it arrives, by the same check on every way in."""

import numpy as np
import pytest

from cause.device.config import parse_config
from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.arrays import ArrayUpload
from cause.errors import ArrivalError, InputError
from cause.learners.sklearn import SklearnLearner
from cause.learners.torch import TorchLearner
from tests.clean_room import differences
from tests.device.homes import MASTER, opened
from tests.small_learners import FrequencyLearner

CLASSES, SHAPE = 3, (8, 8)


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


def network(**parts) -> TorchLearner:
    return TorchLearner("mlp", classes=CLASSES, shape=(64,), epochs=1, **parts)


def drawn(user: str, count: int = 6, shape=(64,)):
    draw = np.random.default_rng([ord(c) for c in user])
    return draw.random((count, *shape)).astype(np.float32), draw.integers(CLASSES, size=count)


def with_value(user: str, row: int, value: float, dtype="float64"):
    x, y = drawn(user)
    x = x.astype(dtype)
    x[row, 5] = value
    return x, y


def ways(folder):
    """Every way in that Python has, by name: it takes a user and their samples."""
    memory = Cause(learner=network(), system="sisa", shards=1, slots=4)
    home = opened(folder, learner=network(), shards=1)
    return {
        "learn": (memory, lambda user, data: memory.learn({user: data})),
        "learn at home": (home, lambda user, data: home.learn({user: data})),
        "stage": (home, home_stage(home)),
    }


def home_stage(home):
    return lambda user, data: home.stage(user, *data)


@pytest.mark.parametrize("way", ["learn", "learn at home", "stage"])
def test_a_value_that_is_not_finite_as_the_learner_sees_it_is_refused_with_row_and_value(tmp_path, way):
    device, give = ways(tmp_path / "home")[way]
    with pytest.raises(
        ArrivalError, match=r"inputs of user 'bob': row 4 holds 1e\+300, which is not finite as float32"
    ):
        give("bob", with_value("bob", 4, 1e300))
    assert device.ledger.round == 0
    assert device.home is None or not len(device.home.inbox)


def test_a_value_that_only_scaling_makes_infinite_is_refused():
    device = Cause(learner=network(std=0.01), system="sisa", shards=1, slots=4)
    with pytest.raises(ArrivalError, match="row 2 holds 3e"):
        device.learn({"bob": with_value("bob", 2, 3e38, "float32")})


@pytest.mark.parametrize("way", ["learn", "learn at home", "stage"])
def test_a_label_out_of_range_is_refused_with_its_row(tmp_path, way):
    _, give = ways(tmp_path / "home")[way]
    x, y = drawn("bob")
    y[3] = 7
    with pytest.raises(ArrivalError, match=r"label 7 of user 'bob', but there are 3 classes .*: row 3"):
        give("bob", (x, y))


@pytest.mark.parametrize("estimator", ["network", "bayes"])
def test_flat_and_square_inputs_of_one_shard_are_trained_together(tmp_path, estimator):
    """The same numbers in another shape: what the learner sees is the same."""
    from sklearn.naive_bayes import GaussianNB

    def learner():
        return network() if estimator == "network" else SklearnLearner(GaussianNB(), classes=CLASSES, features=64)

    device = Cause(learner=learner(), system="sisa", shards=1, slots=4)
    device.learn({"ann": drawn("ann"), "bob": drawn("bob", shape=SHAPE), "cyn": drawn("cyn", shape=(1, 8, 8))})
    assert not device.waiting()
    assert verify(device, processes=0).holds
    flat = Cause(learner=learner(), system="sisa", shards=1, slots=4)
    flat.learn({user: (drawn(user)[0].reshape(-1, 64), drawn(user)[1]) for user in ("ann", "bob", "cyn")})
    x, _ = drawn("zoe")
    assert device.votes(x)[1].shape == flat.votes(x)[1].shape


def test_a_shape_that_was_set_is_required_of_all_uploads(tmp_path):
    device = opened(tmp_path / "home", learner=network(), shards=1, input_shape=(8, 8))
    device.learn({"ann": drawn("ann", shape=SHAPE)})
    for give in (lambda data: device.learn({"bob": data}), lambda data: device.stage("bob", *data)):
        with pytest.raises(
            ArrivalError, match=r"inputs of user 'bob' have shape \(64,\), but this device takes \(8, 8\)"
        ):
            give(drawn("bob"))
    device.close()
    again = Cause(tmp_path / "home", learner=network())
    with pytest.raises(ArrivalError, match=r"takes \(8, 8\)"):
        again.learn({"bob": drawn("bob")})
    again.close()


def test_inputs_are_kept_as_the_type_that_was_set(tmp_path):
    with opened(tmp_path / "home", learner=network(), shards=1, input_dtype="float32") as device:
        x, y = drawn("ann")
        device.learn({"ann": (x.astype(np.float64), y)})
        device.stage("bob", *drawn("bob"))
        device.close_round()
        assert {device.ledger.upload(user, t).arrays(range(1))[0].dtype for user, t in (("ann", 1), ("bob", 2))} == {  # type: ignore[attr-defined]
            np.dtype("float32")
        }
        with pytest.raises(ArrivalError, match=r"row 1 holds 1e\+300, which float32 cannot hold"):
            device.stage("bob", *with_value("bob", 1, 1e300))
    whole = Cause(learner=network(), system="sisa", shards=1, slots=4, input_dtype="uint8")
    with pytest.raises(ArrivalError, match="inputs of user 'ann' are float32, but this device takes uint8"):
        whole.learn({"ann": drawn("ann")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input_shape = 64", "input_shape must be a list of whole numbers"),
        ("input_shape = []", "positive whole numbers"),
        ("input_shape = [0]", "positive whole numbers"),
        ('input_dtype = "float"', "input_dtype is one of"),
    ],
)
def test_settings_of_inputs_that_make_no_sense_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_config(f'[device]\n{text}\n[key]\nenv = "KEY"\n'.encode(), "cause.toml")


def test_settings_of_inputs_can_be_written_and_changed():
    from cause.device.settings import changed

    config = parse_config(b'[device]\ninput_shape = [3, 8, 8]\ninput_dtype = "uint8"\n[key]\nenv = "K"\n', "x")
    assert parse_config(config.text().encode(), "x").settings == config.settings
    assert changed(config, {"input_shape": "64", "input_dtype": "none"}).settings.input_shape == (64,)


# A learner that says nothing of its inputs: what is held decides


@pytest.mark.parametrize("at_home", [False, True])
def test_without_a_setting_or_a_learners_word_the_first_upload_decides(tmp_path, at_home):
    device = opened(tmp_path / "home", learner=FrequencyLearner(CLASSES)) if at_home else loose()
    device.learn({"ann": drawn("ann", shape=SHAPE)})
    with pytest.raises(ArrivalError, match=r"'bob' have shape \(64,\), but what this device holds takes \(8, 8\)"):
        device.learn({"bob": drawn("bob")})
    whole = Cause(learner=FrequencyLearner(CLASSES), system="sisa:partition=hash", shards=2, slots=8)
    whole.learn({"ann": (np.zeros((3, 4), dtype=np.int64), [0, 1, 2])})
    with pytest.raises(ArrivalError, match="are float32, but what this device holds takes int64"):
        whole.learn({"bob": drawn("bob", shape=(4,))})
    device.forget("ann")
    device.learn({"bob": drawn("bob")})
    assert device.ledger.rounds_of("bob") == [2]
    device.close()


def loose() -> Cause:
    return Cause(learner=FrequencyLearner(CLASSES), system="sisa:partition=hash", shards=2, slots=8)


def test_the_shape_that_was_inferred_goes_with_what_it_was_inferred_from():
    """Whoever was forgotten decides nothing: the device takes what one takes that never had them."""
    device, clean = loose(), loose()
    device.learn({"ann": drawn("ann", shape=SHAPE)})
    clean.learn({})
    device.forget("ann")
    for each in (device, clean):
        each.learn({"bob": drawn("bob")})
        with pytest.raises(ArrivalError):
            each.learn({"ann": drawn("ann", shape=SHAPE)})
    assert not differences(device, clean)
    assert device.inputs() == clean.inputs()


def test_two_uploads_of_one_round_must_be_alike_and_the_second_is_named():
    with pytest.raises(ArrivalError, match="inputs of user 'bob' have shape"):
        loose().learn({"ann": drawn("ann", shape=SHAPE), "bob": drawn("bob")})


def test_staged_uploads_of_several_users_must_be_alike(tmp_path):
    with opened(tmp_path / "home", learner=FrequencyLearner(CLASSES)) as device:
        device.stage("ann", *drawn("ann", shape=SHAPE))
        with pytest.raises(ArrivalError, match="inputs of user 'bob' have shape"):
            device.stage("bob", *drawn("bob"))


def test_mixed_shapes_that_an_earlier_version_stored_are_opened_and_trained_on(tmp_path, monkeypatch):
    """The check came later: what is there stays usable, and what was staged can become a round."""
    from cause.device import device as system
    from cause.engine import arrivals

    with monkeypatch.context() as earlier:
        earlier.setattr(arrivals.InputSpec, "fitted", lambda self, user, x: x)
        earlier.setattr(FrequencyLearner, "input_shape", None, raising=False)
        with opened(tmp_path / "home", learner=FrequencyLearner(CLASSES)) as device:
            device.learn({"ann": drawn("ann", shape=SHAPE), "bob": drawn("bob")})
            device.stage("cyn", *drawn("cyn", shape=SHAPE))
            device.stage("dan", *drawn("dan"))
    with system.Cause(tmp_path / "home", learner=FrequencyLearner(CLASSES)) as device:
        assert device.close_round().users == 2
        device.catch_up()
        assert not device.waiting()


def test_uploads_that_are_objects_pass_the_same_check():
    x, y = with_value("bob", 2, 1e300)
    device = Cause(learner=network(), system="sisa", shards=1, slots=4)
    with pytest.raises(ArrivalError, match=r"the sample at position . holds 1e"):
        device.learn([ArrayUpload("bob", 1, x, y)])
