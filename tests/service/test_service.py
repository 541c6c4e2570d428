"""What the service does, from upload to receipt."""

import io
import json
import struct
import threading
import time

import httpx
import numpy as np
import pytest

from cause.client import Client, ServiceError
from cause.common.files import write_text
from cause.device.backup.restore_log import append_restored_entries
from cause.device.device import Cause
from cause.device.energy.model import EnergyModel, Line
from cause.device.log import VerifierKey, verify_consistency
from cause.device.receipts.receipts import Bundle, nonce_digest
from cause.engine.requests import Request
from cause.errors import HomeError, LogError, VaultError
from cause.service.predictor_cache import PredictorCache
from tests.device.homes import CLASSES, ERASE, FEATURES, bayes, opened, samples
from tests.service.services import Running, inputs, rows
from tests.waiting import wait_until


@pytest.fixture
def fresh(tmp_path):
    with Running(tmp_path / "home") as running:
        yield running


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def safetensors(**arrays):
    names = {"float32": "F32", "int64": "I64"}
    head, data = {}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        head[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    header = json.dumps(head).encode()
    return struct.pack("<Q", len(header)) + header + data


def test_a_round_is_what_was_staged_whatever_form_it_came_in(fresh, tmp_path):
    x, y = samples("ann", 1, 6)
    bodies = [
        ("application/json", rows("ann", 1, 6)),
        ("application/x-npz", npz(x=x, y=y)),
        ("application/vnd.safetensors", safetensors(x=x, y=y)),
    ]
    for user, (kind, body) in zip(("u1", "u2", "u3"), bodies, strict=True):
        answer = fresh.post(f"/v1/users/{user}/samples", "ingest", body, Content_Type=kind)
        assert answer.status_code == 201, answer.text
        assert answer.json()["state"] == "staged"
    assert fresh.get("/v1/status").json()["staged"]["samples"] == 18
    closed = fresh.post("/v1/rounds")
    assert closed.status_code == 202
    assert (closed.json()["round"], closed.json()["samples"], closed.json()["users"]) == (1, 18, 3)
    fresh.settled()
    assert fresh.get("/v1/rounds/1").json()["state"] == "trained"
    with opened(tmp_path / "other", learner=bayes()) as other:
        other.learn(dict.fromkeys(("u1", "u2", "u3"), (x, y)))
        heads = {shard: head.identity for shard, head in other.heads().items()}
    assert {shard: head.identity for shard, head in fresh.service.device.heads().items()} == heads


def test_a_picture_is_a_sample_too(tmp_path):
    from PIL import Image

    from cause.learners.torch import TorchLearner

    learner = TorchLearner("cnn", classes=CLASSES, shape=(1, 8, 8), epochs=1)
    opened(tmp_path / "home", learner=learner, slots=None, memory="1MB").close()
    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, "PNG")
    with Running(tmp_path / "home") as running:
        done = running.post("/v1/users/ann/samples?label=2", body=buffer.getvalue(), Content_Type="image/png")
        assert done.status_code == 201, done.text
        assert (
            running.post("/v1/users/ann/samples", body=buffer.getvalue(), Content_Type="image/png").status_code == 422
        )
        running.post("/v1/rounds")
        running.settled()
        found = running.post("/v1/predictions", body=buffer.getvalue(), Content_Type="image/png")
        assert found.json()["labels"] == [2]


def test_predictions_are_those_of_the_device(fresh):
    fresh.learn(ann=30, bob=30, cyd=20)
    x = inputs(20)
    answer = fresh.post("/v1/predictions?probabilities=true", "predict", {"inputs": x}).json()
    assert answer["labels"] == fresh.service.device.predict(np.array(x, dtype=np.float32)).tolist()
    assert np.allclose(np.sum(answer["probabilities"], axis=1), 1)
    assert answer["voters"] == 2
    single = [fresh.post("/v1/predictions", body={"inputs": [row]}).json()["labels"][0] for row in x[:3]]
    assert single == answer["labels"][:3]


def test_many_predictions_at_once_are_each_answered_with_their_own(fresh):
    fresh.learn(ann=40, bob=40)
    x = np.array(inputs(60), dtype=np.float32)
    expected = fresh.service.device.predict(x).tolist()
    found: dict[int, list[int]] = {}

    def ask(number):
        with Client(str(fresh.http.base_url), fresh.secrets["predict"]) as client:
            for at in range(number, 60, 6):
                found[at] = client.predict(x[at : at + 1]).labels

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[at][0] for at in range(60)] == expected


