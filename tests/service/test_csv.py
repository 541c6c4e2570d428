"""Samples as CSV: uploads of one user and of several, evaluations, predictions, matching; and what is refused."""

import pytest

from tests.device.homes import FEATURES, samples

CSV = {"content_type": "text/csv"}
NAMES = [f"x{at}" for at in range(FEATURES)]


def table(user: str, count: int, *, label: bool = True, named: bool = False) -> bytes:
    x, y = samples(user, 1, count)
    lines = [",".join(["user"] * named + NAMES[:1] + ["label"] * label + NAMES[1:])]
    for row, value in zip(x.tolist(), y.tolist(), strict=True):
        lines.append(",".join(map(str, [user] * named + row[:1] + [value] * label + row[1:])))
    return ("\ufeff" + "\r\n".join(lines) + "\r\n").encode()


def test_a_table_is_the_same_samples_as_json(running):
    assert running.post("/v1/users/ann/samples", body=table("ann", 6), **CSV).json()["samples"] == 6
    x, y = samples("ann", 1, 6)
    rows = [{"x": row, "y": label} for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    matched = running.post("/v1/users/ann/samples/matching", body={"samples": rows}).json()
    assert (len(matched["handles"]), matched["unmatched"]) == (6, 0)
    again = running.post("/v1/users/ann/samples/matching", body=table("ann", 6), **CSV).json()
    assert sorted(again["handles"]) == sorted(matched["handles"])
    running.post("/v1/rounds")
    running.settled()
    assert running.post("/v1/evaluations", body=table("test", 9), **CSV).json()["samples"] == 9
    answer = running.post("/v1/predictions", body=table("test", 9, label=False), **CSV)
    assert len(answer.json()["labels"]) == 9


def test_a_table_of_several_users_gives_each_theirs(running):
    both = table("ann", 3, named=True) + b"".join(table("bob", 2, named=True).splitlines(keepends=True)[1:])
    answer = running.post("/v1/samples", body=both, **CSV)
    assert {each["user"]: each["samples"] for each in answer.json()["uploads"]} == {"ann": 3, "bob": 2}
    assert len(answer.json()["handles"]) == 5


GOOD = ",".join([*NAMES, "label"])
ROW = ",".join(["1"] * FEATURES)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("users/ann/samples", table("ann", 2, named=True), "says itself whose"),
        ("samples", table("ann", 2), "column 'user'"),
        ("users/ann/samples", table("ann", 2, label=False), "one is 'label'"),
        ("predictions", table("ann", 2), "leave out the column 'label'"),
        ("users/ann/samples", f"User,{GOOD[3:]}\n{ROW},0\n".encode(), "is it the column 'user'"),
        ("users/ann/samples/matching", f"LABEL,{GOOD[3:-6]}\n{ROW}\n".encode(), "is it the column 'label'"),
        ("users/ann/samples", b"", "one is 'label'"),
        ("users/ann/samples", b"label\n0\n", "no column of values: the first line names 'label' alone"),
        ("samples", b"user,label\nann,0\n", "no column of values: the first line names 'user' and 'label' alone"),
        ("predictions", b"", "no column of values: the first line is empty"),
        ("users/ann/samples", f"{GOOD}\n".encode(), "no rows"),
        ("users/ann/samples", f"{GOOD}\n{ROW}\n".encode(), "line 2"),
        ("users/ann/samples", f"{GOOD}\n{ROW},0\n{ROW},zero\n".encode(), "line 3"),
        ("users/ann/samples", f"{GOOD}\n{ROW},-1\n".encode(), "whole number"),
        ("users/ann/samples", f"{GOOD}\n{ROW.replace('1', 'nan', 1)},0\n".encode(), "finite"),
        ("users/ann/samples", f"{GOOD}\n{ROW.replace('1', 'x', 1)},0\n".encode(), "a number"),
        ("users/ann/samples", f"{GOOD}\n{ROW.replace('1', '1_0', 1)},0\n".encode(), "a number"),
        ("users/ann/samples", f"{GOOD}\n{ROW},0_1\n".encode(), "whole number"),
        ("users/ann/samples", f"{GOOD}\n{ROW},999\n".encode(), "classes"),
        ("users/ann/samples", b"label,label\n0,0\n", "twice"),
        ("users/ann/samples", b"label,x\n0,1\n", "values, not"),
        ("users/ann/samples", b"\xff\xfe", "UTF-8"),
        ("users/ann/samples", f'{GOOD}\n"{ROW},0\n'.encode(), "not a table"),
    ],
)
def test_what_is_no_such_table_is_refused_with_its_line(running, path, body, why):
    before = running.state()
    refused = running.post(f"/v1/{path}", body=body, **CSV)
    assert refused.status_code == 422, refused.text
    assert why in refused.json()["detail"]
    assert running.state() == before


def test_a_table_that_would_take_too_much_memory_is_refused(running, monkeypatch):
    monkeypatch.setattr(running.service.reader, "_most_bytes", 1000)
    assert running.post("/v1/users/ann/samples", body=table("ann", 50), **CSV).status_code == 413
