"""What the commands on a home share: options, opening the home, parsing lists, formatting times."""

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
    from cause.device.home.home import Home
    from cause.engine.executor import Executor
    from cause.engine.learner import Learner
    from cause.engine.ledger import Quarantined
    from cause.engine.presets import System
    from cause.engine.progress import Watch
    from cause.executors.cluster import RayExecutor
    from cause.learners.deferred import DeferredLearner

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
"""What code may raise when a stored value is damaged."""
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

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Train on the Ray cluster at this address: HOST:PORT, auto for the one of this machine.",
    ),
]
PerWorker = Annotated[
    str | None,
    typer.Option(help="With --ray: what each worker needs, as cpus=1,gpus=0.1,memory=2000000000. [default: cpus=1]"),
]
OtherEnvironments = Annotated[
    str | None,
    typer.Option(
        help="With --ray: refuse nodes of another environment, or let them train whole-shards. [default: refuse]"
    ),
]


Lease = Annotated[
    str | None,
    typer.Option(
        help="With --ray: how long a worker may live without the device, as 5s; an erasure waits that long at most. "
        "[default: 5s]"
    ),
]


def executor_of(
    ray: str | None, per_worker: str | None, other_environments: str | None = None, lease: str | None = None
) -> "RayExecutor | None":
    """Return the executor that the options of a command name; None to train as the home is configured."""
    if ray is None:
        if per_worker is not None:
            raise InputError("--per-worker says what a worker of a cluster needs: name the cluster with --ray")
        if other_environments is not None:
            raise InputError("--other-environments is about nodes of a cluster: name the cluster with --ray")
        if lease is not None:
            raise InputError("--lease is of workers of a cluster: name the cluster with --ray")
        return None
    need("cryptography", "home")
    from cause.device.schedule import parse_duration
    from cause.executors.cluster import RayExecutor
    from cause.executors.cluster.executor import LEASE_S
    from cause.executors.cluster.other_environments import REFUSE
    from cause.executors.cluster.resources import parse_per_worker

    return RayExecutor(
        ray,
        per_worker=None if per_worker is None else parse_per_worker(per_worker),
        lease=LEASE_S if lease is None else parse_duration(lease),
        other_environments=other_environments or REFUSE,
    )


@contextmanager
def upgrade_status(home: Path, read_only: bool) -> Iterator[None]:
    """Show on a terminal that a home of an older format is being upgraded, which may take a while."""
    from cause.device.disk import open_to_read
    from cause.device.store.layout import FORMAT, Layout

    try:
        with open_to_read(Layout(home).ledger) as ledger:
            ledger.seek(60)  # where SQLite keeps `user_version`
            format_ = int.from_bytes(ledger.read(4), "big")
    except OSError:
        format_ = FORMAT
    if read_only or not 0 < format_ < FORMAT:
        yield
        return
    with spinner(f"bringing {str(home)!r} from format {format_} to {FORMAT}"):
        yield


@contextmanager
def naming_damage(home: Path) -> Iterator[None]:
    """Turn an error that a damaged home causes into a `HomeError` that says what is damaged.

    If the home has no problem the error is a defect of the program and is raised as it is.
    """
    try:
        yield
    except BROKEN as error:
        from cause.device.advice import doctor_advice
        from cause.device.fsck import examine_home

        problems = examine_home(home).problems
        if not problems:
            raise
        raise HomeError(
            f"{str(home)!r} is damaged ({type(error).__name__}): {problems[0].what}", doctor_advice(home)
        ) from None


