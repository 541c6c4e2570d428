"""The pictures in docs/dashboard.md, of a real device: `make screenshots`."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.digits import Device, network
from tests.browser.large import LargeDevice
from tests.browser.large import make as make_large
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
    with tempfile.TemporaryDirectory() as temporary:
        shoot_small(Path(temporary), folder)
        make_large(Path(temporary) / "porch-camera")  # takes a minute, in which no browser has to stay connected
        with LargeDevice(Path(temporary) / "porch-camera") as large, browser(Path(temporary) / "second") as page:
            shoot_large(page, large, folder)
    for path in sorted(folder.glob("dashboard-*.png")):
        size = path.stat().st_size
        print(f"{path}: {size:,} bytes")
        assert size <= LARGEST_BYTES, f"{path} has {size} bytes, more than {LARGEST_BYTES}"
    return 0


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser that is closed at the end."""
    page = Page(profile)
    try:
        yield page
    finally:
        page.close()


def shoot_small(temporary: Path, folder: Path) -> None:
    """The pictures of a device with three shards and five rounds."""
    with Device(temporary / "home", network(epochs=12)) as device:
        for users in USERS.values():
            device.learn(users)
            device.evaluate()
        device.api.erase("cyd", rounds=[1], count=10)
        device.ask("POST", "v1/repairs")
        device.settled()
        with browser(temporary / "first") as page:
            shoot(page, device, folder)


def drawn(page: Page) -> None:
    """Wait until all of the page is there."""
    page.until(
        lambda: page.rows("receipts") and page.text("baselines") and "simulated…" not in page.text("baselines"), 120
    )


def falling_back(device: Device) -> tuple[str, int]:
    """The user and round whose erasure lets a shard fall back to a stored sub-model and replays the most."""
    plans = {
        (user, round_): device.plan(user, rounds=[round_])["shards"]
        for round_, users in USERS.items()
        for user in users
    }
    chosen = {
        key: sum(len(each["replay"]) for each in shards)
        for key, shards in plans.items()
        if shards and all(each["restart"] is not None for each in shards)
    }
    return max(chosen, key=lambda key: chosen[key])


def shoot_large(page: Page, device: Device, folder: Path) -> None:
    """The page at real size, with a preview of an erasure; on a desktop and on a phone."""
    page.look_like((1440, 900))
    page.sign_in(device.url, device.secret)
    drawn(page)
    pictures = (("large", (1440, 900), False), ("large-dark", (1440, 900), True), ("large-phone", PHONE, False))
    for name, size, dark in pictures:
        page.look_like(size, dark=dark)
        page.type("erase-user", "user-007\n")
        page.until(lambda: page.find("#erase-confirm").is_enabled())
        page.still()
        page.picture(folder / f"dashboard-{name}.png")
        page.press("#erase-cancel")


def shoot(page: Page, device: Device, folder: Path) -> None:
    page.look_like(DESKTOP)
    page.sign_in(device.url, device.secret)
    drawn(page)
    page.press("[data-focus^=verify]")  # no pointer that rests on the picture
    page.log_shows("identical")
    page.look_like(DESKTOP)
    page.picture(folder / "dashboard-desktop-light.png", whole=True)
    page.look_like(DESKTOP, dark=True)
    page.picture(folder / "dashboard-desktop-dark.png", whole=True)
    page.look_like(PHONE)
    page.picture(folder / "dashboard-phone.png", whole=True)
    page.look_like((1360, 760))
    page.run("scrollTo(0, 0)")
    user, round_ = falling_back(device)
    page.type("erase-user", f"{user}\n")
    page.until(lambda: page.find("#erase-confirm").is_enabled())
    page.click(f"input[name=round][value='{round_}']")
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