def test_before_anything_is_learned_nobody_votes(fresh):
    answer = fresh.post("/v1/predictions", body={"inputs": inputs()})
    assert answer.status_code == 409
    assert "no shard can vote" in answer.json()["detail"]


def test_a_head_that_saw_the_forgotten_answers_no_more(tmp_path):
    with opened(tmp_path / "home") as device:
        device.learn({user: samples(user, 1, 30) for user in ("ann", "bob", "cyd")})
        heads, x = PredictorCache(device), np.array(inputs(5), dtype=np.float32)
        before = {voter.sub_model.identity for voter in heads.predict(x).voters}
        device.serve([Request("ann")], **ERASE)
        after = {voter.sub_model.identity for voter in heads.predict(x).voters}
        assert after < before
        assert {identity for _, identity in heads._predictors} == after, "decoded weights that saw ann are still held"


def test_a_prediction_under_way_when_its_head_goes_is_made_anew(tmp_path, monkeypatch):
    with opened(tmp_path / "home") as device:
        device.learn({user: samples(user, 1, 30) for user in ("ann", "bob", "cyd")})
        heads, x = PredictorCache(device), np.array(inputs(5), dtype=np.float32)
        device_heads = device.heads()
        predictor, calls = device.learner.predictor, []

        def forgetful(state):
            ready = predictor(state)

            def predict(x):
                calls.append(1)
                if len(calls) == 1:
                    device.serve([Request("ann")], **ERASE)
                return ready(x)

            return predict

        monkeypatch.setattr(device.learner, "predictor", forgetful)
        answer = heads.predict(x)
        shard = next(s for s in device_heads if s not in device.heads())
        assert shard not in {voter.sub_model.key.shard for voter in answer.voters}
        assert len(calls) > len(answer.voters)


def test_an_erasure_takes_what_is_staged_and_what_is_learned(fresh):
    fresh.learn(ann=10, bob=10)
    fresh.post("/v1/users/ann/samples", body=rows("ann", 2, 7))
    held = fresh.get("/v1/users/ann", "ann").json()
    assert (held["samples"], held["staged"]) == (10, {"uploads": 1, "samples": 7})
    assert fresh.post("/v1/users/ann/erasures/plan", "ann", {}).json() == {"samples": 10, "staged": 7}
    plan = fresh.post("/v1/users/ann/erasures/plan", body={}).json()
    assert (plan["samples"], plan["staged"], len(plan["shards"])) == (10, 7, 1)
    answer = fresh.post("/v1/users/ann/erasures", "ann", {}).json()
    assert (answer["samples"], answer["staged"], answer["state"]) == (17, 7, "in_effect")
    held = fresh.get("/v1/users/ann", "ann").json()
    assert (held["samples"], held["rounds"], held["staged"]["samples"]) == (0, [], 0)
    fresh.settled()
    wait_until(lambda: fresh.get(f"/v1/requests/{answer['id']}", "ann").json()["state"] == "repaired")
    fresh.post("/v1/rounds", body={"empty": True})
    assert fresh.get("/v1/rounds/2").json()["state"] == "empty"


def test_an_erasures_receipts_commit_to_the_clients_nonce(fresh):
    fresh.learn(ann=6)
    with Client(str(fresh.http.base_url), fresh.secrets["operator"]) as client:
        ann = client.erase("ann", rounds=[1], count=2, nonce="drawn by ann", key="k")
        assert client.erase("ann", rounds=[1], count=2, nonce="drawn by ann", key="k").id == ann.id
        with pytest.raises(ServiceError, match="another request before"):
            client.erase("ann", rounds=[1], count=2, nonce="drawn by bob", key="k")
    (answer, *_) = fresh.get(f"/v1/requests/{ann.id}/receipts").json()["receipts"]
    bundle, verifier = Bundle.parse(answer), fresh.service.home.receipts.verifier
    assert bundle.check(verifier, "drawn by ann")["nonce_sha256"] == nonce_digest("drawn by ann")
    with pytest.raises(LogError, match="does not answer the request"):
        bundle.check(verifier, "drawn by bob")
    for nonce in ("", "x" * 129, 7, ["x"]):
        assert fresh.post("/v1/users/ann/erasures", body={"nonce": nonce}).status_code == 422


