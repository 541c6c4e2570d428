"""Forgetting by handles and by contents with the commands: exactly the named samples are deleted."""

import csv
import json
from pathlib import Path

import numpy as np

from cause.device.device import Cause
from cause.errors import LearnerError
from tests.cli.test_device import cause, device, place, refused, upload  # noqa: F401
from tests.device.homes import samples


def held(user, home="home"):
    """Inputs by handle."""
    samples = {}
    with Cause(home, read_only=True) as opened:
        for t in opened.ledger.rounds_of(user):
            own = opened.home.ledger.upload(user, t)
            handles = [handle.tobytes().hex() for handle in own.handles(own.positions)]
            samples |= zip(handles, own.arrays(own.positions)[0].tolist(), strict=True)
    return samples


def test_learning_answers_with_a_handle_for_each_row_in_the_order_of_the_files(cause, device):  # noqa: F811
    mixed = upload("mixed.npz", 3, alice=4, bob=3)
    with np.load(mixed) as arrays:
        order = np.random.default_rng(0).permutation(7)
        np.savez("mixed.npz", **{name: arrays[name][order] for name in arrays.files})
    np.savez("own.npz", x=samples("alice", 9, 5)[0], y=samples("alice", 9, 5)[1], users=["alice"] * 5)
    result = cause("learn", "home", "mixed.npz", "own.npz", "--handles", "out.json", "--json")
    written = json.loads(Path("out.json").read_text())
    assert [each["file"] for each in result["handles"]] == ["mixed.npz", "own.npz"]
    assert [each["handles"] for each in written["files"]] == [each["handles"] for each in result["handles"]]
    everything = held("alice") | held("bob")
    for each in written["files"]:
        with np.load(each["file"]) as arrays:
            assert [everything[handle] for handle in each["handles"]] == arrays["x"].tolist()
            assert each["users"] == arrays["users"].tolist()
    cause("learn", "home", "own.npz", "--handles", "out.csv")
    lines = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [(line["file"], line["row"], line["user"]) for line in lines] == [
        ("own.npz", str(row), "alice") for row in range(5)
    ]
    assert {line["handle"] for line in lines} <= set(held("alice"))


def test_a_file_with_arrays_that_nothing_reads_is_refused_by_every_command(refused, device):  # noqa: F811
    x, y = samples("alice", 3, 4)
    before = held("alice")
    for name, hint in (("Users", "did you mean 'users'?"), ("owners", ""), ("users_train", "did you mean 'users'?")):
        np.savez("odd.npz", x=x, y=y, **{name: np.array(["bob"] * 4)})  # type: ignore[arg-type]
        for command in (
            ("learn", "home", "odd.npz", "--user", "alice"),
            ("forget", "home", "--user", "alice", "--matching", "odd.npz"),
            ("predict", "home", "odd.npz"),
            ("evaluate", "home", "odd.npz"),
        ):
            message = refused(*command)
            assert f"nothing reads its array '{name}'" in message
            assert hint in message
    np.savez("split.npz", x_train=x, y_train=y, users=np.array(["bob"] * 4))
    assert "did you mean 'users_train'?" in refused("learn", "home", "split.npz", "--user", "alice")
    assert held("alice") == before


def test_what_is_held_is_listed_a_page_at_a_time(cause, device):  # noqa: F811
    result = cause("samples", "home", "--user", "alice", "--json")
    assert (result["total"], len(result["samples"])) == (50, 50)
    assert {each["round"] for each in result["samples"]} == {1, 2}
    assert {each["handle"] for each in result["samples"]} == set(held("alice"))
    assert [each["number"] for each in result["samples"]] == list(range(50))
    page = cause("samples", "home", "--user", "alice", "--first", 38, "--most", 4, "--json")["samples"]
    assert page == result["samples"][38:42]
    assert {each["round"] for each in page} == {1, 2}
    second = cause("samples", "home", "--user", "alice", "--round", 2, "--json")
    assert second["total"] == 10
    text = cause("samples", "home", "--user", "alice", "--most", 3)
    assert all(each["handle"] in text for each in result["samples"][-3:])
    assert "3 of 50 samples" in text
    assert cause("samples", "home", "--user", "nobody") == "nothing is held of user 'nobody'\n"


