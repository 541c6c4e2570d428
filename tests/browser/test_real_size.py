"""The page at real size: 16 shards, 30 rounds, 200 users, 500 receipts. Everything is found, and it stays one page."""

import re

import pytest

from tests.browser.large import RECEIPTS, ROUNDS, SHARDS
from tests.browser.page import PHONE

pytestmark = pytest.mark.long  # the home of this size takes most of a minute to make: `make test-browser` has it
WIDE = (1440, 900)
IN_VIEW = """
const box = document.querySelector(arguments[0]).getBoundingClientRect();
return box.top >= 0 && box.bottom <= innerHeight + 1 && box.left >= 0 && box.right <= innerWidth + 1;
"""


@pytest.fixture
def signed_in(page, large):
    page.look_like(WIDE)
    page.sign_in(large.url, large.secret)
    page.until(lambda: page.rows("receipts") and page.text("baselines") and "simulated…" not in page.text("baselines"))
    return page


def choose(page, user: str) -> None:
    page.type("erase-user", user + "\n")
    page.until(lambda: page.shown("erase-choice") and page.find("#erase-confirm").is_enabled())


def touched_user(large) -> str:
    """A user whose erasure touches one shard."""
    return next(
        user
        for number in range(200)
        if len(large.plan(user := f"user-{number:03}")["shards"]) == 1 and large.plan(user)["destroyed"]
    )


def first_cells(page, list_: str) -> list[str]:
    return page.run(
        "return Array.from(document.querySelectorAll(`#${arguments[0]} tbody td:first-child`), e => e.textContent)",
        list_,
    )


def test_it_is_a_page_of_less_than_2000_pixels_with_every_segment(signed_in, large):
    page = signed_in
    assert page.run("return document.documentElement.scrollHeight") < 2000
    segments = [each for shard in large.api.shards() for each in shard["segments"]]
    assert len(page.segments()) == len(segments) > 0.9 * SHARDS * ROUNDS
    assert len(page.heads()) == SHARDS
    assert page.every(".map")
    assert not page.scrolls_sideways()
    page.look_like(PHONE)
    page.until(lambda: not page.scrolls_sideways())


def test_axe_finds_nothing_at_this_size_in_any_part(signed_in, large):
    page = signed_in
    for dark in (False, True):
        for size in (WIDE, PHONE):
            page.look_like(size, dark=dark, still=True)
            assert page.faults() == [], (dark, size)
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.until(lambda: page.rows("lineages-table"))
    assert page.faults() == []
    page.run("document.querySelectorAll('details').forEach(each => { each.open = false })")
    page.look_like(WIDE, still=True)
    choose(page, touched_user(large))
    assert page.faults() == []
    page.click("#erase-cancel")
    page.click("#glossary-open")
    assert page.faults() == []
    page.click("#glossary-close")


def test_a_preview_is_seen_beside_the_panel_that_would_do_it(signed_in, large):
    page, user = signed_in, touched_user(large)
    expected = large.plan(user)
    choose(page, user)
    marked = {
        kind: {name for name, each in page.segments().items() if kind in each["kind"].split()}
        for kind in ("would-go", "would-replay")
    }
    assert marked["would-go"] == {".".join(map(str, each)) for each in expected["destroyed"]} != set()
    assert marked["would-replay"]
    assert page.run(IN_VIEW, "#erase-confirm"), "the button is in view"
    for kind in ("would-go", "would-replay"):
        assert page.run(IN_VIEW, f".{kind}"), "and so is what it would do"
    page.look_like(PHONE)
    page.click("#erase-cancel")
    choose(page, user)
    page.until(lambda: page.run(IN_VIEW, f"[data-segment='{'.'.join(map(str, expected['shards'][0]['first']))}']"))
    page.until(
        lambda: page.run("return document.querySelector('#erase').getBoundingClientRect().bottom <= innerHeight")
    )
    page.find("#erase-cancel").click()
    assert not page.run("return document.body.classList.contains('previewing')")