@contextmanager
def naming_missing_package(home: Path) -> Iterator[None]:
    """Turn the error of an import that fails into an `InputError` that names the package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"the learner of {str(home)!r} needs {error.name}: install it") from None


@contextmanager
def opened(
    home: Path,
    *,
    read_only: bool = False,
    watch: "Watch | None" = None,
    without_learner: bool = False,
    deferred: bool = False,
    executor: "Executor | None" = None,
) -> Iterator["Cause"]:
    """Open the device of a home, and close it at the end.

    Parameters
    ----------
    home
        The folder of the home.
    read_only
        Open it beside a process that changes it.
    watch
        Told of the progress of trainings.
    without_learner
        Do not import the learner, which takes seconds: the device can be looked at, but cannot train or predict.
    deferred
        Import the learner when something is trained.
    executor
        Where to train; as the home is configured by default.

    Raises
    ------
    HomeError
        If the folder is not a home, is in use, or is damaged.
    InputError
        If a package that the learner needs is missing.
    """
    need("cryptography", "home")
    with naming_damage(home), _opened(home, read_only, watch, without_learner, deferred, executor) as device:
        yield device


@contextmanager
def _opened(
    home: Path,
    read_only: bool,
    watch: "Watch | None",
    without_learner: bool,
    deferred: bool,
    executor: "Executor | None",
) -> Iterator["Cause"]:
    from cause.device.device import Cause
    from cause.device.store.retrying import retried

    def open_device() -> "Cause":
        with naming_missing_package(home):
            learner = additive_learner(home)
            if learner is None and (without_learner or deferred):
                learner = placeholder_learner(home) if without_learner else deferred_learner(home)
            with upgrade_status(home, read_only):
                return Cause(home, learner=learner, read_only=read_only, watch=watch, executor=executor)

    device = retried(open_device) if read_only else open_device()
    try:
        yield device
    finally:
        device.close()


@contextmanager
def opened_home(home: Path) -> Iterator["Home"]:
    """Open a home for reading, without its learner, and close it at the end."""
    config = config_of(home)
    from cause.device.home.home import Home
    from cause.device.store.retrying import retried

    with naming_damage(home):
        opened_ = retried(partial(Home, home, config.source(home), read_only=True))
        try:
            yield opened_
        finally:
            opened_.close()


def key_files(home: Path) -> list[Path]:
    """Return the files that hold the master key of a home: none if it comes from elsewhere."""
    from cause.device.vault.sources import FileKeySource, RotatingFileKeySource

    source = config_of(home).source(home)
    return [source.path] if isinstance(source, FileKeySource | RotatingFileKeySource) else []


def additive_learner(home: Path) -> "Learner | None":
    """Return the learner of an additive home, if need be without its backbone; None for other homes."""
    from cause.learners.described import build_additive

    return build_additive(config_of(home).learner)


def placeholder_learner(home: Path) -> "Learner | None":
    """Return a stand-in with the learner's recorded properties; None for homes of early versions without them."""
    from cause.learners.placeholder import PlaceholderLearner

    recipe, size, _ = _recorded(home)
    return None if recipe is None or size is None else PlaceholderLearner(bytes(recipe), size)


def deferred_learner(home: Path) -> "DeferredLearner | None":
    """Return a stand-in that builds the learner when it is needed; None if the home has not recorded enough."""
    from cause.learners.deferred import DeferredLearner

    (recipe, size, environment), described = _recorded(home), config_of(home).learner
    if (described or {}).get("kind") == "additive":
        return None  # to forget is to subtract, which needs the learner
    if recipe is None or size is None or environment is None or described is None:
        return None

    def load(system: "System | None") -> "Learner":
        from cause.learners.described import build

        with naming_missing_package(home):
            learner = build(described)
        return learner if system is None else learner.composed(system)

    return DeferredLearner(bytes(recipe), size, load, classes=described.get("classes"))


def _recorded(home: Path) -> tuple[Any, Any, Any]:
    """Return recipe, size of a sub-model and environment; None for what the ledger does not have."""
    config_of(home)
    from cause.device.store.database import Database
    from cause.device.store.layout import Layout

    database = Database(Layout(home).ledger, read_only=True)
    try:
        return database.get("recipe"), database.get("sub_model_bytes"), database.get("environment")
    finally:
        database.close()


def need(module: str, extra: str) -> None:
    """Raise an `InputError` if a package is missing that the extra of `cause` installs."""
    if find_spec(module) is None:
        raise InputError(f"this needs {module}: pip install 'cause[{extra}]'")


