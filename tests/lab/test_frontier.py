"""The picture of the README: every point comes from a committed file, or is printed in the paper."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.frontier import ADDITIVE, LOWEST, PAPERS, RESULTS, STYLE, description, draw, points
from cause.lab.reproduce import paper

ROOT = Path(__file__).parents[2]


def described(path: Path) -> str:
    """The points that a picture carries."""
    text = re.search("<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    return html.unescape(text[1])


def test_the_committed_picture_is_drawn_of_the_committed_results(tmp_path):
    committed, drawn = ROOT / "docs" / "figures" / "frontier.svg", list(points())
    assert described(committed) == description(drawn), "run `python -m benchmarks.frontier draw`"
    assert committed.stat().st_size < 2**20
    assert "docs/figures/frontier.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    draw(drawn, tmp_path / "frontier.svg")
    marks = (tmp_path / "frontier.svg").read_text(encoding="utf-8").count("<use ")
    draw(drawn[:-1], tmp_path / "less.svg")
    assert (tmp_path / "less.svg").read_text(encoding="utf-8").count("<use ") < marks
    assert described(tmp_path / "less.svg") != described(committed)


def test_every_group_has_points_and_every_file_is_read(tmp_path):
    drawn = list(points())
    assert {point.group for point in drawn} == set(STYLE)
    assert all(point.rsn == 0 for point in drawn if point.group == ADDITIVE)
    assert [point.accuracy for point in drawn if point.group == PAPERS] == list(
        paper.CONTROLLER.values["accuracy"]["cause"].values()
    )
    assert any(100 * point.accuracy < LOWEST for point in drawn)  # named at the edge, not left out
    for name in sorted({source for point in drawn for source in point.sources}):
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(RESULTS, folder)
        (folder / name).unlink()
        with pytest.raises(FileNotFoundError):
            list(points(folder))


def test_a_changed_result_moves_its_point(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "accuracy-ours-4.json"
    record = json.loads(path.read_text())
    record["result"]["rounds"][-1]["soft"] = 0.5
    path.write_text(json.dumps(record))
    before, after = list(points()), list(points(tmp_path / "results"))
    assert [b.label for a, b in zip(after, before, strict=True) if a != b] == ["S=4"]


@pytest.mark.parametrize("name", ["frontier.json"])
def test_simulations_name_their_command_and_commit(name):
    record = json.loads((RESULTS / name).read_text())
    assert record["command"].startswith("python -m benchmarks.frontier simulate")
    assert len(record["commit"]) == 40
    assert all(len(row["rsn"]) == 20 for row in record["result"].values())