def test_a_map_that_is_too_wide_is_scrolled_to_what_a_preview_touches(page, large):
    user = touched_user(large)
    plan = large.plan(user)
    page.look_like(PHONE)
    page.sign_in(large.url, large.secret)
    page.until(lambda: page.run("return document.querySelector('.map-pane').scrollLeft > 0"))  # the newest first
    choose(page, user)
    first = ".".join(map(str, plan["shards"][0]["first"]))
    page.until(
        lambda: page.run(
            "const pane = document.querySelector('.map-pane').getBoundingClientRect();"
            "const cell = document.querySelector(`[data-segment='${arguments[0]}']`).getBoundingClientRect();"
            "return cell.left >= pane.left && cell.right <= pane.right",
            first,
        )
    )
    page.find("#erase-cancel").click()


def test_any_receipt_is_found_by_number_or_id_with_two_actions(signed_in, large):
    page = signed_in
    wanted = large.ask("GET", "v1/receipts?limit=1&before=124")["items"][0]
    page.type("receipts-search", "123\n")
    page.until(lambda: first_cells(page, "receipts")[:1] == ["123"])
    page.type("receipts-search", wanted["request"][:10] + "\n")
    page.until(lambda: page.rows("receipts") == 2 and "123" in first_cells(page, "receipts"))
    page.type("receipts-search", "no id\n")
    page.until(lambda: "0 to 9 and a to f" in page.text("receipts"))
    page.click("#receipts-clear")
    newest = large.api.log().size - 1
    page.until(lambda: first_cells(page, "receipts")[:1] == [str(newest)])
    assert newest + 1 >= RECEIPTS - 8


def test_requests_are_filtered_by_state_and_date_on_the_service(signed_in, large):
    page = signed_in
    page.run(
        "const s = document.getElementById('repairs-kind'); s.value = 'open'; s.dispatchEvent(new Event('change'))"
    )
    still_open = [each["id"][:8] for each in large.ask("GET", "v1/requests?state=open")["items"]]
    page.until(lambda: first_cells(page, "repairs") == still_open)
    page.click("#repairs-clear")
    oldest = large.ask("GET", "v1/requests?limit=500")["items"][-1]
    day = oldest["received"][:10]
    for id_ in ("from", "to"):
        page.run(
            "const at = document.getElementById(arguments[0]); at.value = arguments[1];"
            "at.dispatchEvent(new Event('input'))",
            f"repairs-{id_}",
            day,
        )
    of_the_day = [
        each["id"][:8] for each in large.ask("GET", "v1/requests?limit=500")["items"] if each["received"][:10] == day
    ]
    page.until(lambda: first_cells(page, "repairs") == of_the_day[:6])
    assert oldest["id"][:8] in of_the_day
    page.click("#repairs-clear")


def test_times_have_full_dates_and_a_zone(signed_in):
    for css in ("#receipts td.wide time", "#repairs td.wide time", "#rounds td.wide time"):
        signed_in.until(lambda css=css: signed_in.every(css))
        text = signed_in.run("return document.querySelector(arguments[0]).textContent", css)
        assert re.fullmatch(r"\d{1,2} \w{3,4} \d{4}, \d\d:\d\d:\d\d \S+", text), (css, text)


def test_charts_have_time_axes_voters_and_erasures_also_after_a_reload(signed_in, large):
    page = signed_in
    texts = "return Array.from(document.querySelectorAll(`#${arguments[0]} .axis`), each => each.textContent)"
    points = "return document.querySelectorAll(`#${arguments[0]} .chart .point`).length"
    before = {}
    for chart in ("accuracy", "retrained"):
        axis = page.run(texts, chart)
        assert sum(bool(re.fullmatch(r"\d{1,2} \w{3,4}", text)) for text in axis) >= 3, axis
        before[chart] = page.run(points, chart)
        assert page.run(f"return document.querySelectorAll('#{chart} .chart .mark').length") > 20
    evaluations = large.ask("GET", "v1/evaluations?limit=500")["items"]
    assert before["accuracy"] == len(evaluations) == 2 * ROUNDS
    titles = page.run("return Array.from(document.querySelectorAll('#accuracy .point title'), e => e.textContent)")
    assert {
        f"with {each['voters']} voters" in title for each, title in zip(evaluations[::-1], titles, strict=True)
    } == {True}
    assert page.every("#accuracy .chart .count-line")
    page.driver.refresh()
    page.until(lambda: page.run(points, "accuracy") == before["accuracy"])
    assert page.run(points, "retrained") >= before["retrained"]
    assert page.run("return document.querySelectorAll('#memory .chart, #memory .muted').length") >= 1


