"""Debian's Chromium, driven by Selenium, as somebody at the dashboard uses it."""

import importlib.util
import os
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

SWITCHES = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip
DESKTOP, PHONE = (1360, 900), (360, 740)


def missing() -> str | None:
    """Why there is no browser, if there is none."""
    for package in ("selenium", "axe_core_python"):
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is missing: pip install 'cause[dev]'"
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install chromium chromium-driver"
    return None


class Page:
    """A browser with one page."""

    def __init__(self, profile: Path) -> None:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service

        options = ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for switch in (*SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(120)  # axe on a page of real size, on a busy machine

    def close(self) -> None:
        self.driver.quit()

    def look_like(self, size: tuple[int, int] = DESKTOP, *, dark: bool = False, still: bool = False) -> None:
        """A screen of this size, with the system's wishes for colours and motion."""
        wide, high = size
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": wide < 600},
        )
        wishes = {"prefers-color-scheme": "dark" if dark else "light"}
        wishes["prefers-reduced-motion"] = "reduce" if still else "no-preference"
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, url: str) -> None:
        """As somebody who never was here."""
        self.driver.get(url + "healthz")  # of the same origin, and loads nothing
        self.run("sessionStorage.clear(); localStorage.clear()")
        self.driver.get(url)
        self.until(lambda: self.shown("sign-in"))
        self.driver.get_log("browser")

    def sign_in(self, url: str, secret: str) -> None:
        self.open(url)
        self.type("secret", secret + "\n")
        self.until(lambda: self.shown("board") and self.text("link-text") == "Live")

    def sign_in_changed(self, url: str, secret: str, path: str, change: str) -> None:
        """Sign in where an answer of the service is another one: `change` is a script on `body`."""
        self.open(url)
        self.run(
            "const real = window.fetch; window.fetch = async (path, options) => { const answer = await real(path, "
            f"options); if (!String(path).startsWith({path!r}) || !answer.ok) return answer; const body = await "
            f"answer.json(); {change}; return new Response(JSON.stringify(body), {{ status: answer.status }}); }};"
        )
        self.type("secret", secret + "\n")
        self.until(lambda: self.shown("board"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def every(self, css: str) -> list[Any]:
        return self.driver.find_elements("css selector", css)

    def text(self, id_: str) -> str:
        """What an element says, also where it is not in sight."""
        return self.run("return document.getElementById(arguments[0]).textContent", id_)

    def shown(self, id_: str) -> bool:
        return self.find(f"#{id_}").is_displayed()

    def click(self, css: str) -> None:
        """Click on an element as soon as it can be seen."""
        self.until(lambda: self.find(css).is_displayed())
        target = self.find(css)
        self.run("arguments[0].scrollIntoView({block: 'center'})", target)
        target.click()

    def type(self, id_: str, text: str) -> None:
        found = self.find(f"#{id_}")
        found.clear()
        found.send_keys(text)

    def keys(self, *keys: str) -> None:
        """To whatever has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        return self.run("return document.activeElement.id || document.activeElement.dataset.focus || ''")

    def until(self, true: Callable[[], Any], seconds: float = 20) -> Any:
        """Wait for something to be so."""
        return wait_until(true, seconds, lambda: f"it never came: {self.text('log')}")

    def log_shows(self, *sentences: str) -> None:
        """Wait until the log on the page shows all these sentences, in this order."""

        def heard() -> bool:
            log, at = self.text("log"), 0
            for sentence in sentences:
                at = log.find(sentence, at) + 1
                if not at:
                    return False
            return True

        self.until(heard)

    def segments(self) -> dict[str, dict[str, str]]:
        """The picture: of each segment what it shows."""
        return self.run(
            "return Object.fromEntries(Array.from(document.querySelectorAll('[data-segment]'), each => "
            "[each.dataset.segment, {...each.dataset, kind: each.getAttribute('class')}]))"
        )

    def heads(self) -> dict[str, str]:
        return self.run(
            "return Object.fromEntries(Array.from(document.querySelectorAll('[data-head]'), "
            "each => [each.dataset.head, each.dataset.at]))"
        )

    def unfold(self, id_: str) -> None:
        """Open something that can be unfolded, as a click on its summary does."""
        if not self.run("return document.getElementById(arguments[0]).open", id_):
            self.click(f"#{id_} > summary")

    def rows(self, id_: str) -> int:
        """How many rows a table has."""
        return self.run("return document.querySelectorAll(`#${arguments[0]} tbody tr`).length", id_)

    def press(self, css: str) -> None:
        """Click something that may be drawn anew at any moment, when relative times change."""
        self.run("document.querySelector(arguments[0]).click()", css)

    def scrolls_sideways(self) -> bool:
        return self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def faults(self) -> list[str]:
        """What axe finds, however small."""
        if not self.run("return 'axe' in window"):
            self.run(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
        found = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[arguments.length - 1])"
        )
        return [
            f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    def complaints(self) -> list[str]:
        """What the browser itself found wrong: scripts that failed, what the content policy stopped."""
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot; of the whole page if wanted."""
        if whole:
            size = self.run("return [innerWidth, document.documentElement.scrollHeight]")
            scheme = self.run("return matchMedia('(prefers-color-scheme: dark)').matches")
            self.look_like((size[0], size[1]), dark=scheme)
            self.still()
        self.driver.save_screenshot(str(path))

    def still(self) -> None:
        """Wait until nothing moves, but for what moves for ever."""
        ended = "return document.getAnimations().every(one => one.effect.getTiming().iterations === Infinity)"
        self.until(lambda: self.run(ended))
