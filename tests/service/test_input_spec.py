"""All samples of a device are of one kind. What is refused tells nothing of what a particular user uploaded."""

import io

import numpy as np
import pytest

from cause.learners.torch import TorchLearner
from tests.device.homes import CLASSES, FEATURES, MASTER, opened
from tests.service.services import Running, rows

NPZ = "application/x-npz"
DRAW = np.random.default_rng(3)
BYTES = DRAW.integers(0, 256, size=(3, FEATURES)).astype(np.uint8)
NUMBERS = DRAW.normal(size=(3, FEATURES))
ATTEMPTS = {
    "float32": NUMBERS.astype(np.float32),
    "float64": NUMBERS,
    "float16": NUMBERS.astype(np.float16),
    "too large": np.full((3, FEATURES), 1e300),
    "bytes": BYTES,
    "whole": BYTES.astype(np.float32),
    "int64": BYTES.astype(np.int64),
    "in rows": NUMBERS.astype(np.float32).reshape(3, 2, 3),
    "longer": np.zeros((3, FEATURES + 1), np.float32),
}


def npz(x):
    buffer = io.BytesIO()
    np.savez(buffer, x=x, y=np.arange(len(x)) % CLASSES)
    return buffer.getvalue()


def upload(running, user, x, who="ingest"):
    return running.post(f"/v1/users/{user}/samples", who, npz(x), Content_Type=NPZ)


def shown(answer):
    """An answer without what is of this upload alone: its id, and the handles but for their number."""
    said = answer.json()
    own = {"id": None, "handles": len(said.get("handles", []))}
    return answer.status_code, {name: own.get(name, value) for name, value in said.items()}


@pytest.mark.parametrize("kept", ["float32", "uint8"])
@pytest.mark.parametrize("waits", ["float64", "bytes", "in rows"])
def test_what_is_refused_does_not_depend_on_what_waits_of_the_user(tmp_path, kept, waits):
    with Running(tmp_path / "home", samples=kept) as running:
        assert upload(running, "first", BYTES).status_code == 201
        upload(running, "alice", ATTEMPTS[waits], "alice")
        for name, x in ATTEMPTS.items():
            alike = [shown(upload(running, user, x)) for user in ("alice", f"nobody {name}")]
            assert alike[0] == alike[1], name
        assert running.post("/v1/rounds").status_code == 202, "what waits goes together"
        kinds = {(each.dtype, each.shape) for each in metas(running)}
        assert kinds == {(np.dtype(kept), (FEATURES,))}


def metas(running):
    home = running.service.home
    return [home.store.blocks.meta(bytes(name)) for (name,) in home.database.rows("SELECT key FROM blocks")]


def kept_of_bob(running):
    assert upload(running, "bob", ATTEMPTS["whole"]).status_code == 201
    assert running.post("/v1/rounds").status_code == 202
    bob = running.service.home.ledger.upload("bob", 1).blocks.inputs(range(3))
    return bob.dtype, bob.shape, sorted(each.tobytes() for each in bob)


@pytest.fixture(scope="module")
def kept_without_others(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        with Running(tmp_path_factory.mktemp("without") / "home") as running:
            return kept_of_bob(running)


@pytest.mark.parametrize("first", ["float32", "bytes", "float64", "int64"])
def test_what_is_kept_of_a_user_does_not_depend_on_somebody_who_was_there_before_and_is_forgotten(
    tmp_path, first, kept_without_others
):
    with Running(tmp_path / "home") as running:
        assert upload(running, "first", ATTEMPTS[first]).status_code == 201
        assert running.post("/v1/users/first/erasures", body={}).status_code == 202
        assert kept_of_bob(running) == kept_without_others


def test_a_refusal_names_only_the_devices_kind(tmp_path):
    with Running(tmp_path / "home", samples="uint8") as running:
        assert upload(running, "bob", BYTES.astype(np.float64)).status_code == 201, "they are whole"
        refused = upload(running, "bob", NUMBERS)
        assert refused.status_code == 422
        body = "this device's samples are uint8: there are inputs that are not: row "
        assert refused.json()["detail"].startswith(body)


def test_pictures_and_rows_of_one_user_go_together(tmp_path):
    learner = TorchLearner("cnn", classes=CLASSES, shape=(3, 8, 8), epochs=1)
    opened(tmp_path / "home", learner=learner, slots=None, memory="64MB").close()
    last = DRAW.integers(0, 256, size=(4, 8, 8, 3)).astype(np.uint8)
    first = np.moveaxis(last, -1, 1)
    with Running(tmp_path / "home", samples="uint8") as running:
        for x in (last, first, first.reshape(4, -1), last.astype(np.float32)):
            assert upload(running, "ann", x).status_code == 201
        assert running.post("/v1/rounds").status_code == 202
        held = running.service.home.ledger.upload("ann", 1).blocks.inputs(range(16))
        assert sorted(each.tobytes() for each in held) == sorted(each.tobytes() for each in [*first] * 4)


def test_uploads_as_json_are_what_they_were(tmp_path):
    with Running(tmp_path / "home") as running:
        assert running.post("/v1/users/ann/samples", "ingest", rows("ann", 1, 5)).status_code == 201
        assert upload(running, "ann", NUMBERS).status_code == 201, "float64 is kept as float32"
        assert upload(running, "ann", ATTEMPTS["too large"]).status_code == 422


def test_what_would_be_too_large_as_the_devices_kind_is_refused(tmp_path):
    with Running(tmp_path / "home", unpacked="64kB") as running:
        assert upload(running, "ann", NUMBERS).status_code == 201
        many = np.zeros((4_000, FEATURES), np.uint8)
        assert many.nbytes < 2**16 < 4 * many.nbytes
        assert upload(running, "ann", many).status_code == 413
        assert upload(running, "ann", many[:2_000]).status_code == 201