@pytest.mark.parametrize(
    ("body", "left"), [({"rounds": [1]}, 4), ({"rounds": [1], "count": 2}, 8), ({"samples": [[1, 0], [2, 1]]}, 8)]
)
def test_rounds_and_samples_can_be_erased_alone(fresh, body, left):
    fresh.learn(ann=6)
    fresh.learn(ann=4)
    assert fresh.post("/v1/users/ann/erasures", "ann", body).status_code == 202
    assert fresh.get("/v1/users/ann", "ann").json()["samples"] == left


def test_the_same_key_leads_to_the_same_thing_also_after_a_restart(tmp_path):
    with Running(tmp_path / "home") as running:
        secret = running.secrets["operator"]
        first = running.post("/v1/users/ann/samples", body=rows("ann", 1, 5), Idempotency_Key="a")
        again = running.post("/v1/users/ann/samples", body=rows("ann", 1, 5), Idempotency_Key="a")
        assert first.json() == again.json()
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        other = running.post("/v1/users/ann/samples", body=rows("ann", 1, 6), Idempotency_Key="a")
        assert other.status_code == 422
        round_ = running.post("/v1/rounds", Idempotency_Key="b").json()["round"]
        assert running.post("/v1/rounds", Idempotency_Key="b").json()["round"] == round_ == 1
        learned = running.post("/v1/users/ann/samples", body=rows("ann", 1, 5), Idempotency_Key="a").json()
        assert (learned["state"], learned["round"]) == ("learned", 1)
        erased = running.post("/v1/users/ann/erasures", body={}, Idempotency_Key="c").json()
    with Running(tmp_path / "home") as running:
        running.secrets["operator"] = secret
        late = running.post("/v1/users/ann/samples", body=rows("ann", 1, 5), Idempotency_Key="a").json()
        assert late["id"] == first.json()["id"]
        assert running.post("/v1/users/ann/erasures", body={}, Idempotency_Key="c").json()["id"] == erased["id"]
        assert running.post("/v1/rounds", Idempotency_Key="b").json()["round"] == 1
        status = running.get("/v1/status").json()
        assert (status["round"], status["samples"], status["staged"]["samples"]) == (1, 0, 0)
        assert len(running.get("/v1/requests").json()["items"]) == 1


def test_a_key_is_of_one_token_and_one_kind_of_call(fresh):
    uploads = [
        fresh.post("/v1/users/ann/samples", who, rows("ann", 1, 5), Idempotency_Key="k") for who in ("operator", "ann")
    ]
    assert [(each.status_code, each.headers.get("idempotent-replayed")) for each in uploads] == [(201, None)] * 2
    assert uploads[0].json()["id"] != uploads[1].json()["id"]
    closed = fresh.post("/v1/rounds", Idempotency_Key="k")
    assert (closed.status_code, closed.json()["samples"]) == (202, 10)
    erased = fresh.post("/v1/users/ann/erasures", body={}, Idempotency_Key="k")
    assert (erased.status_code, erased.json()["samples"]) == (202, 10)


