"""A run that was killed goes on where its file ends, and only with the code it was begun with."""

from dataclasses import asdict, replace

import pytest

from tests.exactness import records as module
from tests.exactness.product import set_ups
from tests.exactness.records import Outcome, Records, finished_in, record

ONE, OTHER = set_ups()[:2]


def lines(*set_ups):
    return [record(each, 1.5, [Outcome(each, ()), Outcome(replace(each, workers=2), ("bits",))]) for each in set_ups]


def test_what_is_finished_is_read_again(tmp_path):
    Records(tmp_path / "run").add(lines(ONE))
    Records(tmp_path / "run").add(lines(OTHER))
    assert [one["set_up"] for one in Records(tmp_path / "run").finished] == [str(ONE), str(OTHER)]


def test_a_line_that_was_cut_off_is_dropped_and_its_set_up_runs_again(tmp_path):
    path = tmp_path / "run"
    Records(path).add(lines(ONE, OTHER))
    path.write_bytes(path.read_bytes()[:-10])
    again = Records(path)
    assert [one["set_up"] for one in again.finished] == [str(ONE)]
    again.add(lines(OTHER))
    assert [one["set_up"] for one in Records(path).finished] == [str(ONE), str(OTHER)]


def test_a_file_cut_off_in_its_first_line_is_begun_anew(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(b'{"vers')
    Records(path).add(lines(ONE))
    assert len(Records(path).finished) == 1


def test_a_file_of_other_code_is_refused(tmp_path, monkeypatch):
    Records(tmp_path / "run").add(lines(ONE))
    monkeypatch.setattr(module, "version", lambda: "other code")
    with pytest.raises(ValueError, match="other code"):
        Records(tmp_path / "run")


def test_mismatches_are_kept_with_their_cases():
    (line,) = lines(ONE)
    assert line["cases"] == 2
    assert line["wrong"] == [{"case": asdict(replace(ONE, workers=2)), "wrong": ["bits"]}]
    assert line["counts"]["workers"] == {"1": 1, "2": 1}


def test_what_another_machine_finished_is_known_by_its_set_ups(tmp_path):
    path = tmp_path / "run"
    Records(path).add(lines(ONE))
    path.write_bytes(path.read_bytes().replace(module.version().encode(), b"other"))
    assert finished_in(path) == {str(ONE)}