def test_the_device_has_its_name_in_header_and_title(signed_in, large):
    assert large.api.status()["name"] == "porch-camera"
    assert signed_in.text("device-name") == "porch-camera"
    assert signed_in.driver.title == "porch-camera · CAUSE"


def test_words_are_explained_and_lead_into_the_documentation(signed_in, large):
    import httpx

    page = signed_in
    page.click("#glossary-open")
    assert "Lineage" in page.text("glossary-terms")
    links = page.run("return Array.from(document.querySelectorAll('a[href^=\"/docs/\"]'), each => each.href)")
    assert len(links) > 10
    for link in set(links):
        answer = httpx.get(link, trust_env=False)
        assert answer.status_code == 200, link
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    page.click("#glossary-close")


@pytest.mark.parametrize(
    ("change", "state", "reason", "button"),
    [
        ("body.requests.overdue = 2; body.problem = '2 …: repair now'", "overdue", "2 erasures are past", "repair"),
        ("body.degraded = body.problem = null; body.requests.due_soon = 1", "degraded", "1 erasure must be", "repair"),
        ("body.degraded = {not_voting: [3], of: 16, since: null}", "degraded", "Shard 3 of 16 does not", "repair"),
        ("body.degraded = null; body.problem = 'a disk fails'", "degraded", "a problem: a disk fails", "repair"),
        (
            "body.degraded = null; body.problem = null; body.quarantine = {uploads: 3, samples: 20, next: 7, items: [{"
            "upload: 7, user: 'bob', round: 2, shard: 0, samples: 8, verdict: 'DivergedError', since: null}]}",
            "degraded", "3 uploads with 20 samples are in quarantine", "show",
        ),
        ("body.degraded = null; body.problem = null", "healthy", "All shards vote. 4 erasures wait", None),
        (
            "body.degraded = null; body.problem = null; body.requests = {open: 0, overdue: 0, due_soon: 0, "
            "next_deadline: null}",
            "healthy", "All shards vote, and nothing is late", None,
        ),
    ],
)  # fmt: skip
def test_one_verdict_with_its_reason_and_what_mends_it(page, large, change, state, reason, button):
    page.look_like(WIDE)
    page.sign_in_changed(large.url, large.secret, "/v1/status", change)
    page.until(lambda: reason in page.text("verdict-reason"))
    assert page.find("#verdict").get_attribute("data-state") == state
    assert page.shown("verdict-mend") == (button is not None)
    if button == "show":
        page.click("#verdict-mend")
        assert page.run(IN_VIEW, "#quarantine")
        assert "the first 1 of 3 uploads" in page.text("quarantine")
    elif button:
        assert page.find("#verdict-mend").text == "Repair now"


def test_the_tab_key_reaches_every_control(signed_in):
    """Everything that can be pressed, filled in or unfolded gets the focus, in the order of the page, and shows it."""
    from selenium.webdriver.common.keys import Keys

    page = signed_in
    controls = """
    const found = document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]');
    return Array.from(found).filter(each => each.checkVisibility() && !each.disabled && each.tabIndex >= 0
      && !each.closest('details:not([open]) > :not(summary)')).length;
    """
    page.run("document.activeElement.blur(); window.seen = new Set(); scrollTo(0, 0)")
    wanted = page.run(controls)
    for _ in range(2 * wanted):
        page.keys(Keys.TAB)
        done = page.run(
            "const at = document.activeElement; if (at !== document.body) window.seen.add(at);"
            f"return window.seen.size >= {wanted}"
        )
        if done:
            break
    missed = page.run(
        "return Array.from(document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]'))"
        ".filter(each => each.checkVisibility() && !each.disabled && each.tabIndex >= 0 && !window.seen.has(each)"
        " && !each.closest('details:not([open]) > :not(summary)')).map(each => each.outerHTML.slice(0, 100))"
    )
    assert missed == []


def test_the_newest_of_all_is_repaired_by_the_button_of_the_verdict(signed_in, large):
    """Last: it changes the device."""
    page = signed_in
    assert page.find("#verdict").get_attribute("data-state") == "degraded"
    page.click("#verdict-mend")
    large.settled(120)
    page.until(lambda: page.find("#verdict").get_attribute("data-state") == "healthy", 60)
    page.until(lambda: not page.shown("verdict-mend"))
