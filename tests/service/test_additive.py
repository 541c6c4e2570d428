"""A service over a home with an additive learner: uploads and erasures are whole when they are answered."""

import threading

import pytest

from cause import AdditiveLearner, Cause
from cause.device.expected_accuracy import quick_estimate
from tests.device.homes import CLASSES, FEATURES, MASTER, samples
from tests.service.services import Running, inputs, rows
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def adding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adding") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
        Cause(folder, learner=learner, key={"env": "CAUSE_TEST_KEY"}).close()
        with Running(folder) as running:
            yield running


def test_an_upload_and_an_erasure_are_in_effect_when_they_are_answered(adding):
    device = adding.service.device
    for user, count in (("ann", 5), ("bob", 4)):
        answer = adding.post(f"/v1/users/{user}/samples", body=rows(user, device.ledger.round + 1, count))
        assert answer.status_code == 201
    status = adding.get("/v1/status").json()
    assert (status["samples"], status["round"], status["repair"]["trainings"]) == (9, 2, 0)
    predicted = adding.post("/v1/predictions", body={"inputs": inputs(3)})
    assert predicted.status_code == 200, predicted.text
    assert len(predicted.json()["labels"]) == 3
    erased = adding.post("/v1/users/ann/erasures", body={})
    assert erased.status_code in (200, 201, 202), erased.text
    assert device.waiting() == []
    status = adding.get("/v1/status").json()
    assert (status["samples"], status["requests"]["open"], status["training"]) == (4, 0, None)
    clean = Cause(learner=AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES))
    clean.learn({})
    clean.learn({"bob": samples("bob", 2, 4)})
    head = clean.memory.head(0)
    assert head is not None
    assert device.memory.shelf.get(head.key) == clean.memory.shelf.get(head.key)
    assert adding.post("/v1/predictions", body={"inputs": inputs(3)}).status_code == 200


def test_an_upload_is_answered_as_learned_and_its_round_is_published(adding):
    body = rows("cyd", 1, 3)
    key = {"Idempotency-Key": "once"}
    first = adding.post("/v1/users/cyd/samples", body=body, **key).json()
    number = adding.service.device.ledger.round
    assert (first["state"], first["round"], first["samples"], len(first["handles"])) == ("learned", number, 3, 3)
    again = adding.post("/v1/users/cyd/samples", body=body, **key).json()
    assert (again["state"], again["round"], again["samples"]) == ("learned", number, 3)
    assert adding.service.device.ledger.round == number
    both = {"samples": [{"x": row, "y": 0, "user": user} for row, user in zip(inputs(2), ("dan", "eve"), strict=True)]}
    answer = adding.post("/v1/samples", body=both).json()
    assert {each["state"] for each in answer["uploads"]} == {"learned"}
    closed = [event.data for event in adding.service.events._kept if event.kind == "round.closed"]
    assert [(each["round"], each["samples"], each["users"]) for each in closed[-2:]] == [
        (number, 3, 1), (number + 1, 2, 2),
    ]  # fmt: skip


def test_each_upload_deletes_what_is_too_old_by_then(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
    Cause(tmp_path / "home", learner=learner, key={"env": "CAUSE_TEST_KEY"}, retain="2 rounds").close()
    with Running(tmp_path / "home") as running:
        for number, user in enumerate(("ann", "bob", "cyd"), 1):
            running.post(f"/v1/users/{user}/samples", body=rows(user, number, 4))
        assert running.get("/v1/users/ann").json()["samples"] == 0, "it is older than two rounds"
        assert running.get("/v1/status").json()["samples"] == 8
        clean = Cause(learner=AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES))
        clean.learn({})
        clean.learn({"bob": samples("bob", 2, 4)})
        clean.learn({"cyd": samples("cyd", 3, 4)})
        kept, new = running.service.device.memory.head(0), clean.memory.head(0)
        assert running.service.device.memory.shelf.get(kept.key) == clean.memory.shelf.get(new.key)


def expected(running, samples):
    """Ask for the status until it has an estimate of so many samples."""

    def estimate():
        return running.get("/v1/status").json()["expected_accuracy"]

    wait_until(lambda: (found := estimate()) is not None and found["held"] == samples)
    return estimate()


