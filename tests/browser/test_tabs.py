"""Many tabs, refused streams, long lists, and words that say what is so."""

import contextlib
import re

import httpx
import pytest

from tests.browser.digits import Device, bayes
from tests.quick import quick_only

CONNECTIONS = 6
"""A browser opens no more of them to one service, without HTTP/2."""


@pytest.fixture(scope="module")
def device(browser, tmp_path_factory):
    rounds = [{"ann": 20, "bob": 20, "cyd": 15}, {"ann": 60}]
    with Device(tmp_path_factory.mktemp("device") / "home", bayes(), rounds) as device:
        device.evaluate()
        for _ in range(25):
            device.api.erase("ann", rounds=[2], count=1)
        device.api.repair(wait=True)
        yield device


@contextlib.contextmanager
def tabs(page):
    """Close all tabs but the first one afterwards."""
    first = page.driver.current_window_handle
    try:
        yield
    finally:
        for handle in page.driver.window_handles:
            if handle != first:
                page.driver.switch_to.window(handle)
                page.driver.close()
        page.driver.switch_to.window(first)


def test_more_tabs_than_a_browser_has_connections_are_live_and_hear_of_everything(page, device, thorough):
    with tabs(page):
        page.sign_in(device.url, device.secret)
        for _ in range((12 if thorough else CONNECTIONS + 1) - 1):
            page.driver.switch_to.new_window("tab")
            page.driver.get(device.url)
            page.type("secret", device.secret + "\n")
            page.until(lambda: page.shown("board") and page.text("link-text") == "Live")
        device.api.upload("eve", *device.next(3))
        for handle in page.driver.window_handles:
            page.driver.switch_to.window(handle)
            page.log_shows("3 samples arrived")
            assert page.run("return document.querySelectorAll('[data-segment]').length"), "the page asks for more"
        device.api.erase("eve")


def test_a_stream_that_is_refused_is_told_apart_from_a_service_that_is_gone(page, device):
    secret = device.token("operator")  # of its own: the tabs of the test before may not have left yet
    headers = {"Authorization": f"Bearer {secret}"}
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=device.url, headers=headers, trust_env=False, timeout=30))
        held = [stack.enter_context(client.stream("GET", "/v1/events")).iter_lines() for _ in range(8)]
        assert [next(lines) for lines in held] == ["event: hello"] * 8  # an iterator that is dropped ends its stream
        page.open(device.url)
        page.type("secret", secret + "\n")
        page.until(lambda: "refuses live updates" in page.text("banner"))
        assert "too many streams" in page.text("banner")
        assert "does not answer" not in page.text("banner")
    page.until(lambda: page.text("link-text") == "Live", 30)


@pytest.mark.parametrize(("list_", "count"), quick_only([("receipts", 50), ("repairs", 25)], [("repairs", 25)]))
def test_everything_can_be_reached_beyond_the_first_page(page, device, list_, count):
    page.sign_in(device.url, device.secret)
    seen: list[str] = []
    first = "return Array.from(document.querySelectorAll(`#${arguments[0]} tbody td:first-child`), e => e.textContent)"
    while True:
        page.until(lambda: page.rows(list_) and page.run(first, list_)[0] not in seen)  # noqa: B023
        seen += page.run(first, list_)
        older = f'#{list_} [data-focus="{list_} older"]'
        if page.run("return document.querySelector(arguments[0]).ariaDisabled", older) == "true":
            break
        page.press(older)
    assert len(seen) == len(set(seen)) >= count
    page.press(f'#{list_} [data-focus="{list_} newer"]')
    page.until(lambda: page.run(first, list_)[0] in seen and page.run(first, list_)[-1] != seen[-1])


def test_times_have_dates_and_a_zone(page, device):
    page.sign_in(device.url, device.secret)
    page.until(lambda: page.every("#receipts time"))
    for css in ("#receipts time", "#repairs td.wide time", "#accuracy time"):
        page.until(lambda css=css: page.every(css))
        text = page.run("return document.querySelector(arguments[0]).textContent", css)
        assert re.fullmatch(r"\d{1,2} \w{3,4} \d{4}, \d\d:\d\d:\d\d \S+", text), (css, text)


def test_a_restore_is_not_called_an_erasure(page, device):
    page.sign_in_changed(device.url, device.secret, "/v1/receipts?", "body.items[0].kind = 'restore'")
    page.until(lambda: "restore from a backup" in page.text("receipts"))


def test_a_verification_of_nothing_does_not_say_that_it_holds(page, device):
    zero = "Object.assign(body, {state: 'nothing', sub_models: 0, identical: 0, superseded: 0, unverifiable: 0})"
    page.sign_in_changed(device.url, device.secret, "/v1/verifications", zero)
    page.click("#verify-all")
    page.until(lambda: "nothing was replayed" in page.text("verify-message"))
    assert "holds" not in page.text("verify-message")


def test_an_accuracy_of_other_voters_is_not_shown_as_todays(page, device):
    page.sign_in_changed(device.url, device.secret, "/v1/evaluations", "body.items[0].voters = 1")
    page.until(lambda: "with 1 voter; now" in page.text("figures"))
    page.sign_in(device.url, device.secret)
    assert "; now" not in page.text("figures")


def test_training_of_new_samples_is_not_called_a_repair(page, device):
    waits = "body.repair.waiting = [0]; body.repair.rsn = 0; body.repair.trainings = 1; body.repair.samples = 9"
    page.sign_in_changed(device.url, device.secret, "/v1/status", waits + "; body.schedule.repair = 'deadline'")
    page.until(lambda: "New samples are trained at once" in page.text("repairs-line"))
    assert "deadline" not in page.text("repairs-line")
    assert not page.shown("repair-now")
