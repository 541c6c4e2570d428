"""The page of a device whose learner is additive: its accuracy is estimated without held-out data."""

import pytest

from cause import AdditiveLearner
from tests.browser.digits import CLASSES, Device


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    learner = AdditiveLearner(shape=(1, 8, 8), scale=(0, 16), classes=CLASSES)
    made = {"system": "additive", "shards": 1, "slots": 2}
    with Device(tmp_path_factory.mktemp("additive") / "home", learner, [{"ann": 120, "bob": 200}], **made) as device:
        yield device


def test_the_accuracy_is_estimated_and_follows_an_erasure(page, device):
    page.sign_in(device.url, device.secret)
    page.until(lambda: "leave-one-out: 320 samples" in page.text("figures"))
    expected = device.api.status()["expected_accuracy"]
    assert expected is not None
    assert f"{100 * expected['accuracy']:.1f} %".replace(".0 %", " %") in page.text("figures")
    page.unfold("lineages-details")
    page.until(lambda: "nothing: it is subtracted" in page.text("lineages-table"))
    page.type("erase-user", "ann\n")
    page.until(lambda: "Subtracts them from the state of shard 0. Nothing is trained again." in page.text("erase-plan"))
    assert "scratch" not in page.text("erase-plan")
    device.api.erase("ann")
    page.until(lambda: "leave-one-out: 200 samples" in page.text("figures"))
    page.log_shows("120 samples deleted", "Shard 0: its samples are subtracted, and it keeps voting")
    assert "does not vote" not in page.text("log")
    page.until(lambda: page.text("verdict-reason") == "All shards vote, and nothing is late.")
    assert not page.shown("training")
    device.evaluate()  # what was measured on held-out samples says more
    page.until(lambda: "leave-one-out" not in page.text("figures"))
