"""An upload that no training can bear, in the service: the others learn, it is named to who may know, and it can go."""

import numpy as np
import pytest

from cause.engine.arrays import ArrayUpload
from tests.clean_room import differences, trained_on
from tests.device.homes import FEATURES, MASTER, bayes, opened, samples
from tests.service.services import Running
from tests.service.test_input_spec import npz
from tests.waiting import wait_until

NPZ = "application/x-npz"
SYSTEM = "frugal:partition=hash"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service that has learned a round in which bob's upload fails."""
    folder = tmp_path_factory.mktemp("service") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        opened(folder, system=SYSTEM, shards=1, input_dtype="float64").close()
        with Running(folder) as running:
            for user in ("ann", "bob", "cyn"):
                sent = running.post(f"/v1/users/{user}/samples", "ingest", npz(inputs(user)), Content_Type=NPZ)
                assert sent.status_code == 201
            assert running.post("/v1/rounds").status_code == 202
            wait_until(lambda: running.service.device.ledger.quarantined(), 60)
            running.settled(60)
            yield running


def inputs(user: str):
    x = samples(user, 1, 8)[0].astype(np.float64)
    if user == "bob":
        x[5, 2] = 1e300
    return x


def test_it_is_named_to_operators_and_counted_for_others(running):
    for path in ("/v1/status", "/v1/quarantine"):
        body = running.get(path).json()
        body = body["quarantine"] if path == "/v1/status" else body
        (item,) = body["items"]
        assert (body["uploads"], body["samples"]) == (1, 8)
        assert (item["user"], item["round"], item["shard"], item["verdict"]) == ("bob", 1, 0, "DivergedError")
        seen = running.get(path, "auditor")
        assert "bob" not in seen.text
        assert '"samples":8' in seen.text.replace(" ", "")
    assert running.get("/v1/quarantine", "ingest").status_code == 403
    metrics = running.get("/metrics", "auditor").text
    assert "cause_quarantined_uploads 1.0" in metrics
    assert "cause_failing_shards 0.0" in metrics
    assert "bob" not in metrics
    assert running.get("/v1/users/bob", "bob").json()["quarantined"] == 8
    assert running.get("/v1/status").json()["problem"] is None


def test_the_others_are_as_in_a_device_that_never_had_it(running):
    remaining = [ArrayUpload(user, 1, inputs(user), np.arange(8) % 4) for user in ("ann", "cyn")]
    clean = trained_on([remaining], bayes(), SYSTEM, shards=1, slots=8)
    device = running.service.device
    with device.lock:
        assert not differences(device, clean)
        assert device.memory.stored() == clean.memory.stored()


def test_an_upload_that_the_learner_cannot_bear_is_refused_with_row_and_value(running):
    x = inputs("ann")
    x[3, 1] = np.nan
    for who in ("operator", "ingest"):
        answer = running.post("/v1/users/zoe/samples", who, npz(x), Content_Type=NPZ)
        assert answer.status_code == 422
        assert "row 3" in answer.json()["detail"]
    wrong = running.post("/v1/users/zoe/samples", "ingest", npz(np.zeros((2, FEATURES + 1))), Content_Type=NPZ)
    assert wrong.status_code == 422


def test_dropping_it_is_an_operators_request_with_a_receipt(running):
    (item,) = running.get("/v1/quarantine").json()["items"]
    path = f"/v1/quarantine/{item['upload']}/drop"
    for who, status in (("auditor", 403), ("ingest", 403), ("bob", 403)):
        assert running.post(path, who).status_code == status
    assert running.post("/v1/quarantine/999/drop").status_code == 404
    done = running.post(path)
    assert done.status_code == 202
    body = done.json()
    assert (body["samples"], body["shards"]) == (8, [])
    assert body["receipts"]
    assert running.get("/v1/quarantine").json()["items"] == []
    assert running.get("/v1/users/bob").json()["samples"] == 0
    wait_until(lambda: running.get(f"/v1/requests/{body['id']}").json()["state"] == "repaired", 60)
