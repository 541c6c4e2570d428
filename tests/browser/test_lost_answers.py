"""Answers that get lost, and a service that restarts under an open page: nothing is done twice, nothing hangs."""

import sqlite3

import numpy as np
import pytest

from tests.browser.digits import Device, bayes

LOSE = (  # the service answers, and the answer to the next request with such a path gets lost on its way
    "const real = window.fetch; const part = arguments[0]; let left = 1; window.fetch = async (path, options) => { "
    "const answer = await real(path, options); "
    "if (left && options?.method === 'POST' && String(path).endsWith(part)) { left = 0; throw new TypeError('lost'); } "
    "return answer; };"
)
CUT = LOSE.replace("throw new TypeError('lost')", "return new Response('{\"id\": ', { status: answer.status })")


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("device") / "home"
    with Device(folder, bayes(), [{"ann": 30, "bob": 40, "cyd": 20}]) as device:
        yield device


def held(device, user: str) -> int:
    return device.api.user(user)["samples"]


@pytest.mark.parametrize("lose", [LOSE, CUT], ids=["lost", "cut off"])
def test_an_erasure_whose_answer_was_lost_is_not_made_twice(page, device, lose):
    page.sign_in(device.url, device.secret)
    confirm = page.find("#erase-confirm")
    page.type("erase-user", "bob\n")
    page.until(lambda: page.shown("erase-choice"))
    page.click("input[name=round]")
    page.type("erase-count", "5")
    page.until(lambda: confirm.text == "Erase 5 samples" and confirm.is_enabled())
    before, requests = held(device, "bob"), len(list(device.api.requests()))
    page.run(lose, "/erasures")
    page.click("#erase-confirm")
    page.until(lambda: "does not answer" in page.text("erase-error"))
    page.until(lambda: held(device, "bob") == before - 5)
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    page.click("#erase-confirm")
    page.log_shows("An erasure is in effect")
    assert (held(device, "bob"), len(list(device.api.requests()))) == (before - 5, requests + 1)
    page.until(lambda: not page.shown("erase-choice"))

    page.type("erase-user", "bob\n")  # who asks again for the same after an answer means it
    page.until(lambda: page.shown("erase-choice"))
    page.click("input[name=round]")
    page.type("erase-count", "5")
    page.until(lambda: confirm.text == "Erase 5 samples" and confirm.is_enabled())
    page.click("#erase-confirm")
    page.until(lambda: held(device, "bob") == before - 10)


def test_an_upload_whose_answer_was_lost_is_not_made_twice(page, device, tmp_path):
    page.sign_in(device.url, device.secret)
    x, y = device.next(3)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    page.unfold("upload-details")
    page.type("upload-user", "dan")
    page.find("#upload-file").send_keys(str(tmp_path / "x.npz"))
    page.run(LOSE, "/samples")
    page.click("#upload-form button[type=submit]")
    page.until(lambda: "does not answer" in page.text("upload-error"))
    page.click("#upload-form button[type=submit]")
    page.until(lambda: "3 samples uploaded" in page.text("upload-message"))
    assert device.api.user("dan")["staged"] == {"uploads": 1, "samples": 3}
    page.find("#upload-file").send_keys(str(tmp_path / "x.npz"))  # chosen anew: another upload
    page.click("#upload-form button[type=submit]")
    page.until(lambda: device.api.user("dan")["staged"] == {"uploads": 2, "samples": 6})


def test_a_round_whose_answer_was_lost_is_not_closed_twice(page, device):
    page.sign_in(device.url, device.secret)
    device.api.upload("eve", *device.next(3))
    page.until(lambda: page.find("#close-round").is_enabled())
    before = device.api.status()["round"]
    page.run(LOSE, "/rounds")
    page.click("#close-round")
    page.until(lambda: "does not answer" in page.text("upload-error"))
    page.log_shows(f"Round {before + 1} is closed")
    device.api.upload("eve", *device.next(3))
    page.until(lambda: f"round {before + 2}" in page.text("staged") and page.find("#close-round").is_enabled())
    page.click("#close-round")  # the page knows that the round was closed: this means the next one
    page.until(lambda: device.api.status()["round"] == before + 2)


