"""What the commands for a device share: options, opening a home, reading lists and moments."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from struct import error as struct_error
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli.output import spinner
from cause.errors import HomeError, InputError

if TYPE_CHECKING:
    from cause.device.config import Config
    from cause.device.device import Cause
    from cause.device.energy.model import EnergyModel
    from cause.device.store.home import Home
    from cause.engine.learner import Learner
    from cause.engine.ledger import Quarantined
    from cause.engine.presets import System
    from cause.engine.progress import Watch
    from cause.learners.deferred import DeferredLearner
    from cause.learners.recorded import RecordedLearner

BROKEN = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    MemoryError,
    struct_error,
)
"""What code raises that meets a stored value of another kind than it was."""
MOST_HANDLE_BYTES = 1 << 28
HomeFolder = Annotated[Path, typer.Argument(help="The device's home.", show_default=False)]
DataFiles = Annotated[
    list[Path],
    typer.Argument(
        help="npz (x, y, perhaps users), CSV (label, perhaps user), or a folder of pictures (USER/CLASS/a.png).",
        show_default=False,
    ),
]
DataFile = Annotated[Path, typer.Argument(help="npz (x, y), CSV (label), or a folder of pictures.", show_default=False)]
Split = Annotated[str, typer.Option(help="Which part of a file that has several: train or test.")]
ClassNames = Annotated[
    str | None,
    typer.Option(help="For folders of pictures: the classes in the order of their numbers, as cat,dog,fox."),
]
Repair = Annotated[
    str | None,
    typer.Option(help="Whether shards that wait are trained now or later. [default: as the home is configured]"),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", help="What a sample costs here, from `cause calibrate --out`: seconds and joules."),
]


@contextmanager
def upgrade_status(home: Path, read_only: bool) -> Iterator[None]:
    """Show on a terminal that a home of an older format is brought up to date, which may take a while."""
    from cause.device.store.disk import open_to_read
    from cause.device.store.layout import FORMAT, Layout

    try:
        with open_to_read(Layout(home).ledger) as ledger:
            ledger.seek(60)  # where SQLite keeps `user_version`
            found = int.from_bytes(ledger.read(4), "big")
    except OSError:
        found = FORMAT
    if read_only or not 0 < found < FORMAT:
        yield
        return
    with spinner(f"bringing {str(home)!r} from format {found} to {FORMAT}"):
        yield


@contextmanager
def naming_damage(home: Path) -> Iterator[None]:
    """Say what is damaged where a value that was stored makes no sense; other mistakes stay what they are."""
    try:
        yield
    except BROKEN as error:
        from cause.device.fsck import examine_home

        problems = examine_home(home).problems
        if not problems:
            raise
        raise HomeError(
            f"{str(home)!r} is damaged ({type(error).__name__}): {problems[0].what}; `cause doctor --home` tells more"
        ) from None


@contextmanager
def opened(
    home: Path,
    *,
    read_only: bool = False,
    watch: "Watch | None" = None,
    looking: bool = False,
    deferred: bool = False,
) -> Iterator["Cause"]:
    """The device that lives there; for `looking` without what learns in it, whose import would take seconds.

    With `deferred` the learner is made when something is trained.
    """
    need("cryptography", "home")
    with naming_damage(home), _opened(home, read_only, watch, looking, deferred) as device:
        yield device


@contextmanager
def _opened(home: Path, read_only: bool, watch: "Watch | None", looking: bool, deferred: bool) -> Iterator["Cause"]:
    from cause.device.device import Cause
    from cause.device.store.retrying import retried

    def open_device() -> "Cause":
        try:
            learner = recorded_learner(home) if looking else deferred_learner(home) if deferred else None
            with upgrade_status(home, read_only):
                return Cause(home, learner=learner, read_only=read_only, watch=watch)
        except ModuleNotFoundError as error:
            raise InputError(f"the learner of {str(home)!r} needs {error.name}: install it") from None

    device = retried(open_device) if read_only else open_device()
    try:
        yield device
    finally:
        device.close()


@contextmanager
def opened_home(home: Path) -> Iterator["Home"]:
    """A home for reading, without its learner."""
    config = config_of(home)
    from cause.device.store.home import Home
    from cause.device.store.retrying import retried

    with naming_damage(home):
        found = retried(partial(Home, home, config.source(home), read_only=True))
        try:
            yield found
        finally:
            found.close()


def recorded_learner(home: Path) -> "RecordedLearner | None":
    """What the home remembers of its learner; None if it was made before homes did."""
    from cause.learners.recorded import RecordedLearner

    recipe, size, _ = _recorded(home)
    return None if recipe is None or size is None else RecordedLearner(bytes(recipe), size)


def deferred_learner(home: Path) -> "DeferredLearner | None":
    """The learner of a home, made when it is needed; None if the home cannot say enough of it before."""
    from cause.learners.deferred import DeferredLearner

    (recipe, size, environment), described = _recorded(home), config_of(home).learner
    if recipe is None or size is None or environment is None or described is None:
        return None

    def load(system: "System | None") -> "Learner":
        from cause.learners.described import build

        try:
            made = build(described)
        except ModuleNotFoundError as error:
            raise InputError(f"the learner of {str(home)!r} needs {error.name}: install it") from None
        return made if system is None else made.composed(system)

    return DeferredLearner(bytes(recipe), size, load, classes=described.get("classes"))


def _recorded(home: Path) -> tuple[Any, Any, Any]:
    """Recipe, size of a sub-model and environment, as far as the ledger remembers them."""
    config_of(home)
    from cause.device.store.database import Database
    from cause.device.store.layout import Layout

    database = Database(Layout(home).ledger, read_only=True)
    try:
        return database.get("recipe"), database.get("sub_model_bytes"), database.get("environment")
    finally:
        database.close()


def need(module: str, extra: str) -> None:
    """Refuse to begin without a package."""
    if find_spec(module) is None:
        raise InputError(f"this needs {module}: pip install 'cause[{extra}]'")


def config_of(home: Path) -> "Config":
    """What a home was made as."""
    need("cryptography", "home")
    from cause.device.config import read_config
    from cause.device.store.layout import Layout

    path = Layout(home).config
    if not path.exists():
        raise HomeError(f"{str(home)!r} is not a home: `cause init` makes one")
    return read_config(path)


def classes_of(home: Path) -> int:
    """How many classes a home's device has, without loading its learner."""
    from cause.engine.checks import CLASSES

    found = config_of(home)
    return found.settings.classes or int((found.learner or {}).get("classes") or CLASSES)


