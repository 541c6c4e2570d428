"""Power losses on a real file system: ext4 in an image, whose backing file holds only what ext4 wrote to its device.

The image is mounted through a loop device with direct I/O and a long commit interval. A process is killed in it,
another one opens the home, some dirty pages are written back as the kernel might have done, and the backing file is
copied as it is: what was not synced is not in the copy. Mounting the copy replays ext4's journal.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.torture.kills import Outcome, Torture, forked, scratch_folder
from tests.torture.life import Report, live, open_device, perform, report_changes, seeded
from tests.torture.recovery import Story, aftermath, promised, reached
from tests.torture.steps import Steps, install

IMAGE_MB = 24
COMMIT_S = 600
_WRITE_BACK = 2  # SYNC_FILE_RANGE_WRITE
_PAGE = 4096


class Image:
    """A file with ext4 in it."""

    def __init__(self, path: Path, mb: int = IMAGE_MB, block_bytes: int = 1024) -> None:
        self.path = path
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(mb << 20)
            _run("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(block_bytes), str(path))

    def copied(self, path: Path) -> "Image":
        """The bytes of the backing file at this moment, as another image."""
        _run("cp", "--sparse=always", str(self.path), str(path))
        return Image(path)

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """The folder where it is mounted."""
        folder = self.path.with_suffix(".mount")
        folder.mkdir(exist_ok=True)
        device = _run("losetup", "--direct-io=on", "--show", "--find", str(self.path)).strip()
        try:
            _run("mount", "-o", f"commit={COMMIT_S}", device, str(folder))
            try:
                yield folder
            finally:
                _run("umount", str(folder))
        finally:
            _run("losetup", "--detach", device)


@cache
def why_not() -> str | None:
    """Why no image can be mounted here; None where it can."""
    for tool in ("mkfs.ext4", "losetup", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Image(Path(folder) / "image", 8).mounted() as mounted:
                (mounted / "probe").write_bytes(b"x")
        except (subprocess.CalledProcessError, OSError) as error:
            output = getattr(error, "stderr", "") or str(error)
            return f"images cannot be mounted: {output.strip().splitlines()[-1]}"
    return None


def cut_image(tortured: Torture, seed: int) -> Outcome:
    """Kill a device on an image at a drawn moment, open the home in another process, cut the power, and look."""
    draw, case, story = seeded("image", seed), tortured.case, Story(provenance=dict(tortured.reference["provenance"]))
    moments = _moments(tortured)
    syncs = [number for number, what in enumerate(moments, start=1) if what == "before sync"]
    moment = draw.choice(syncs) if draw.random() < 0.6 else draw.randint(1, len(moments))
    then = draw.choice(("nothing", "opens", "opens", "opens", "goes on"))
    last = draw.randint(1, 60) if draw.random() < 0.5 else 0  # the moment of its own end
    where = [f"image {seed}"]

    def dying(report: Report, at: int) -> Steps:
        def die(number: int, what: str) -> None:
            if number == at:
                report({"dying": what})
                os.kill(os.getpid(), signal.SIGKILL)

        return Steps(die)

    def life(report: Report) -> None:
        report_changes(report)
        live(home, case, 0, report, lambda: install(dying(report, moment)))

    def second(report: Report) -> None:
        report_changes(report)
        install(dying(report, last))
        device = open_device(home, case)
        report({"opened": True})
        following = reached(device, case, story) + 1
        if then == "goes on" and following < len(case.calls):
            report({"begun": following})
            perform(device, case.calls[following])
            report({"done": following})
        os.kill(os.getpid(), signal.SIGKILL)

    def after(report: Report) -> None:
        backups = sorted(tortured.scratch.glob("before-*"))
        problems = promised(home, case, story, backups)
        problems += aftermath(home, case, story, tortured.reference, report, backups)
        report({"problems": problems})

    with scratch_folder() as scratch:
        image = template(tortured).copied(Path(scratch) / "live")
        with image.mounted() as folder:
            home = folder / "home"
            lines, killed = forked(life)
            story.hear(lines)
            where += [line["dying"] for line in lines if "dying" in line]
            if then != "nothing":
                lines, _ = forked(second)
                _hear_second(story, lines)
                where += [f"{then}, {line['dying']}" for line in lines if "dying" in line] or [then]
            _write_back_some(folder, draw.random(), seed)
            cut = image.copied(Path(scratch) / "cut")
        with cut.mounted() as folder:
            home = folder / "home"
            lines, _ = forked(after)
    problems = [problem for line in lines for problem in line.get("problems", [])]
    problems += [failure.splitlines()[-1] for failure in story.failures]
    problems += [line["failed"].splitlines()[-1] for line in lines if "failed" in line]
    return Outcome(killed, ", ".join(where), tuple(dict.fromkeys(problems)))


def _moments(tortured: Torture) -> list[str]:
    """What happens at each moment of the case's life."""
    path = tortured.scratch / "moments"
    if not path.exists():
        home = tortured.scratch / "moments-home"
        shutil.copytree(tortured.scratch / "before-0", home)

        def life(report: Report) -> None:
            report_changes(lambda line: None)
            calls: list[str] = []
            steps = Steps(lambda number, what: calls.append(what))
            live(home, tortured.case, 0, lambda line: None, lambda: install(steps)).close()
            path.write_text("\n".join(calls))

        forked(life)
    return path.read_text().splitlines()


def _hear_second(story: Story, lines: list[dict[str, Any]]) -> None:
    """An opening that succeeded has served what was accepted."""
    for line in lines:
        if "opened" in line and story.accepted:
            story.done = story.begun
        story.hear([line])


def template(tortured: Torture) -> Image:
    """An image with the case's new home in it, all of it durable."""
    path = tortured.scratch / "template"
    if path.exists():
        return Image(path)
    assert tortured.reference, "made before anything is copied"
    image = Image(path)
    with image.mounted() as folder:
        shutil.copytree(tortured.scratch / "before-0", folder / "home")
    _moments(tortured)
    return image


def _write_back_some(folder: Path, share: float, seed: int) -> None:
    """Let the kernel write back some pages of some files, as it may at any time."""
    draw, libc = seeded("write back", seed), ctypes.CDLL(None, use_errno=True)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if draw.random() < share:
            whole, pages = draw.random() < 0.7, -(-path.stat().st_size // _PAGE)
            with suppress(OSError), path.open("rb") as file:
                for page in [0] if whole else [n for n in range(min(pages, 64)) if draw.random() < 0.5]:
                    start, size = ctypes.c_int64(page * _PAGE), ctypes.c_int64(0 if whole else _PAGE)
                    libc.sync_file_range(file.fileno(), start, size, _WRITE_BACK | 4)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
