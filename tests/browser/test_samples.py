"""Choose single samples on the page: from the list, or as those that a file holds; and files that name their users."""

import numpy as np
import pytest

from tests.browser.digits import Device, bayes


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    with Device(tmp_path_factory.mktemp("device") / "home", bayes(), [{"ann": 120, "bob": 20}]) as device:
        yield device


def handles(device, user: str) -> list[str]:
    return [each.handle for each in device.api.samples(user)]


def choose_samples(page, user: str) -> None:
    page.type("erase-user", user + "\n")
    page.until(lambda: page.shown("erase-choice") and page.find("#erase-confirm").is_enabled())
    page.click("input[name=what][value=samples]")
    page.until(lambda: page.every("input[name=sample]"))


def test_the_samples_that_are_chosen_go_and_no_others(page, device):
    before = handles(device, "ann")
    page.sign_in(device.url, device.secret)
    choose_samples(page, "ann")
    assert [each.get_attribute("value") for each in page.every("input[name=sample]")] == before[:100]
    page.click("[data-focus='older samples']")
    page.until(lambda: len(page.every("input[name=sample]")) == 120)
    for handle in (before[3], before[110]):
        page.click(f"input[name=sample][value='{handle}']")
    page.until(lambda: page.find("#erase-confirm").text == "Erase 2 samples")
    page.click("#erase-confirm")
    page.log_shows("2 samples deleted.")
    assert set(handles(device, "ann")) == set(before) - {before[3], before[110]}
    assert len(handles(device, "bob")) == 20


def test_the_samples_that_a_file_holds_go_and_what_matches_nothing_is_told(page, device, tmp_path):
    x, y = device.next(5)
    mine = device.api.upload("cyd", x, y).handles
    np.savez(tmp_path / "some.npz", x=np.concatenate([x[1:3], x[:1] + 3]), y=np.append(y[1:3], 0))
    page.sign_in(device.url, device.secret)
    choose_samples(page, "cyd")
    page.find("#erase-file").send_keys(str(tmp_path / "some.npz"))
    page.until(lambda: "1 of its 3 rows equal nothing" in page.text("erase-matched"))
    page.until(lambda: page.find("#erase-confirm").text == "Erase 2 samples")
    page.click("#erase-confirm")
    page.log_shows("2 samples deleted.")
    assert set(handles(device, "cyd")) == {mine[0], mine[3], mine[4]}


def test_a_file_that_names_its_users_is_taken_without_a_user_and_refused_with_one(page, device, tmp_path):
    x, y = device.next(4)
    np.savez(tmp_path / "both.npz", x=x, y=y, users=["fay", "gil", "fay", "fay"])
    page.sign_in(device.url, device.secret)
    page.unfold("upload-details")
    page.type("upload-user", "fay")
    page.find("#upload-file").send_keys(str(tmp_path / "both.npz"))
    page.click("#upload-form button[type=submit]")
    page.until(lambda: "says itself whose its samples are" in page.text("upload-error"))
    page.type("upload-user", "")
    page.click("#upload-form button[type=submit]")
    page.until(lambda: "4 samples uploaded" in page.text("upload-message"))
    assert (len(handles(device, "fay")), len(handles(device, "gil"))) == (3, 1)


def test_an_erasure_of_nobody_says_so_to_the_operator(page, device):
    page.sign_in(device.url, device.secret)
    page.type("erase-user", "nobody\n")
    page.until(lambda: page.shown("erase-choice") and page.find("#erase-confirm").is_enabled())
    assert page.every("input[name=what][value=samples]") == []
    page.click("#erase-confirm")
    page.log_shows("Nothing was held of this user")
