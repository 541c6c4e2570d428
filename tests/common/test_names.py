"""Users' names: their normal form, and which spellings are the same name."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.common.names import fold, normal_name
from cause.device.device import Cause
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Part, TraceUpload
from cause.errors import InputError, RequestError
from cause.learners import CountingLearner

NFC, NFD = "zo\u00e9", "zoe\u0301"
UNSEEN = [
    "zo\u200be",
    "\ufeffzoe",
    "zoe\u00ad",
    "zo\u2028e",
    "zo\x07e",
    "zoe\ue000",
    "zoe\u0378",
    "zo\u3164e",
    "z\ufe0foe",
]


@pytest.mark.parametrize("name", ["zoe", "Zoë Müller", "名前", "a b", "o'neil/3", "😀"])
def test_an_ordinary_name_stays_as_it_is(name):
    assert normal_name(unicodedata.normalize("NFC", name)) == fold(name) == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize("name", [" zoe", "zoe ", "zoe\u00a0", "\u3000zoe", "zoe\t", *UNSEEN])
def test_edge_white_space_and_invisible_characters_are_refused(name):
    with pytest.raises(InputError, match=r"white space|invisible character U\+"):
        normal_name(name)
    assert fold(name) == "zoe"


def test_the_normal_forms_of_a_name_are_one_name():
    assert normal_name(NFD) == normal_name(NFC) == fold(NFD) == fold(NFC) == NFC


@given(st.text(min_size=1, max_size=12))
def test_folding_twice_is_folding_once_and_a_good_name_folds_to_itself(text):
    assert fold(fold(text)) == fold(text)
    try:
        name = normal_name(text)
    except InputError:
        return
    assert fold(text) == name == normal_name(name)


def rows(count=4):
    return np.arange(count * 2.0).reshape(count, 2), np.zeros(count, dtype=int)


@pytest.fixture
def device():
    from sklearn.naive_bayes import GaussianNB

    from cause.learners.sklearn import SklearnLearner

    return Cause(learner=SklearnLearner(GaussianNB(), classes=2, features=2), shards=1, slots=4)


def test_a_device_in_memory_normalises_names_and_refuses_bad_ones(device):
    device.learn({NFD: rows()})
    assert device.ledger.rounds_of(NFC) == [1]
    with pytest.raises(InputError, match="white space"):
        device.learn({"zoe ": rows()})
    with pytest.raises(InputError, match="the same name, written another way"):
        device.learn({NFC: rows(), NFD: rows()})
    with pytest.raises(InputError, match="normal form C"):
        device.learn([ArrayUpload(NFD, 2, *rows())])
    with pytest.raises(InputError, match="invisible"):
        device.forget("zo\u200be")
    assert device.ledger.round == 1
    device.forget(NFD)
    assert device.ledger.rounds_of(NFC) == []


def test_a_trace_may_name_its_users_as_it_likes():
    device = Cause(learner=CountingLearner(), system="cause-no-sc", shards=2, slots=4)
    device.learn([TraceUpload("u 1 ", 1, (Part(3),)), TraceUpload("u 1", 1, (Part(3),))])
    assert device.forget("u 1 ")[0].samples == 3
    assert device.ledger.rounds_of("u 1") == [1]


def test_rows_of_a_device_in_memory_are_matched_by_their_contents(device):
    x, y = rows(6)
    device.learn({"zoe": (x, y)})
    done = device.forget("zoe", matching=(np.concatenate([x[2:4], x[:1] + 50]), [0, 0, 0]))[0]
    assert (done.samples, done.unmatched) == (2, 1)
    upload = device.ledger.lineage(0)[device.ledger.pieces_of("zoe", 1)[0][0]].piece("zoe")
    left = upload.upload.arrays(upload.positions)[0]
    assert sorted(left[:, 0].tolist()) == [0, 2, 8, 10]
    with pytest.raises(RequestError, match="none of the 1 rows"):
        device.forget("zoe", matching=x[2:3])