def test_forgetting_by_handle_destroys_that_row_and_no_other(cause, refused, device):  # noqa: F811
    x, y = samples("zoe", 1, 10)
    np.savez("zoe.npz", x=x, y=y)
    rows = cause("learn", "home", "zoe.npz", "--user", "zoe", "--json")["handles"][0]["handles"]
    plan = cause("forget", "home", "--user", "zoe", "--handles", rows[3], "--plan", "--json")
    assert (plan["samples"], plan["unmatched"]) == (1, None)
    assert cause("forget", "home", "--user", "zoe", "--handles", rows[3], "--json")["samples"] == 1
    assert sorted(held("zoe").values()) == sorted(np.delete(x, 3, axis=0).tolist())
    Path("goes.txt").write_text(f"{rows[0]}\n\n{rows[9]}\n")
    assert cause("forget", "home", "--user", "zoe", "--handles", "@goes.txt", "--json")["samples"] == 2
    assert sorted(held("zoe").values()) == sorted(x[[1, 2, 4, 5, 6, 7, 8]].tolist())
    assert "no sample with the handle" in refused("forget", "home", "--user", "zoe", "--handles", rows[3])
    assert "@FILE" in refused("forget", "home", "--user", "zoe", "--handles", " ,")
    assert "cannot read 'none.txt'" in refused("forget", "home", "--user", "zoe", "--handles", "@none.txt")


def test_forgetting_what_a_file_holds(cause, refused, device):  # noqa: F811
    x, y = samples("alice", 1, 40)
    np.savez("some.npz", x=np.concatenate([x[:3], x[:1] + 9]), y=np.append(y[:3], 0))
    plan = cause("forget", "home", "--user", "alice", "--matching", "some.npz", "--plan", "--json")
    assert (plan["samples"], plan["unmatched"]) == (3, 1)
    assert len(held("alice")) == 50
    result = cause("forget", "home", "--user", "alice", "--matching", "some.npz")
    assert "3 samples and" in result
    assert "rows of the file that equal no sample of the user: 1" in result
    assert sorted(held("alice").values()) == sorted([*x[3:].tolist(), *samples("alice", 2, 10)[0].tolist()])
    np.savez("inputs.npz", x=x[3:4])
    assert cause("forget", "home", "--user", "alice", "--matching", "inputs.npz", "--json")["samples"] == 1
    wrong = np.savez("wrong.npz", x=x[4:5], y=(y[4:5] + 1) % 4)
    assert wrong is None
    assert "none of the 1 rows equals" in refused("forget", "home", "--user", "alice", "--matching", "wrong.npz")
    result = cause("forget", "home", "--user", "bob", "--matching", "r1.npz", "--json")  # with alice's and carol's
    assert (result["samples"], result["unmatched"]) == (30, 0)
    assert "none is of user 'dave'" in refused("forget", "home", "--user", "dave", "--matching", "r1.npz")
    assert "leave out --rounds" in refused("forget", "home", "--user", "bob", "--rounds", 2, "--matching", "inputs.npz")


def test_a_table_names_what_to_forget_with_labels_or_without(cause, device):  # noqa: F811
    names = ",".join(f"f{at}" for at in range(6))
    rows = [[3.5 + at, *range(5)] for at in range(4)]
    lines = [",".join(map(str, [*row, 1, "eve"])) for row in rows]
    Path("eve.csv").write_text("\n".join([f"{names},label,user", *lines]))
    assert cause("learn", "home", "eve.csv", "--json")["samples"] == 4
    Path("bare.csv").write_text("\n".join([names, ",".join(map(str, rows[1]))]))
    assert cause("forget", "home", "--user", "eve", "--matching", "bare.csv", "--json")["samples"] == 1
    assert cause("forget", "home", "--user", "eve", "--matching", "eve.csv", "--json")["unmatched"] == 1