def test_a_verification_that_the_service_does_not_know_any_more_ends(page, device):
    """It was under way when the service was restarted."""
    for _ in range(2):
        device.api.erase("cyd", rounds=[1], count=1)
    other, newest = (str(device.api.log().size - ago) for ago in (2, 1))
    # the page hears of a verification of another receipt, under an id that the service does not know
    lost = f"Object.assign(body, {{receipt: {other}, state: 'running', id: '0'.repeat(32), finished: null}})"
    page.sign_in_changed(device.url, device.secret, f"/v1/receipts/{newest}/verification", lost)
    page.until(lambda: page.every(f"[data-focus='verify {newest}']"))
    page.press(f"[data-focus='verify {newest}']")
    page.until(lambda: "not checked: there is no verification" in page.text("receipts"))
    assert page.find(f"[data-focus='verify {other}']").text == "Again"


def test_a_reload_while_no_token_can_be_looked_up_keeps_the_token(page, device):
    """A secret is shown once: who loses it has to make another one."""
    page.sign_in(device.url, device.secret)
    lock = sqlite3.connect(device.folder / "access.db", isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        page.driver.refresh()
        page.until(lambda: "No token can be looked up now" in page.text("sign-in-error"), 30)
        assert "Trying again" in page.text("sign-in-error")
    finally:
        lock.close()
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live", 30)
    assert not page.shown("sign-in")


def test_a_page_that_is_reloaded_while_the_service_restarts_goes_on_with_its_token(page, device, tmp_path):
    page.sign_in(device.url, device.secret)
    device.kill()
    page.until(lambda: page.text("link-text") == "Lost")
    page.driver.refresh()  # the browser's own page says that nothing answers
    device.start()
    page.driver.get(device.url)
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live")


def test_a_token_typed_while_the_service_is_gone_is_used_when_it_is_back(page, device):
    page.open(device.url)
    device.kill()
    page.type("secret", device.secret + "\n")
    page.until(lambda: "does not answer" in page.text("sign-in-error"))
    device.start()
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live", 30)


def test_a_step_of_a_forget_that_cannot_be_shown_stops_nothing(page, device):
    page.sign_in(device.url, device.secret)
    page.run(
        "const real = window.fetch; let left = 1; window.fetch = (path, options) => "
        "left && path === '/v1/shards' ? (left = 0, Promise.reject(new TypeError('lost'))) : real(path, options);"
        "const banner = document.getElementById('banner'); window.warned = false;"  # for milliseconds, perhaps
        "new MutationObserver(() => { window.warned ||= !banner.hidden; }).observe(banner, {attributes: true});"
    )
    device.api.erase("cyd", rounds=[1], count=2)
    page.until(lambda: page.run("return window.warned"))
    samples = device.api.status()["samples"]
    page.until(lambda: f"{samples}" in page.text("figures") and not page.shown("banner"), 30)
    device.api.erase("cyd", rounds=[1], count=2)
    page.until(lambda: f"{samples - 2}" in page.text("figures"), 30)


def test_a_page_whose_parts_did_not_all_arrive_is_loaded_again(page, device):
    """As where a phone changes its network: one missing file would leave the page blank."""
    page.driver.execute_cdp_cmd("Network.enable", {})
    try:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/js/texts.js"]})
        page.driver.get(device.url + "healthz")
        page.run("sessionStorage.clear()")
        page.driver.get(device.url)
        assert not page.shown("sign-in")
        assert not page.shown("board")
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        page.driver.execute_cdp_cmd("Network.disable", {})
    page.until(lambda: page.run("return document.getElementById('sign-in')?.hidden === false"), 30)
