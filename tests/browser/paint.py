"""How long the page takes at real size, alone and beside predictions: `python -m tests.browser.paint [FOLDER]`.

FOLDER holds the home of `tests.browser.large`, and is made where it is missing.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cause.cli.output import print_table
from tests.browser.digits import Device, part
from tests.browser.large import LargeDevice
from tests.browser.page import Page, missing
from tests.waiting import pass_time

RATE = 60.0  # predictions a second
TIMES = 5
TIMING = """
const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN;
const board = performance.getEntriesByName('board')[0]?.startTime ?? NaN;
return [paint, board];
"""


@contextmanager
def predicting(device: Device) -> Iterator[list[float]]:
    """Ask for `RATE` predictions a second, in four threads that are connected already; what each took, in seconds."""
    took: list[float] = []
    stop = threading.Event()
    connected = threading.Barrier(5)
    x = part(1500, 1)[0].reshape(1, -1)

    def ask(offset: float) -> None:
        with device.client(device.secret) as client:
            client.predict(x)
            connected.wait()
            due = time.perf_counter() + offset
            while not stop.is_set():
                pass_time(max(0.0, due - time.perf_counter()))
                start = time.perf_counter()
                client.predict(x)
                took.append(time.perf_counter() - start)
                due = max(due + 4 / RATE, time.perf_counter() - 1)

    threads = [threading.Thread(target=ask, args=(number / RATE,)) for number in range(4)]
    for thread in threads:
        thread.start()
    connected.wait()
    try:
        yield took
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def timed(page: Page) -> tuple[list[float], list[float]]:
    """First paint, and when the board is there, after reloads, in milliseconds."""
    paints, boards = [], []
    for _ in range(TIMES):
        page.driver.refresh()
        page.until(lambda: page.shown("board") and page.rows("receipts"), 60)
        paint, board = page.run(TIMING)
        paints.append(paint)
        boards.append(board)
    return sorted(paints), sorted(boards)


def cpu_s(device: Device) -> float:
    """CPU seconds of the service so far, without its workers."""
    assert device.process is not None
    fields = Path(f"/proc/{device.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def page_cpu_s(page: Page) -> float:
    """CPU seconds of the page's main thread since it was loaded."""
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def main(folder: Path) -> int:
    why = missing()
    if why is not None:
        print(why)
        return 2
    rows = []
    with tempfile.TemporaryDirectory() as profile, LargeDevice(folder) as device:
        page = Page(Path(profile))
        try:
            page.driver.execute_cdp_cmd(
                "Performance.enable", {"timeDomain": "threadTicks"}
            )  # not the time that it waits
            page.look_like((1440, 900))
            page.sign_in(device.url, device.secret)
            page.until(lambda: page.text("baselines") and "simulated…" not in page.text("baselines"), 120)
            for name in ("alone", f"beside {RATE:.0f} predictions a second"):
                before = cpu_s(device)
                if name == "alone":
                    paints, boards = timed(page)
                    reload_cpu_s = (cpu_s(device) - before) / TIMES
                    rows.append(
                        [
                            "CPU of a reload",
                            f"service {1e3 * reload_cpu_s:.0f} ms, page {1e3 * page_cpu_s(page):.0f} ms",
                        ]
                    )
                else:
                    with predicting(device) as took:
                        start = time.perf_counter()
                        paints, boards = timed(page)
                        elapsed, answered = time.perf_counter() - start, len(took)
                        spent = cpu_s(device) - before - TIMES * reload_cpu_s
                    rows.append(
                        ["CPU of a prediction", f"service {1e3 * spent / max(1, answered):.1f} ms, beside the page"]
                    )
                    # those that were under way at the end were asked for in time, too: one for each thread at most
                    rate, slow = answered / elapsed, sorted(took)[int(0.95 * len(took))]
                    asked = f"{answered} answered of {RATE * elapsed:.0f} asked for"
                    rows.append(["predictions", f"{rate:.0f} a second ({asked}), p95 {1e3 * slow:.0f} ms"])
                rows.append([f"first paint, {name}", f"median {paints[TIMES // 2]:.0f} ms, most {paints[-1]:.0f} ms"])
                rows.append([f"the board, {name}", f"median {boards[TIMES // 2]:.0f} ms, most {boards[-1]:.0f} ms"])
        finally:
            page.close()
    rows.append(["load average", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"])
    print_table("The page at real size", ["what", "time after the reload begins"], rows, names=2)
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary) / "home"))
