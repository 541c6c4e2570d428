"""The positions of points in a plot."""

from itertools import pairwise

import pytest

from cause.lab.reproduce.draw import _panel
from cause.lab.reproduce.summary import Panel, Series

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def axis():
    figure, axis = pyplot.subplots()
    yield axis
    pyplot.close(figure)


def drawn(axis):
    return [list(line.lines[0].get_xdata()) for line in axis.containers]


def test_numbers_of_shards_stand_side_by_side(axis):
    _panel(axis, Panel("", "S", "", [Series("cause", [1, 4, 16], [0.7, 0.6, 0.5])]), ["cause"])
    assert drawn(axis) == [[0, 1, 2]]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["1", "4", "16"]


@pytest.mark.parametrize("heights", [[6e3, 9e5], [5200, 9000], [1.0, 1e9]])
def test_labels_of_a_logarithmic_axis_tell_all_and_do_not_lie_on_each_other(axis, heights):
    _panel(axis, Panel("", "ρ", "", [Series("cause", [1, 2], heights)], log=True), ["cause"])
    axis.figure.canvas.draw()
    low, high = axis.get_ylim()
    labels = [label for label in axis.get_yticklabels(which="both") if label.get_text()]
    boxes = [label.get_window_extent() for label in labels if low <= label.get_position()[1] <= high]
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) >= 4
    assert len({label.get_text() for label in labels}) == len(labels)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def test_a_line_that_is_said_to_be_straight_is_drawn_to_scale(axis):
    """Side by side, 0.1, 0.2 and 1.0 would bend it."""
    _panel(axis, Panel("", "ratio", "", [Series("resnet34", [0.1, 0.2, 1.0], [1, 2, 10])], to_scale=True), ["resnet34"])
    assert drawn(axis) == [[0.1, 0.2, 1.0]]
    assert axis.get_ylim()[0] == 0