def config_of(home: Path) -> "Config":
    """Return the configuration of a home; raise a `HomeError` if the folder is not one."""
    need("cryptography", "home")
    from cause.device.attach import is_home
    from cause.device.config import read_config
    from cause.device.store.layout import Layout, not_a_home

    path = Layout(home).config
    if not is_home(Layout(home)):
        raise not_a_home(home)
    return read_config(path)


def classes_of(home: Path) -> int:
    """Return the number of classes of a home's device, without importing its learner."""
    from cause.engine.checks import CLASSES

    config = config_of(home)
    return config.settings.classes or int((config.learner or {}).get("classes") or CLASSES)


def trains_on(home: Path) -> str:
    """Return where the learner of a home trains, such as cpu or cuda."""
    return str((config_of(home).learner or {}).get("device", "cpu"))


def repair_of(home: Path, option: str | None) -> str:
    """Return when to repair, now or later: as the option says, or else as the home is configured."""
    from cause.common.registry import check_choice
    from cause.engine.arguments import REPAIRS

    if option is None:
        return config_of(home).settings.repair
    check_choice("repair", option, REPAIRS)
    return option


def model_of(calibration: Path | None) -> "EnergyModel | None":
    """Return the energy model of a calibration file; None without a file."""
    if calibration is None:
        return None
    from cause.device.energy.model import EnergyModel

    return EnergyModel.load(calibration)


def names_of(text: str | None) -> list[str] | None:
    """Parse a list of different names, as cat,dog."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"a list of different names is needed, as cat,dog,fox, not {text!r}")
    return names


def numbers_of(text: str | None, option: str) -> list[int] | None:
    """Parse a list of whole numbers, as 1,2; `option` is named in the error.

    >>> numbers_of("1,2", "--rounds"), numbers_of(None, "--rounds")
    ([1, 2], None)
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise InputError(f"{option} takes whole numbers, as 1,2, not {text!r}")
    return [int(part) for part in parts]


def quarantined(piece: "Quarantined") -> dict[str, Any]:
    """Return samples in quarantine as a JSON object."""
    return {
        "upload": piece.upload,
        "user": piece.user,
        "round": piece.round,
        "shard": piece.segment.shard,
        "samples": piece.samples,
        "verdict": piece.verdict,
        "since": piece.since,
    }


def samples_of(text: str | None) -> list[tuple[int, int]] | None:
    """Parse a list of samples, as round:position.

    >>> samples_of("1:0,1:5")
    [(1, 0), (1, 5)]
    """
    if text is None:
        return None
    samples = []
    for part in text.split(","):
        numbers = [number.strip() for number in part.split(":")]
        if len(numbers) != 2 or not all(n.isascii() and n.isdigit() and len(n) < 16 for n in numbers):
            raise InputError(f"--samples takes round:position, as 1:0,1:5, not {text!r}")
        samples.append((int(numbers[0]), int(numbers[1])))
    return samples


def handles_of(text: str | None) -> list[str] | None:
    """Parse a list of handles, as a1,b2, or read them from the lines of a file, as @FILE.

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
    handles = [part.strip() for part in listed if part.strip()]
    if not handles:
        raise InputError(f"--handles takes handles, as a1,b2, or @FILE with one a line, not {text!r}")
    return handles


def key_of(segment: Any) -> list[int]:
    """Return the key of a segment for JSON: [shard, round], with slices [shard, round, slice]."""
    shard, round_, slice_ = segment
    return [shard, round_, slice_] if slice_ else [shard, round_]


def format_time(seconds: float | None) -> str:
    """Return a time in UTC for people; – for None."""
    from datetime import UTC, datetime

    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def format_duration(seconds: float) -> str:
    """Return a length of time for people.

    >>> format_duration(0.25), format_duration(75), format_duration(7200), format_duration(3 * 86400)
    ('0.2 s', '75 s', '2.0 h', '3.0 days')
    """
    for unit, size in (("days", 86_400), ("h", 3_600)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
