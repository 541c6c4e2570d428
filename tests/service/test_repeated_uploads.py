"""A repeated upload never says that samples are held which were forgotten, and never brings them back."""

import io

import numpy as np
import pytest

from cause.device.store.tables.staged import PART
from tests.device.homes import samples
from tests.service.services import Running, rows

NPZ = "application/x-npz"


@pytest.fixture
def fresh(tmp_path):
    with Running(tmp_path / "home") as running:
        yield running


def upload(running, user: str, key: str, count: int = 6, who: str = "operator"):
    return running.post(f"/v1/users/{user}/samples", who, rows(user, 1, count), Idempotency_Key=key)


def repeated(running, user: str, key: str, count: int = 6) -> tuple:
    answer = upload(running, user, key, count)
    assert (answer.status_code, answer.headers.get("idempotent-replayed")) == (201, "true")
    body = answer.json()
    return body["state"], body["samples"], body["round"]


def held(running, user: str) -> int:
    shown = running.get(f"/v1/users/{user}").json()
    return shown["samples"] + shown["staged"]["samples"]


@pytest.mark.parametrize("everything", [True, False])
def test_an_upload_that_was_learned_and_forgotten_since_is_erased(fresh, everything):
    handles = upload(fresh, "ann", "a").json()["handles"]
    upload(fresh, "bob", "b")
    fresh.post("/v1/rounds", Idempotency_Key="r")
    assert repeated(fresh, "ann", "a") == ("learned", 6, 1)
    fresh.post("/v1/users/ann/erasures", body={} if everything else {"handles": handles[:1]})
    assert repeated(fresh, "ann", "a") == ("erased", 0, None)
    assert held(fresh, "ann") == (0 if everything else 5)
    assert repeated(fresh, "bob", "b") == ("learned", 6, 1), "another user's upload is as it was"
    assert fresh.post("/v1/rounds", Idempotency_Key="r").json()["round"] == 1


def test_an_upload_of_which_staged_rows_were_forgotten_says_how_many_wait(fresh):
    handles = upload(fresh, "ann", "a").json()["handles"]
    fresh.post("/v1/users/ann/erasures", body={"handles": handles[:1]})
    assert repeated(fresh, "ann", "a") == ("staged", 5, None)
    fresh.post("/v1/rounds")
    assert repeated(fresh, "ann", "a") == ("learned", 5, 1)
    fresh.post("/v1/users/ann/erasures", body={})
    assert repeated(fresh, "ann", "a") == ("erased", 0, None)


def test_the_parts_of_a_bulk_upload_are_erased_one_by_one(fresh):
    x, y = samples("ann", 1, 6)
    body = io.BytesIO()
    np.savez(body, x=x, y=y, users=np.array(["ann", "bob"] * 3))

    def parts() -> dict:
        answer = fresh.post("/v1/samples", body=body.getvalue(), Content_Type=NPZ, Idempotency_Key="k").json()
        return {part["user"]: (part["state"], part["samples"], part["round"]) for part in answer["uploads"]}

    parts()
    fresh.post("/v1/rounds")
    assert parts() == {"ann": ("learned", 3, 1), "bob": ("learned", 3, 1)}
    fresh.post("/v1/users/ann/erasures", body={})
    assert parts() == {"ann": ("erased", 0, None), "bob": ("learned", 3, 1)}
    assert (held(fresh, "ann"), held(fresh, "bob")) == (0, 3)


def test_a_repeated_key_confirms_no_guess_of_what_was_forgotten(fresh):
    upload(fresh, "ann", "a")
    fresh.post("/v1/rounds")
    fresh.post("/v1/users/ann/erasures", body={})
    answers = [upload(fresh, user, "a", count) for user, count in (("ann", 6), ("ann", 5), ("bob", 6), ("ann", 6))]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert (held(fresh, "ann"), held(fresh, "bob")) == (0, 0)


def test_calls_of_a_round_that_an_earlier_version_closed_are_erased_together(fresh):
    upload(fresh, "ann", "a")
    upload(fresh, "bob", "b")
    fresh.post("/v1/rounds", Idempotency_Key="r")
    upload(fresh, "cyd", "c")
    fresh.post("/v1/rounds")
    database = fresh.service.home.database
    with database.transaction():  # as earlier versions left the table
        database.run(f"DELETE FROM calls WHERE id LIKE '{PART}%'")
    fresh.post("/v1/users/ann/erasures", body={})
    assert repeated(fresh, "ann", "a")[0] == repeated(fresh, "bob", "b")[0] == "erased"
    assert repeated(fresh, "cyd", "c") == ("learned", 6, 2)
    assert fresh.post("/v1/rounds", Idempotency_Key="r").json()["round"] == 1
