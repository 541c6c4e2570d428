"""Every view of the dashboard: for all eyes and hands, on every screen, and when something is wrong."""

import re

import pytest

from cause.service.service import tokens_of
from tests.browser.digits import Device, bayes
from tests.browser.page import DESKTOP, PHONE


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    rounds = [{"ann": 20, "bob": 20 + number, "cyd": 15, "dan": 12} for number in range(12)]
    with Device(tmp_path_factory.mktemp("device") / "home", bayes(), rounds) as device:
        device.evaluate()
        device.learn({"ann": 10, "eve": 30})
        device.evaluate()
        yield device


def drawn(page) -> None:
    """Wait until all of the page is there."""
    page.until(lambda: page.text("baselines") and "simulated…" not in page.text("baselines"))


def open_all(page) -> None:
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true })")


@pytest.mark.parametrize(
    "size", [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone", marks=pytest.mark.long)]
)
def test_no_serious_fault_for_anyone_in_light_and_dark(page, device, size):
    def no_faults() -> None:
        for dark in (False, True):
            page.look_like(size, dark=dark, still=True)
            assert page.faults() == [], f"dark: {dark}"

    page.open(device.url)
    page.type("secret", "wrong\n")
    page.until(lambda: page.text("sign-in-error"))
    no_faults()
    page.sign_in(device.url, device.secret)
    drawn(page)
    no_faults()
    page.click("[data-segment]")
    page.type("erase-user", "bob\n")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    open_all(page)
    no_faults()
    assert not page.scrolls_sideways()


def test_axe_finds_what_is_wrong(page, device):
    page.sign_in(device.url, device.secret)
    page.run("document.querySelector('label[for=erase-user]').remove()")
    assert any("label" in each for each in page.faults())


def test_nothing_comes_from_elsewhere(page, device):
    page.sign_in(device.url, device.secret)
    loaded = page.run("return performance.getEntriesByType('resource').map(each => each.name)")
    assert len(loaded) > 20
    assert all(each.startswith(device.url) for each in loaded)


def test_the_token_stays_in_the_tab(page, device):
    page.sign_in(device.url, device.secret)
    assert device.secret not in page.driver.current_url
    assert page.run("return JSON.stringify(localStorage)") == "{}"
    assert page.run("return document.cookie") == ""
    assert not any(device.secret in each for each in page.run("return performance.getEntries().map(e => e.name)"))
    page.driver.refresh()
    page.until(lambda: page.text("link-text") == "Live")
    page.click("#sign-out")
    page.until(lambda: page.shown("sign-in"))
    assert page.run("return sessionStorage.length") == 0
    assert not page.shown("board")


def test_a_wrong_token_is_told_and_not_kept(page, device):
    page.open(device.url)
    page.type("secret", "cause_0_nobody\n")
    page.until(lambda: "unknown here" in page.text("sign-in-error"))
    assert page.run("return sessionStorage.length") == 0
    page.type("secret", device.token("user", user="ann") + "\n")
    page.until(lambda: "needs one of an operator or auditor" in page.text("sign-in-error"))
    assert not page.shown("board")


def test_a_revoked_token_leads_back_to_the_form(page, device):
    secret = device.token("auditor")
    page.sign_in(device.url, secret)
    tokens = tokens_of(device.folder)
    tokens.revoke(secret.split("_")[1])
    tokens.close()
    device.evaluate()
    page.until(lambda: "not valid any more" in page.text("sign-in-error"))
    assert not page.shown("board")
    device.evaluate()
    page.type("secret", device.secret + "\n")
    page.until(lambda: page.text("link-text") == "Live")
    made = len(device.ask("GET", "v1/evaluations")["items"])
    page.until(lambda: len(page.every("#accuracy tbody tr")) == made)


def test_an_auditor_looks_and_verifies_but_changes_nothing(page, device):
    page.sign_in(device.url, device.token("auditor"))
    assert page.segments()
    for id_ in ("erase", "upload-form", "evaluate", "repair-now", "verdict-mend", "tokens-open"):
        assert not page.shown(id_)
    page.click("#verify-all")
    page.log_shows("All stored sub-models: identical: ")


def test_the_theme_follows_the_system_until_one_is_chosen(page, device):
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.open(device.url)
    light = page.run(ground)
    page.look_like(dark=True)
    dark = page.run(ground)
    assert light != dark
    page.find("#theme").send_keys("Light")
    assert page.run(ground) == light
    page.driver.refresh()
    assert page.run(ground) == light


def test_who_wants_no_motion_gets_none(page, device):
    moving = "return getComputedStyle(document.querySelector('.ring')).transitionDuration"
    page.sign_in(device.url, device.secret)
    assert page.run(moving) != "0s"
    page.look_like(still=True)
    assert page.run(moving) == "0s"


def test_arrow_keys_walk_the_lineages_and_say_what_a_forget_would_replay(page, device):
    from selenium.webdriver.common.keys import Keys

    page.sign_in(device.url, device.secret)
    page.run("document.querySelector('[data-segment][tabindex=\"0\"]').focus()")
    at = "return document.activeElement.dataset.segment"
    shards = device.api.shards()
    first = shards[0]["segments"]
    assert page.run(at) == ".".join(map(str, first[0]["segment"]))
    page.keys(Keys.ARROW_RIGHT)
    assert page.run(at) == ".".join(map(str, first[1]["segment"]))
    page.keys(Keys.ARROW_DOWN)
    assert page.run(at).startswith("1.")
    assert len(page.every("[data-segment][tabindex='0']")) == 1
    for user in ("ann", "bob", "cyd"):
        for held in device.api.user(user)["rounds"]:
            (plan,) = device.plan(user, rounds=[held["round"]], count=1)["shards"]
            page.run(f"document.querySelector('[data-segment=\"{'.'.join(map(str, plan['first']))}\"]').focus()")
            text = page.text("lineage-detail")
            start = "start from scratch" if plan["restart"] is None else f"restart from round {plan['restart'][1]} "
            assert start in text
            assert f"replay {len(plan['replay'])} segment" in text
            assert int(re.search(r"([\d,]+) samples? trained again", text)[1].replace(",", "")) == plan["rsn"] + 1


def test_every_picture_has_its_table(page, device):
    page.sign_in(device.url, device.secret)
    drawn(page)
    open_all(page)
    rows = "return document.querySelectorAll(arguments[0] + ' tbody tr').length"
    segments = [each for shard in device.api.shards() for each in shard["segments"]]
    page.until(lambda: page.run(rows, "#lineages-table") == len(segments) == len(page.segments()))
    evaluations = device.ask("GET", "v1/evaluations")["items"]
    assert page.run(rows, "#accuracy") == len(evaluations) > 0
    assert f"{100 * evaluations[0]['accuracy']:.1f} %".replace(".0 %", " %") in page.text("figures")
    assert page.run(rows, "#memory") == device.api.status()["memory"]["sub_models"]
    assert page.run(rows, "#baselines") == 7
    assert {"sisa", "omp-70", "this device"} <= {each.text for each in page.every("#baselines .name")}


def test_many_rounds_scroll_in_their_picture_not_in_the_page(page, device):
    page.look_like(PHONE)
    page.sign_in(device.url, device.secret)
    assert len(page.segments()) > 24
    assert not page.scrolls_sideways()
    pane = "const pane = document.querySelector('.pane'); "
    assert page.run(pane + "return pane.scrollWidth > pane.clientWidth")
    page.until(lambda: page.run(pane + "return pane.scrollLeft > 0"))  # the newest rounds are in sight
    place = "return document.querySelector('.picture .shard').getBoundingClientRect().left"
    page.until(lambda: 0 <= page.run(place) < 100)  # and so are the names of the shards


def test_an_empty_device_says_what_to_do(page, tmp_path):
    with Device(tmp_path / "home", bayes()) as device:
        page.sign_in(device.url, device.secret)
        assert "Nothing has been learned yet." in page.text("lineages")
        for id_, text in (("repairs", "No erasure"), ("receipts", "No receipt"), ("rounds", "No round")):
            page.until(lambda id_=id_, text=text: text in page.text(id_))
        assert page.faults() == []


def test_a_service_that_goes_is_missed_and_found_again(page, device):
    page.sign_in(device.url, device.secret)
    before = page.segments()
    device.kill()
    page.until(lambda: page.shown("banner") and "does not answer" in page.text("banner"))
    assert page.text("link-text") == "Lost"
    page.type("erase-user", "bob\n")
    page.until(lambda: "does not answer" in page.text("erase-error"))
    device.start()
    page.until(lambda: page.text("link-text") == "Live" and not page.shown("banner"))
    page.until(lambda: page.segments() == before)
