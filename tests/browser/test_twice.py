"""What is done twice by mistake: double clicks and Enter twice, the browser's back button, two admins at once."""

import threading

import httpx
import numpy as np
import pytest

from tests.browser.digits import Device, bayes
from tests.browser.page import Page

TWICE = "const each = document.querySelector(arguments[0]); each.click(); each.click();"
SLOWED = (  # answers to POST take a second, as over a slow network
    "const real = window.fetch; window.fetch = async (path, options) => { "
    "if (options?.method === 'POST') await new Promise(done => setTimeout(done, 1000)); return real(path, options); };"
)


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    with Device(
        tmp_path_factory.mktemp("device") / "home", bayes(), [{"ann": 30, "bob": 20}], retain="2 rounds"
    ) as device:
        device.learn({"bob": 10})
        yield device


def double_click(page: Page, css: str) -> None:
    from selenium.webdriver import ActionChains

    found = page.find(css)
    page.run("arguments[0].scrollIntoView({block: 'center'})", found)
    ActionChains(page.driver).double_click(found).perform()


def test_signing_in_with_two_clicks_signs_in(page, device):
    page.open(device.url)
    page.type("secret", device.secret)
    page.run(TWICE, "#sign-in-form button[type=submit]")
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live")


def test_an_upload_with_two_clicks_is_one_upload(page, device, tmp_path):
    page.sign_in(device.url, device.secret)
    page.run(SLOWED)
    x, y = device.next(3)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    page.unfold("upload-details")
    page.type("upload-user", "cyd")
    page.find("#upload-file").send_keys(str(tmp_path / "x.npz"))
    page.run(TWICE, "#upload-form button[type=submit]")
    page.until(lambda: "3 samples uploaded" in page.text("upload-message"))
    page.press("#upload-form button[type=submit]")  # the file is not chosen any more
    assert device.api.user("cyd")["staged"] == {"uploads": 1, "samples": 3}
    assert page.text("upload-error") == ""


def test_a_token_made_with_two_clicks_is_one_token(page, device):
    page.sign_in(device.url, device.token("operator", "admin"))
    page.click("#tokens-open")
    page.until(lambda: page.rows("tokens"))
    before = page.rows("tokens")
    page.run(SLOWED)
    page.click("input[name=scope][value=predict]")
    page.run(TWICE, "#token-form button[type=submit]")
    page.until(lambda: page.shown("token-made") and page.rows("tokens") > before)
    secret = page.run("return document.getElementById('token-secret').value")
    assert secret.split("_")[1][:8] in page.text("tokens")
    assert page.rows("tokens") == before + 1
    id_ = secret.split("_")[1]
    double_click(page, f"[data-focus='revoke {id_}']")
    assert page.find(f"[data-focus='revoke {id_}']").text == "Revoke it?", "a double click only asks"
    page.click("#token-done")
    page.click("#tokens-close")


def test_a_double_click_closes_no_round_that_deletes_samples(page, device):
    page.sign_in(device.url, device.secret)
    device.api.upload("cyd", *device.next(3))
    button = page.find("#close-round")
    page.until(button.is_enabled)
    double_click(page, "#close-round")
    page.until(lambda: button.text.startswith("Close it and delete 50 samples"))
    assert device.api.status()["round"] == 2
    page.run(TWICE, "#close-round")
    page.log_shows("Round 3 is closed")
    assert page.text("upload-error") == "", "the second click found nothing to close, and says nothing"
    page.until(lambda: device.api.status()["round"] == 3)


def test_an_erasure_with_two_clicks_is_one_request(page, device):
    page.sign_in(device.url, device.secret)
    page.type("erase-user", "bob\n")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    before = len(list(device.api.requests()))
    page.run(SLOWED)
    page.run(TWICE, "#erase-confirm")
    page.log_shows("An erasure is in effect")
    assert len(list(device.api.requests())) == before + 1


def test_the_back_button_and_a_reload_come_back_to_the_board(page, device):
    page.sign_in(device.url, device.secret)
    page.driver.get(device.url + "docs/service.md")
    page.driver.back()
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live")
    page.driver.refresh()
    page.until(lambda: page.shown("board") and page.text("link-text") == "Live")
    page.click("#sign-out")
    page.until(lambda: page.shown("sign-in"))
    page.driver.get(device.url + "docs/service.md")
    page.driver.back()
    page.until(lambda: page.shown("sign-in"))
    assert not page.shown("board"), "who has signed out stays so"
    assert page.rows("receipts") == 0


def test_two_admins_revoke_the_same_token_at_once(page, device):
    page.sign_in(device.url, device.token("operator", "admin"))
    made = device.token("predict")
    id_ = made.split("_")[1]
    page.click("#tokens-open")
    page.until(lambda: page.every(f"[data-focus='revoke {id_}']"))
    admin = device.token("admin")
    answers: list[int] = []

    def revoke() -> None:
        headers = {"Authorization": f"Bearer {admin}"}
        route = f"{device.url}v1/tokens/{id_}/revocation"
        answers.append(httpx.post(route, headers=headers, trust_env=False).status_code)

    threads = [threading.Thread(target=revoke) for _ in range(4)]
    for thread in threads:
        thread.start()
    page.press(f"[data-focus='revoke {id_}']")
    page.press(f"[data-focus='revoke {id_}']")
    for thread in threads:
        thread.join()
    assert answers == [200] * 4
    page.until(lambda: not page.every(f"[data-focus='revoke {id_}']"))
    assert page.text("tokens-error") == ""
    page.click("#tokens-close")