def trains_on(home: Path) -> str:
    """Where the learner of a home trains: cpu, cuda …"""
    return str((config_of(home).learner or {}).get("device", "cpu"))


def repair_of(home: Path, asked: str | None) -> str:
    """Now or later: as asked, or as the home is configured."""
    from cause.common.registry import check_choice
    from cause.device.config import REPAIRS

    if asked is None:
        return config_of(home).settings.repair
    check_choice("repair", asked, REPAIRS)
    return asked


def model_of(calibration: Path | None) -> "EnergyModel | None":
    """The calibration in a file, if there is one."""
    if calibration is None:
        return None
    from cause.device.energy.model import EnergyModel

    return EnergyModel.load(calibration)


def names_of(text: str | None) -> list[str] | None:
    """A list of names, as cat,dog."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"a list of different names is needed, as cat,dog,fox, not {text!r}")
    return names


def numbers_of(text: str | None, option: str) -> list[int] | None:
    """A list of whole numbers, as 1,2.

    >>> numbers_of("1,2", "--rounds"), numbers_of(None, "--rounds")
    ([1, 2], None)
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InputError(f"{option} takes whole numbers, as 1,2, not {text!r}")
    return [int(part) for part in parts]


def quarantined(each: "Quarantined") -> dict[str, Any]:
    """Samples in quarantine, for JSON."""
    told = {"upload": each.upload, "user": each.user, "round": each.round, "shard": each.segment.shard}
    return {**told, "samples": each.samples, "verdict": each.verdict, "since": each.since}


def samples_of(text: str | None) -> list[tuple[int, int]] | None:
    """A list of samples, as round:position.

    >>> samples_of("1:0,1:5")
    [(1, 0), (1, 5)]
    """
    if text is None:
        return None
    found = []
    for part in text.split(","):
        numbers = [number.strip() for number in part.split(":")]
        if len(numbers) != 2 or not all(n.isascii() and n.isdigit() and len(n) < 16 for n in numbers):
            raise InputError(f"--samples takes round:position, as 1:0,1:5, not {text!r}")
        found.append((int(numbers[0]), int(numbers[1])))
    return found


def handles_of(text: str | None) -> list[str] | None:
    """A list of handles, as a1,b2, or the lines of a file, as @FILE.

    >>> handles_of("a1, b2")
    ['a1', 'b2']
    """
    if text is None:
        return None
    listed = text.split(",")
    if text.startswith("@"):
        try:
            with Path(text[1:]).open(encoding="utf-8") as file:
                listed = file.read(MOST_HANDLE_BYTES + 1).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {text[1:]!r}: {getattr(error, 'strerror', None) or 'not text'}") from None
        if sum(map(len, listed)) > MOST_HANDLE_BYTES:
            raise InputError(f"{text[1:]!r} is too long for a list of handles ({MOST_HANDLE_BYTES:,} bytes)")
    found = [part.strip() for part in listed if part.strip()]
    if not found:
        raise InputError(f"--handles takes handles, as a1,b2, or @FILE with one a line, not {text!r}")
    return found


def key_of(segment: Any) -> list[int]:
    """A segment or sub-model in JSON: [shard, round], with slices [shard, round, slice]."""
    shard, round_, slice_ = segment
    return [shard, round_, slice_] if slice_ else [shard, round_]


def moment(seconds: float | None) -> str:
    """A time as people read it, in UTC."""
    from datetime import UTC, datetime

    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """A length of time as people read it.

    >>> duration(0.25), duration(75), duration(7200), duration(3 * 86400)
    ('0.2 s', '75 s', '2.0 h', '3.0 days')
    """
    for unit, size in (("days", 86_400), ("h", 3_600)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