def test_lists_come_in_pages_newest_first(fresh):
    for _ in range(5):
        fresh.post("/v1/users/nobody/erasures", body={})
        fresh.post("/v1/rounds", body={"empty": True})
    seen, before = [], ""
    while True:
        page = fresh.get(f"/v1/requests?limit=2{before}").json()
        seen += [item["received"] for item in page["items"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 5
    rounds = fresh.get("/v1/rounds?limit=3").json()
    assert ([item["round"] for item in rounds["items"]], rounds["next"]) == ([5, 4, 3], 3)
    assert [item["round"] for item in fresh.get("/v1/rounds?before=3").json()["items"]] == [2, 1]
    numbers = [item["number"] for item in fresh.get("/v1/receipts?limit=2").json()["items"]]
    assert numbers[0] == numbers[1] + 1
    assert numbers[0] >= 4


def test_what_a_client_has_already_is_not_sent_again(fresh):
    first = fresh.get("/v1/shards")
    again = fresh.get("/v1/shards", **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    fresh.learn(ann=3)
    assert fresh.get("/v1/shards", **{"If-None-Match": first.headers["etag"]}).status_code == 200


def test_after_a_restart_a_key_that_comes_with_another_erasure_does_not_pass_for_the_first(tmp_path):
    with Running(tmp_path / "home") as running:
        running.learn(ann=9, bob=9)
        secret = running.secrets["operator"]
        first = running.post("/v1/users/ann/erasures", body={}, idempotency_key="k").json()
    with Running(tmp_path / "home") as again:
        again.secrets["operator"] = secret
        answer = again.post("/v1/users/ann/erasures", body={}, idempotency_key="k")
        assert (answer.json()["id"], answer.headers["idempotent-replayed"]) == (first["id"], "true")
        assert again.post("/v1/users/bob/erasures", body={}, idempotency_key="k").status_code == 422
    with Running(tmp_path / "home") as once_more:
        once_more.secrets["operator"] = secret
        answer = once_more.post("/v1/users/bob/erasures", body={}, idempotency_key="k").json()
        assert answer["samples"] == 9
        assert once_more.get("/v1/users/bob").json()["samples"] == 0


def test_no_digest_of_an_upload_outlives_an_erasure_in_memory(fresh):
    fresh.post("/v1/users/ann/samples", body=rows("ann", 1, 3), idempotency_key="k")
    assert fresh.post("/v1/users/ann/samples", body=rows("ann", 2, 3), idempotency_key="k").status_code == 422
    assert fresh.post("/v1/users/ann/erasures", body={}).status_code == 202
    digests = [seen for kind in fresh.service._bodies.values() for _, seen in kind.values()]
    assert digests == []


def test_the_log_of_a_restored_home_can_be_listed(fresh, tmp_path):
    home = fresh.service.home
    with home.database.transaction():
        append_restored_entries(
            home.database, home.vault, tmp_path / "none", made=1.0, now=2.0, about={"round": 0, "samples": 3}
        )
    (item,) = fresh.get("/v1/receipts").json()["items"]
    assert (item["kind"], item["samples"], item["shards"]) == ("restore", 3, [])


def test_receipts_can_be_checked_away_from_the_device(fresh):
    fresh.learn(ann=5, bob=5)
    log = fresh.get("/v1/log").json()
    asked = fresh.post("/v1/users/ann/erasures", "ann", {}).json()
    (bundle, *_) = fresh.get(f"/v1/requests/{asked['id']}/receipts", "ann").json()["receipts"]
    body = Bundle.parse(bundle).check(VerifierKey.parse(log["verifier"]))
    assert (body["request"], body["samples"]) == (asked["id"], 5)
    now = fresh.get("/v1/log", "ann").json()
    proof = fresh.get(f"/v1/log/consistency?since={log['size']}").json()
    assert proof["size"] >= now["size"] > log["size"] == 0
    assert fresh.get("/v1/log/consistency?since=99").status_code == 409
    assert verify_consistency is not None
    assert fresh.get("/v1/receipts/0", "auditor").json()["number"] == 0
    assert fresh.get("/v1/receipts/99", "auditor").status_code == 404


def test_an_auditor_lets_the_device_replay(fresh):
    fresh.learn(ann=5, bob=5)
    fresh.post("/v1/users/ann/erasures", "ann", {})
    fresh.settled()
    with Client(str(fresh.http.base_url), fresh.secrets["auditor"]) as client:
        assert client.verify().state == "holds"
        found = client.verify(0)
        assert (found.state, found.receipt, found.mismatched) == ("nothing", 0, 0), "nothing is left in ann's shard"
        with pytest.raises(ServiceError) as refused:
            client.verify(99)
        assert refused.value.status == 404


def test_an_id_that_does_not_exist_is_repeated_in_the_refusal(fresh):
    id_ = "0" * 32
    for path in (f"requests/{id_}", f"requests/{id_}/receipts"):
        assert fresh.get(f"/v1/{path}").json()["detail"] == f"there is no request {id_!r}"
    assert fresh.get(f"/v1/verifications/{id_}").json()["detail"].startswith(f"there is no verification {id_!r}")
    revoked = fresh.post(f"/v1/tokens/{id_[:16]}/revocation", "admin")
    assert revoked.json()["detail"] == f"there is no token {id_[:16]!r}"


def test_evaluations_are_remembered(fresh):
    fresh.learn(ann=40)
    made = fresh.post("/v1/evaluations", body=rows("ann", 1, 40)).json()
    assert (made["samples"], made["round"]) == (40, 1)
    assert made["accuracy"] == fresh.get("/v1/evaluations", "auditor").json()["items"][0]["accuracy"]
    assert sum(each["samples"] for each in made["classes"]) == 40


def baselines(running) -> dict:
    """What other systems would have retrained, once it is computed."""

    def computed() -> dict | None:
        answer = running.get("/v1/baselines").json()
        return None if answer["state"] == "computing" else answer

    return wait_until(computed, 60)


def test_the_history_tells_what_other_systems_would_have_retrained(fresh):
    fresh.learn(ann=20, bob=20)
    fresh.learn(ann=20)
    fresh.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 2})
    fresh.settled()
    answer = baselines(fresh)
    assert answer["state"] == "ready", answer
    assert answer["rsn"] == fresh.get("/v1/status").json()["rsn"]["total"] == 38
    systems = {each["system"]: each for each in answer["systems"]}
    assert systems["sisa"]["rsn"] > 0
    assert systems["arcane"]["unknown"]
    assert (answer["joules"], systems["sisa"]["joules"]) == (None, None)
    assert answer["energy_unknown"] == "no calibration was given"
    assert len(fresh.get("/v1/trace").text.splitlines()) == 4


def test_with_a_calibration_baselines_are_in_joules_too(tmp_path):
    lines = Line(0.02, 0.5, 0.99, 0.001), Line(0.002, 0.0, 0.99, 0.0001)
    write_text(tmp_path / "calibration.json", json.dumps(EnergyModel("bayes", "RAPL", *lines).as_dict()))
    with Running(tmp_path / "home", calibration=str(tmp_path / "calibration.json")) as running:
        running.learn(ann=20, bob=20)
        running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 2})
        running.settled()
        answer = baselines(running)
    assert answer["rsn"] > 0
    assert answer["energy_unknown"] is None
    for each in (answer, *(system for system in answer["systems"] if system["rsn"] is not None)):
        assert each["joules"] == pytest.approx(0.02 * each["rsn"])
        assert each["seconds"] == pytest.approx(0.002 * each["rsn"])


