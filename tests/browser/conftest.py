"""A browser for all tests."""

import os

import pytest

from tests.browser.large import LargeDevice
from tests.browser.page import Page, missing


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
    with LargeDevice(tmp_path_factory.mktemp("large") / "porch-camera") as device:
        yield device
