"""The pictures in docs/dashboard.md, of a real device: `make screenshots`."""

import sys
import tempfile
from pathlib import Path

from tests.browser.digits import Device, network
from tests.browser.page import DESKTOP, PHONE, Page, missing

USERS = {
    1: {"ann": 46, "bob": 70, "cyd": 38, "dan": 52},
    2: {"ann": 30, "bob": 26, "dan": 58, "eve": 40},
    3: {"bob": 44, "cyd": 48, "dan": 22, "eve": 36},
    4: {"ann": 34, "cyd": 52, "eve": 28, "fay": 60},
    5: {"bob": 38, "dan": 46, "eve": 24, "fay": 30},
}
LARGEST_BYTES = 300 * 1024


def main(folder: Path) -> int:
    why = missing()
    if why is not None:
        print(why)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, Device(Path(temporary) / "home", network(epochs=12)) as device:
        for users in USERS.values():
            device.learn(users)
            device.evaluate()
        device.api.erase("cyd", rounds=[1], count=10)
        device.ask("POST", "v1/repairs")
        device.settled()
        page = Page(Path(temporary) / "profile")
        try:
            shoot(page, device, folder)
        finally:
            page.close()
    for path in sorted(folder.glob("dashboard-*.png")):
        size = path.stat().st_size
        print(f"{path}: {size:,} bytes")
        assert size <= LARGEST_BYTES, f"{path} has {size} bytes, more than {LARGEST_BYTES}"
    return 0


def shoot(page: Page, device: Device, folder: Path) -> None:
    page.look_like(DESKTOP)
    page.sign_in(device.url, device.secret)
    page.run("document.querySelector('[data-focus^=verify]').click()")  # no pointer that rests on the picture
    page.log_shows("identical")
    page.until(lambda: "simulated…" not in page.text("baselines"))
    page.look_like(DESKTOP)
    page.picture(folder / "dashboard-desktop-light.png", whole=True)
    page.look_like(DESKTOP, dark=True)
    page.picture(folder / "dashboard-desktop-dark.png", whole=True)
    page.look_like(PHONE)
    page.picture(folder / "dashboard-phone.png", whole=True)
    page.look_like((1360, 760))
    page.run("scrollTo(0, 0)")
    page.type("erase-user", "bob\n")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    page.click("input[name=round][value='3']")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    page.run("scrollTo(0, 0)")
    page.still()
    page.picture(folder / "dashboard-preview.png")
    page.click("#erase-confirm")
    page.until(lambda: page.every(".segment.tainted"))
    page.run("scrollTo(0, 0)")
    page.still()
    page.picture(folder / "dashboard-forget.png")
    page.log_shows("falls back")
    page.until(lambda: page.shown("repair-now"))
    page.run("document.getElementById('repair-now').click()")
    page.until(lambda: page.every(".segment.waits.training"))
    page.still()
    page.picture(folder / "dashboard-replay.png")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
