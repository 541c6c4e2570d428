"""Recipes, data and where a result says it comes from."""

import subprocess

import numpy as np
import pytest

from cause.engine.progress import Step
from cause.engine.samples import Lesson, Part, Piece, SegmentKey, TraceUpload
from cause.errors import InputError
from cause.lab import provenance
from cause.lab.calibration import check_device
from cause.lab.reproduce.cell import Cell
from cause.lab.reproduce.data import Split, at_hand, load_split
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.kinds.train import Bill, Visits
from cause.lab.reproduce.page import source_line
from cause.lab.reproduce.recipes import ours, paper
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import run_cell
from cause.lab.reproduce.size import QUICK
from cause.learners.torch.batches import epochs_of
from tests.lab.reproduce.tiny import TINY


@pytest.fixture
def images():
    x, y = np.zeros((4, 32, 32, 3), np.uint8), np.arange(4)
    return Split("cifar10", x, y, x, y, 10, (3, 32, 32), 255.0)


@pytest.mark.parametrize(
    ("backbone", "system", "batch_size", "optimizer"),
    [("resnet34", "cause", 256, "adam"), ("vgg16", "arcane", 512, "sgd"), ("mobilenetv2", "omp-95", 128, "adam")],
)
def test_the_papers_recipe_is_that_of_its_tables(images, backbone, system, batch_size, optimizer):
    recipe, composed = paper(images, backbone, system, 80)
    assert (recipe.batch_size, recipe.optimizer, recipe.lr, recipe.epochs) == (batch_size, optimizer, 1e-3, 80)
    assert (recipe.augmentation, recipe.schedule, composed.rehearsal) == ("none", "constant", 0.0)


@pytest.mark.parametrize("epochs", [1, 20, 80])
def test_our_recipe_visits_no_more_samples_than_the_papers(images, epochs):
    recipe, system = ours(images, "resnet34", "cause", epochs)
    upload, rehearsed = TraceUpload("a", 1, (Part(100),)), int(10 * system.rehearsal)
    lesson = Lesson(SegmentKey(0, 2), (Piece(upload, range(10)),), 10, (Piece(upload, range(10, 10 + rehearsed)),))
    assert epochs_of(recipe, lesson) * lesson.total <= max(epochs * 10, lesson.total)


@pytest.mark.long
def test_the_recipes_learn_the_digits():
    settings = {**TINY.training("digits", "cnn", "cause-no-sc", shards=2)[0].settings, "share": 0.5, "epochs": 6}
    for recipe in ("paper", "ours", "authors"):
        done = run_cell(Cell("train", {**settings, "recipe": recipe}), Resources())
        assert done.result["accuracy"] > 0.6, recipe
        assert done.result["samples_visited"] <= 6 * done.result["samples"], recipe
        assert done.result["replayed"]["mismatched"] == 0
        assert len(done.result["accuracy_of_heads"]) == len(done.result["head_bytes"]) == 2


def test_digits_are_never_tested_on_what_is_learned():
    data = load_split("digits", None)
    assert len(data.y) + len(data.y_test) == 1797
    assert load_split("digits32", None).x.shape[1:] == (3, 32, 32)
    x, y = data.tests(100)
    assert len(x) == len(y) == 100
    assert (data.tests(100)[1] == y).all()
    assert len(data.tests(None)[1]) == len(data.y_test)


def test_a_quick_run_takes_the_data_that_is_there(tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSE_DATA", raising=False)
    assert at_hand(None) == ("digits",)
    with pytest.raises(InputError, match="none of cifar10, svhn, cifar100"):
        at_hand(str(tmp_path))
    (tmp_path / "svhn.npz").touch()
    assert at_hand(str(tmp_path)) == ("svhn",)
    monkeypatch.setenv("CAUSE_DATA", str(tmp_path))
    size = QUICK.changed(datasets=at_hand(None))
    assert {c.settings["dataset"] for figure in ("shards", "linearity") for c in FIGURES[figure].cells(size)} == {
        "svhn"
    }


def test_what_is_visited_adds_up_over_calls():
    visits = Visits()
    for samples in (15, 25):
        for epoch in (1, 2):
            visits.watch(Step(SegmentKey(0, 1), epoch, 2, epoch * samples, 2 * samples))
        visits.close()
    visits.close()  # a call that trained nothing
    assert visits.total == 80


class Device:
    """Serves requests that cost nothing."""

    def serve(self, requests):
        return []


def test_a_reading_that_fails_leaves_the_energy_unknown():
    from cause.device.energy import SampledMeter
    from cause.errors import MeterError

    readings = iter([10.0, 14.0, 20.0])

    class Tally:
        joules, readings = 0.0, 0

        def add(self, now_s):
            try:
                value = next(readings)
            except StopIteration:
                raise MeterError("the meter went away") from None
            self.joules += value if self.readings else 0.0
            self.readings += 1

    bill = Bill(SampledMeter("a meter", 0.001, Tally, idle_watts=0.0))
    bill.serve(Device(), [])  # type: ignore[arg-type]
    assert bill.as_dict()["joules"] == 14.0
    bill.serve(Device(), [])  # type: ignore[arg-type]
    assert bill.as_dict()["joules"] is None
    assert bill.as_dict()["unavailable"] == "the meter went away"


def test_less_energy_than_idle_is_unknown():
    from cause.device.energy import SampledMeter

    class Tally:
        joules, readings = 0.0, 0

        def add(self, now_s):
            self.readings += 1

    bill = Bill(SampledMeter("a meter", 0.001, Tally, idle_watts=1e6))
    bill.serve(Device(), [])  # type: ignore[arg-type]
    result = bill.as_dict()
    assert result["joules"] is None
    assert "something else used the device" in result["unavailable"]


def test_a_copy_without_its_repository_says_its_commit(monkeypatch):
    def no_git(*args, **kwargs):
        raise OSError

    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.delenv("CAUSE_COMMIT", raising=False)
    assert provenance.commit() == "unknown"
    monkeypatch.setenv("CAUSE_COMMIT", "0" * 40)
    assert provenance.commit() == "0" * 40


def test_a_page_says_that_the_code_was_changed():
    source = {"command": "cause", "commit": "0" * 40, "date": "", "machine": {"processor": "p", "cores": 2}}
    assert "commit `000000000000`," in source_line(source)
    assert "commit `000000000000-changed`," in source_line({**source, "commit": "0" * 40 + "-changed"})


def test_an_explicit_share_is_taken_of_small_data_too():
    quick = QUICK.changed(datasets=("digits",))
    for size, share in ((quick, 1.0), (quick.changed(epochs=1), 1.0), (quick.changed(share=0.1), 0.1)):
        for name in ("shards", "pruning", "epochs", "forgetting"):
            assert {cell.settings["share"] for cell in FIGURES[name].cells(size)} == {share}


@pytest.mark.parametrize("device", ["cpu:x", "cuda:x", "cuda:-1", "tpu", ""])
def test_a_device_that_is_none_is_called_unknown(device):
    with pytest.raises(InputError, match=f"unknown device '{device}'"):
        check_device(device)


def test_a_card_that_is_not_there_is_refused():
    import torch

    beyond = torch.cuda.device_count()
    with pytest.raises(InputError, match=f"here: 'cuda:{beyond}' cannot be used"):
        check_device(f"cuda:{beyond}")