def test_events_tell_of_rounds_segments_and_forgetting(fresh):
    heard: list[tuple[str, dict]] = []
    ended = threading.Event()

    def listen():
        with Client(str(fresh.http.base_url), fresh.secrets["auditor"]) as client:
            for event in client.events():
                heard.append((event.kind, event.data))
                if event.kind == "request.repaired":
                    break
        ended.set()

    thread = threading.Thread(target=listen)
    thread.start()
    wait_until(lambda: heard)
    fresh.learn(ann=10, bob=10)
    fresh.learn(ann=10)
    fresh.post("/v1/users/ann/erasures", body={"rounds": [2], "count": 2})
    assert ended.wait(20)
    thread.join()
    kinds = [kind for kind, _ in heard]
    wanted = ["hello", "upload.staged", "round.closed", "training.started", "segment.epoch", "segment.trained"]
    wanted += ["sub_model.admitted", "training.finished", "forget.effective", "sub_model.dropped", "request.repaired"]
    assert set(wanted) == set(kinds)
    assert kinds.index("round.closed") < kinds.index("segment.trained") < kinds.index("forget.effective")
    assert '"ann"' not in json.dumps(heard)
    with Client(str(fresh.http.base_url), fresh.secrets["auditor"]) as client:
        first = fresh.service.events._kept[0].id
        missed = client.events(after=first + 1)
        assert [next(missed).id for _ in range(3)] == [None, first + 2, first + 3]
        missed.close()  # type: ignore[attr-defined]


def test_metrics_name_nobody_and_health_says_when_it_is_not_ready(fresh):
    fresh.learn(ann=5)
    text = fresh.get("/metrics", "auditor").text
    assert "cause_round 1.0\n" in text
    assert 'cause_requests_total{method="POST",route="/v1/rounds",status="202"} 1.0' in text
    assert "ann" not in text
    assert fresh.http.get("/healthz").json() == {"status": "ok"}
    assert fresh.http.get("/readyz").json() == {"status": "ready"}
    fresh.service.ready = False
    assert fresh.http.get("/readyz").status_code == 503


def test_rounds_close_on_a_schedule(tmp_path):
    with Running(tmp_path / "home", close_samples=8, close_every="1s") as running:
        running.post("/v1/users/ann/samples", body=rows("ann", 1, 8))
        for round_ in (1, 2):
            running.closed(round_)
            running.post("/v1/users/bob/samples", body=rows("bob", round_, 3))


