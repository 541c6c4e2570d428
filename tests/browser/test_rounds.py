"""The button that closes a round: not for an empty one, and not without saying what retention will delete."""

from typing import Any

import pytest

from cause.device.device import Cause
from tests.browser.digits import Device, bayes
from tests.device.homes import MASTER


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("device") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSE_TEST_KEY", MASTER)
        kept: dict[str, Any] = {"system": "frugal", "shards": 3, "slots": 8, "retain": "2 rounds"}
        Cause(folder, learner=bayes(), key={"env": "CAUSE_TEST_KEY"}, **kept).close()
        with Device(folder, bayes()) as device:
            device.learn({"ann": 30, "bob": 20}, {"bob": 10})
            yield device


def test_a_round_with_nothing_in_it_cannot_be_closed_and_what_one_deletes_is_asked_for(page, device):
    page.sign_in(device.url, device.secret)
    page.until(lambda: "Samples are kept for 2 rounds." in page.text("retention"))
    assert "Closing the next round deletes 50 samples of 2 users (round 1)." in page.text("retention")
    button = page.find("#close-round")
    page.until(lambda: not button.is_enabled())
    device.api.upload("cyd", *device.next(5))
    page.until(button.is_enabled)
    page.click("#close-round")
    page.until(lambda: button.text == "Close it and delete 50 samples of 2 users (round 1)")
    assert device.api.status()["round"] == 2, "the first press only asks"
    page.click("#close-round")
    page.log_shows("Round 3 is closed: 5 samples of 1 user.")
    page.until(lambda: device.api.status()["samples"] == 15)
    page.until(lambda: button.text == "Close the round" and not button.is_enabled())
