"""One user's token cannot fill the device: quotas of samples and bytes, and what they do not tell."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from cause.errors import InputError
from cause.service.settings import ServeSettings
from tests.device.homes import opened
from tests.service.services import Running, rows

FULL, QUOTA = "urn:cause:problem:storage-full", "urn:cause:problem:quota-exceeded"


def fill(device, user, who, pieces=200, count=40):
    """Upload until it is refused; the last answer."""
    for round_ in range(pieces):
        answer = device.post(f"/v1/users/{user}/samples", who, rows(user, round_, count))
        if answer.status_code != 201:
            return answer
    raise AssertionError("it was never refused")


def home(folder, **more):
    opened(folder, **more).close()
    return folder


def test_one_user_cannot_lock_the_others_out(tmp_path):
    with Running(home(tmp_path / "home", storage="64KB")) as device:
        refused = fill(device, "greedy", "greedy")
        assert (refused.status_code, refused.json()["type"]) == (409, QUOTA)
        held = device.get("/v1/users/greedy", "greedy").json()
        assert held["bytes"] <= held["quota"]["bytes"] == 16384
        for user in ("bob", "carol"):
            assert device.post(f"/v1/users/{user}/samples", user, rows(user, 1, 20)).status_code == 201


def test_the_quota_counts_staged_and_learned_samples_and_what_was_forgotten_no_longer(tmp_path):
    with Running(tmp_path / "home", user_samples=30) as device:
        path = "/v1/users/alice/samples"
        assert device.post(path, "alice", rows("alice", 1, 20)).status_code == 201
        device.post("/v1/rounds")
        device.settled()
        refused = device.post(path, "alice", rows("alice", 2, 11))
        assert refused.json()["type"] == QUOTA
        assert "your 20" in refused.json()["detail"]
        assert device.post(path, "alice", rows("alice", 2, 10)).status_code == 201
        assert device.post(path, "alice", rows("alice", 3, 1)).status_code == 409
        device.post("/v1/users/alice/erasures", "alice", body={"rounds": [1], "count": 5})
        assert device.post(path, "alice", rows("alice", 3, 5)).status_code == 201


def test_uploads_at_once_do_not_exceed_the_quota_together(tmp_path):
    with Running(tmp_path / "home", user_samples=50, unpackings=8) as device:
        device.headers("alice")
        with ThreadPoolExecutor(8) as pool:
            path = "/v1/users/alice/samples"
            sent = pool.map(lambda at: device.post(path, "alice", rows("alice", at, 10)).status_code, range(16))
        assert sorted(sent) == [201] * 5 + [409] * 11


def test_a_repeated_upload_is_answered_although_the_quota_is_used_up(tmp_path):
    with Running(tmp_path / "home", user_samples=10) as device:
        for expected in (None, "true"):
            answer = device.post("/v1/users/alice/samples", "alice", rows("alice", 1, 10), Idempotency_Key="k")
            assert (answer.status_code, answer.headers.get("Idempotent-Replayed")) == (201, expected)


def test_quotas_do_not_bind_tokens_that_may_not_know_of_them_or_set_them(tmp_path):
    with Running(tmp_path / "home", user_samples=10) as device:
        for who in ("ingest", "operator"):
            assert device.post("/v1/users/alice/samples", who, rows("alice", 1, 20)).status_code == 201


def test_a_full_device_does_not_tell_a_user_how_much_others_hold(tmp_path):
    with Running(home(tmp_path / "home", storage="64KB"), user_storage="1GB") as device:
        details = []
        for bob in (20, 60):
            assert device.post("/v1/users/bob/samples", body=rows("bob", bob, bob)).status_code == 201
            refused = fill(device, "alice", "alice")
            assert refused.json()["type"] == FULL
            details.append(refused.json()["detail"])
            device.post("/v1/users/alice/erasures", "alice", body={})
        assert details[0] == details[1]
        assert "KB" in fill(device, "alice", "operator").json()["detail"]


@pytest.mark.parametrize("share", ["0%", "101%", "some%", "-1%", "nonsense"])
def test_a_quota_that_is_none_is_refused(share):
    with pytest.raises(InputError):
        ServeSettings(user_storage=share)
    with pytest.raises(InputError):
        ServeSettings(user_samples=0)