def test_the_status_has_an_estimate_of_the_present_state_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    monkeypatch.setattr("cause.service.expected_accuracy.LEAST_S", 0.0)
    learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
    Cause(tmp_path / "home", learner=learner, key={"env": "CAUSE_TEST_KEY"}).close()
    with Running(tmp_path / "home") as running:
        assert running.get("/v1/status").json()["expected_accuracy"] is None  # no samples
        running.post("/v1/users/ann/samples", body=rows("ann", 1, 20))
        running.post("/v1/users/bob/samples", body=rows("bob", 2, 30))
        first = expected(running, 50)
        assert (first["samples"], first["method"]) == (50, "leave-one-out")
        assert first["accuracy"] == first["correct"] / 50
        kept = running.service.expected_accuracy
        running.post("/v1/users/ann/erasures", body={})
        assert kept._estimate is None  # dropped with the samples, before anybody asks
        assert expected(running, 30)["samples"] == 30
        assert kept.get().identity == running.service.device.memory.head(0).identity


def test_an_estimate_that_was_begun_before_an_erasure_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
    begun, goes_on, estimate = threading.Event(), threading.Event(), quick_estimate

    def slowly(device):
        found = estimate(device)
        begun.set()
        goes_on.wait(30)
        return found

    monkeypatch.setattr("cause.service.expected_accuracy.quick_estimate", slowly)
    Cause(tmp_path / "home", learner=learner, key={"env": "CAUSE_TEST_KEY"}).close()
    with Running(tmp_path / "home") as running:
        running.post("/v1/users/ann/samples", body=rows("ann", 1, 20))
        running.post("/v1/users/bob/samples", body=rows("bob", 2, 30))
        kept = running.service.expected_accuracy
        assert kept.get() is None
        assert begun.wait(30)
        running.post("/v1/users/ann/erasures", body={})
        goes_on.set()
        kept.close()
        assert kept._estimate is None


def test_pages_and_reports_answer(adding):
    for path in ("/v1/status", "/v1/health", "/v1/receipts", "/v1/log", "/metrics", "/"):
        assert adding.get(path).status_code in (200, 404), path
    assert adding.get("/").status_code == 200


def test_predictions_are_refused_for_a_while_if_a_new_head_takes_longer_to_solve_than_they_wait(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)
    learner = AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES)
    Cause(tmp_path / "home", learner=learner, key={"env": "CAUSE_TEST_KEY"}).close()
    solve, goes_on, begun = AdditiveLearner.predictor, threading.Event(), []

    def slowly(self, state):
        begun.append(state.samples)
        assert goes_on.wait(60)
        return solve(self, state)

    monkeypatch.setattr(AdditiveLearner, "predictor", slowly)
    with Running(tmp_path / "home", solving="0.05s") as running:
        running.post("/v1/users/ann/samples", body=rows("ann", 1, 5))
        running.post("/v1/users/bob/samples", body=rows("bob", 2, 4))
        refused = running.post("/v1/predictions", body={"inputs": inputs(3)})
        assert (refused.status_code, int(refused.headers["Retry-After"]) >= 1) == (503, True), refused.text
        assert "solved anew" in refused.json()["detail"]
        assert running.post("/v1/predictions", body={"inputs": inputs(3)}).status_code == 503
        assert begun == [9]  # one solution, however often it is asked for
        running.post("/v1/users/ann/erasures", body={})
        goes_on.set()  # what comes of the old state is asked for by nobody
        answers = [running.post("/v1/predictions", body={"inputs": inputs(3)}) for _ in range(20)]
        answer = answers[-1]
        assert answer.status_code == 200, answer.text
        assert begun == [9, 4]
        clean = Cause(learner=AdditiveLearner(features=FEATURES, scale=(-3, 3), classes=CLASSES))
        clean.learn({"bob": samples("bob", 2, 4)})
        assert answer.json()["labels"] == clean.predict(inputs(3)).tolist()
        assert running.service.predictors._solving == {}
