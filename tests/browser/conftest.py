"""A browser for all tests."""

import os

import pytest

from tests.browser.page import Page, missing

QUICK = (
    "test_from_upload_to_a_verified_receipt",
    "test_a_name_is_only_ever_text",
    "test_an_erasure_whose_answer_was_lost_is_not_made_twice[lost]",
    "test_an_erasure_with_two_clicks_is_one_request",
    "test_nothing_comes_from_elsewhere",
    "test_the_token_stays_in_the_tab",
    "test_every_text_is_in_one_file",
    "test_the_page_preloads_every_module_that_it_uses",
)
"""What `make test` tries in a browser, if there is one; `make test-browser` tries everything."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.same_process("browser"))  # each process would start one
            if item.name not in QUICK:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    why = missing()
    if why is not None:
        if os.environ.get("CAUSE_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    page = Page(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()


@pytest.fixture
def page(browser):
    browser.look_like()
    yield browser
    complaints = [each for each in browser.complaints() if "Failed to load resource" not in each]
    assert complaints == [], "the browser complains"


@pytest.fixture(scope="session")
def large(browser, tmp_path_factory):
    """A device at real size, made once for all tests."""
    from tests.browser.large import LargeDevice

    with LargeDevice(tmp_path_factory.mktemp("large") / "porch-camera") as device:
        yield device