def test_a_round_that_was_closed_is_said_to_be_also_when_the_expiry_after_it_fails(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("cause.service.trainer.RETRY_S", 0.05)
    opened(tmp_path / "home", retain="1 rounds").close()
    with Running(tmp_path / "home") as running:
        running.learn(alice=9)
        expired, failing = running.service.home.expired, [True]

        def broken():
            if failing[0]:
                raise HomeError("the disk is gone")
            return expired()

        monkeypatch.setattr(running.service.home, "expired", broken)
        running.post("/v1/users/bob/samples", body=rows("bob", 2, 9))
        answer = running.post("/v1/rounds", Idempotency_Key="k")
        assert (answer.status_code, answer.json()["round"]) == (202, 2)
        assert "expiry failed: the home cannot be used (HomeError)" in caplog.messages
        assert running.post("/v1/rounds", Idempotency_Key="k").json()["round"] == 2
        wait_until(lambda: running.get("/v1/status").json()["problem"] == "the disk is gone")
        assert running.service.device.ledger.rounds_of("alice") == [1]
        failing[0] = False
        wait_until(lambda: running.service.device.ledger.rounds_of("alice") == [])
        running.settled()
        wait_until(lambda: running.get("/v1/status").json()["problem"] is None)


def test_what_waits_for_repair_waits_until_it_is_asked_for(tmp_path):
    with Running(tmp_path / "home", repair="never") as running:
        running.learn(ann=10, bob=10)
        running.learn(ann=10, bob=10)
        work, looks = running.service.trainer._work, []
        running.service.trainer._work = lambda: (looks.append(1), work())[1]
        running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 3})
        running.service.trainer.wake()
        wait_until(lambda: len(looks) >= 2)
        status = running.get("/v1/status").json()
        assert len(status["repair"]["waiting"]) == 1
        assert status["requests"]["open"] == 1
        assert running.post("/v1/repairs").json()["state"] == "started"
        running.settled()
        assert running.post("/v1/repairs").json()["state"] == "nothing waits"


def test_stopping_in_the_middle_of_a_training_loses_nothing(tmp_path):
    from cause.learners.torch import TorchLearner

    learner = TorchLearner("mlp", classes=CLASSES, shape=(FEATURES,), epochs=3000, options=(("width", 8),))
    settings = {"slots": None, "memory": "1MB", "system": "recommended"}  # it does not prune what fits
    opened(tmp_path / "home", learner=learner, **settings).close()
    with Running(tmp_path / "home", grace="1s") as running:
        for user in ("ann", "bob"):
            running.post(f"/v1/users/{user}/samples", body=rows(user, 1, 60))
        running.post("/v1/rounds")
        wait_until(lambda: running.service.trainer.progress is not None, 30)
        start = time.perf_counter()
        answer = running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 5})
        assert answer.json()["state"] == "in_effect"
        assert time.perf_counter() - start < 2
    with opened(tmp_path / "home", learner=learner, **settings) as device:
        assert device.ledger.round == 1
        assert sum(device.ledger.lineage(shard).samples for shard in device.ledger.shards()) == 115


def test_a_device_behind_the_service_is_the_engines_own(fresh):
    """The service holds the home: nobody else may write to it."""
    with pytest.raises(Exception, match="in use by process"):
        Cause(fresh.folder)
    assert httpx.get(f"{fresh.http.base_url}/", trust_env=False).status_code == 200


def test_an_erasure_whose_keys_could_not_be_destroyed_is_not_said_to_be_in_effect(fresh, monkeypatch):
    fresh.learn(ann=6, bob=6)
    erase, failing = fresh.service.home.vault.erase, [True]

    def broken(names):
        if failing[0]:
            raise VaultError("the disk is gone")
        erase(names)

    monkeypatch.setattr(fresh.service.home.vault, "erase", broken)
    asked = {"Idempotency_Key": "once"}
    for _ in range(2):
        accepted = fresh.post("/v1/users/ann/erasures", body={}, **asked)
        assert (accepted.status_code, accepted.json()["state"], accepted.json()["effective"]) == (202, "accepted", None)
    for state, count in (("accepted", 1), ("in_effect", 0)):
        assert len(fresh.get(f"/v1/requests?state={state}").json()["items"]) == count
    assert not fresh.get("/v1/receipts").json()["items"]
    failing[0] = False
    answer = fresh.post("/v1/users/bob/erasures", body={"rounds": [1], "count": 1})
    assert (answer.status_code, answer.json()["state"]) == (202, "in_effect")
    again = fresh.post("/v1/users/ann/erasures", body={}, **asked)
    assert again.json()["state"] in ("in_effect", "repaired")
    assert again.json()["receipts"]
    assert not fresh.service.home.garbage