def test_the_position_form_still_works_and_its_help_says_what_it_means(cause, device):  # noqa: F811
    assert cause("forget", "home", "--user", "alice", "--samples", "1:3", "--json")["samples"] == 1
    text = " ".join(cause("forget", "--help").replace("│", " ").split())
    assert "A position is a random number inside the home, not the row's number in the upload" in text


def test_a_failed_learn_says_that_the_round_is_recorded_and_can_be_repeated(
    cause,  # noqa: F811
    refused,  # noqa: F811
    device,  # noqa: F811
    monkeypatch,
):
    third = upload("r3.npz", 3, alice=5, bob=6)
    with monkeypatch.context() as patch:
        patch.setattr(Cause, "_train", lambda *_, **__: (_ for _ in ()).throw(LearnerError("training diverged")))
        result = refused("learn", "home", third, "--idempotency-key", "third")
        assert "round 3 is recorded with its 11 samples and waits to be trained: do not learn it again" in result
        result = refused("forget", "home", "--user", "carol")
        assert "in effect, so that the samples are destroyed: request" in result
        assert "`cause repair`" in result
    again = cause("learn", "home", third, "--idempotency-key", "third", "--json")
    assert (again["round"], again["repeated"], again["waiting"]) == (3, True, [])
    assert len(held("alice")) == 55
    assert "round 3 was recorded by an earlier call" in cause("learn", "home", third, "--idempotency-key", "third")
    assert "came with other samples" in refused("learn", "home", "r1.npz", "--idempotency-key", "third")


def test_names_in_files_are_normalised_and_bad_ones_refused(cause, refused, device):  # noqa: F811
    x, y = samples("z", 1, 4)
    np.savez("zoe.npz", x=x, y=y, users=["zoe\u0301", "zo\u00e9", "zoe\u0301", "zo\u00e9"])
    result = cause("learn", "home", "zoe.npz", "--json")
    assert (result["users"], result["samples"], len(result["handles"][0]["handles"])) == (1, 4, 4)
    assert cause("samples", "home", "--user", "zoe\u0301", "--json")["total"] == 4
    np.savez("bad.npz", x=x, y=y, users=["zoe", "zoe", "zoe ", "zoe"])
    assert "'bad.npz': the user id 'zoe ' begins or ends with white space" in refused("learn", "home", "bad.npz")
    np.savez("bare.npz", x=x, y=y)
    assert "invisible character U+200B" in refused("learn", "home", "bare.npz", "--user", "zo\u200be")
    assert "white space" in refused("forget", "home", "--user", " zoe")
    assert cause("forget", "home", "--user", "zo\u00e9", "--json")["samples"] == 4


def test_forgetting_a_user_without_samples_says_so(refused, device):  # noqa: F811
    assert "unknown user 'nobody': nothing of theirs is retained" in refused("forget", "home", "--user", "nobody")


def test_what_waits_for_a_round_is_counted_among_what_is_forgotten(cause, device):  # noqa: F811
    with Cause("home") as opened:
        opened.stage("eve", *samples("eve", 1, 7))
    assert "waits" in cause("samples", "home", "--user", "eve")
    result = cause("forget", "home", "--user", "eve", "--json")
    assert (result["samples"], result["staged"]) == (7, 7)


def test_a_handles_file_that_cannot_be_written_is_refused_before_anything_is_learned(refused, cause, device):  # noqa: F811
    Path("taken").mkdir()
    assert "it is a directory" in refused("learn", "home", "r1.npz", "--handles", "taken")
    assert cause("status", "home", "--json")["round"] == 2
