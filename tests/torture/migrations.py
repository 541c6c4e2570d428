"""Interrupt the first opening of an earlier version's home: kills, power cuts, and chains of both.

The opening is recorded once. Each try takes the disk as a kill or a cut could have left it, perhaps lets another
process open the home there and die as well, and then opens the home on a good disk: all that the earlier version
held must be there, and must verify.
"""

import json
import random
import shutil
import tarfile
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from cause.device.device import Cause
from cause.device.fsck import examine_home
from cause.errors import CauseError
from tests.fixtures.homes.describe import described
from tests.recording_disk import RecordingDisk, Sync, SyncFolder, cut_states
from tests.torture.life import seeded
from tests.torture.recorded_home import on
from tests.torture.reopening import reachable

ARCHIVES = sorted((Path(__file__).parents[1] / "fixtures" / "homes").glob("*.tar.xz"))


class Migration:
    """The recorded first opening of a home that an earlier version made."""

    def __init__(self, archive: Path, scratch: Path) -> None:
        self.scratch, self.root = scratch, scratch / "root"
        self.root.mkdir()
        with tarfile.open(archive) as tar:
            tar.extractall(self.root, filter="data")
        self.inputs = np.load(self.root / "inputs.npy")
        expected = json.loads((self.root / "expected.json").read_text())
        self.disk = RecordingDisk(self.root)
        self._open_on(self.disk)
        with closing(Cause(self.root / "home")) as device:
            self.reference = self._content(device)
            same_bits = device.learner.environment == expected["environment"]
        kept = [name for name in self.reference if name in expected and (same_bits or name != "predictions")]
        assert {name: self.reference[name] for name in kept} == {name: expected[name] for name in kept}

    def attempt(self, draw: random.Random, *, resumed: float = 0.5) -> list[str]:
        """Interrupt the opening at a drawn moment, with probability `resumed` a second one, too.

        Returns
        -------
        What was wrong afterwards, each with the events that led to it.
        """
        disk, first, events = self.disk, 0, []
        folder = self.scratch / "resumed"
        if draw.random() < resumed:
            done, killed = _moment(disk, 0, draw), draw.random() < 0.6
            shutil.rmtree(folder, ignore_errors=True)
            if killed:
                disk = RecordingDisk.resumed(folder, disk.initial, disk.operations[:done])
            else:
                ((_, state),) = cut_states(disk, [done], draw)
                disk = RecordingDisk.resumed(folder, reachable(state))
            first = len(disk.operations)
            events.append(f"{'kill' if killed else 'cut'} after {done} operations, opened")
            try:
                self._open_on(disk)
            except CauseError as error:
                return [f"{events[0]}: {error}"]
        done = _moment(disk, first, draw)
        state_folder = self.scratch / "state"
        shutil.rmtree(state_folder, ignore_errors=True)
        if draw.random() < 0.3:
            events.append(f"kill after {done - first}")
            RecordingDisk.resumed(state_folder, disk.initial, disk.operations[:done])
        else:
            events.append(f"cut after {done - first}")
            ((_, state),) = cut_states(disk, [done], draw)
            state.write_to(state_folder)
        where = ", ".join(events)
        return [f"{where}: {problem}" for problem in self._problems(state_folder / "home")]

    def _open_on(self, disk: RecordingDisk) -> None:
        with on(disk):
            device = Cause(disk.root / "home")
            with suppress(CauseError):
                device.close()

    def _content(self, device: Cause) -> dict[str, object]:
        content = json.loads(json.dumps(described(device, self.inputs)))
        return {**content, "log_size": device.home.receipts.size}

    def _problems(self, home: Path) -> list[str]:
        try:
            with closing(Cause(home)) as device:
                content = self._content(device)
                verified = device.verify(processes=0)
            examined = [problem.what for problem in examine_home(home).problems]
        except CauseError as error:
            return [f"it cannot be opened: {error}"]
        differing = [name for name in self.reference if content[name] != self.reference[name]]
        wrong = [f"mismatched: {verified.mismatched}"] if verified.mismatched or verified.wrong else []
        return [*(f"{name} is not what it was" for name in differing), *wrong, *examined]


def _moment(disk: RecordingDisk, first: int, draw: random.Random) -> int:
    """A number of operations, most often one before a sync, when the most is not durable."""
    syncs = [n for n in range(first, len(disk.operations)) if isinstance(disk.operations[n], Sync | SyncFolder)]
    return draw.choice(syncs) if syncs and draw.random() < 0.6 else draw.randint(first, len(disk.operations))


def interrupted_migrations(archive: Path, scratch: Path, count: int, seed: int = 0) -> tuple[int, list[str]]:
    """Interrupt the migration of one home so many times: how many tries, and what was wrong."""
    migration = Migration(archive, scratch)
    problems = []
    for number in range(count):
        problems += migration.attempt(seeded("migration", archive.name, seed, number))
    return count, problems
