"""A home's configuration: TOML that people can read and write, checked before anything is done."""

import math
import re
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cause.common.registry import check_choice, nearest
from cause.common.units import parse_bytes
from cause.device.composition import system_of
from cause.device.disk import open_to_read
from cause.device.vault import CommandKeySource, EnvKeySource, FileKeySource, KeySource, RotatingFileKeySource
from cause.engine.arguments import REPAIRS
from cause.engine.arrivals import spec_from_settings
from cause.engine.executor import MOST_WORKERS
from cause.engine.presets import System, parse_system
from cause.errors import HomeError, InputError

TABLES = ("device", "composition", "key", "learner")
SHORTEST_DEADLINE_DAYS = 1 / 1440
LARGEST_BYTES = 1 << 20  # of a configuration: anything longer is not one


@dataclass(frozen=True)
class Settings:
    """The settings of a device: the table `[device]`."""

    system: str = "cause"
    shards: int = 4
    memory: str = "2GB"
    slots: int | None = None
    classes: int | None = None
    seed: int = 0
    storage: str | None = None
    """The most that samples may take on the disk."""
    retain: str | None = None
    """How long samples are kept: "30 rounds" or "90 days"."""
    repair: str = "now"
    """Whether forgetting waits for the replay, unless the call says otherwise."""
    deadline_days: float = 30.0
    workers: int = 0
    input_shape: tuple[int, ...] | None = None
    """Of one input, as [64]. None: as the learner has it, else as the first upload has it."""
    input_dtype: str | None = None
    """What inputs are kept as, as "float32". None: as they come."""

    def __post_init__(self) -> None:
        if self.input_shape is not None:
            object.__setattr__(self, "input_shape", tuple(self.input_shape))
        spec_from_settings(self.input_shape, self.input_dtype)
        parse_system(self.system)
        parse_bytes(self.memory)
        if self.storage is not None:
            parse_bytes(self.storage)
        check_choice("repair", self.repair, REPAIRS)
        parse_retain(self.retain)
        if not (0 < self.deadline_days < 36_500 and math.isfinite(self.deadline_days)):
            raise InputError(f"a deadline is a number of days, not {self.deadline_days}")


@dataclass(frozen=True)
class Config:
    """A whole configuration file."""

    settings: Settings
    key: Mapping[str, Any]
    learner: Mapping[str, Any] | None = None
    composition: Mapping[str, Any] | None = None
    """The parts of the system that the home was made with; None in a home of before they were written down."""

    @property
    def system(self) -> System:
        """The system of the home, from its composition."""
        return system_of(self.settings.system, self.composition)

    def source(self, folder: Path) -> KeySource:
        """Return the source of the master key; a file's path is relative to the home."""
        return key_source(self.key, folder)

    def effective(self) -> dict[str, Any]:
        """Return all settings in force, defaults included."""
        tables = {"device": asdict(self.settings), "key": dict(self.key), "learner": dict(self.learner or {})}
        return tables | ({} if self.composition is None else {"composition": dict(self.composition)})

    def text(self) -> str:
        """Return the configuration as TOML."""
        tables = {"device": asdict(self.settings), "composition": self.composition or {}, "key": self.key}
        tables["learner"] = self.learner or {}
        return "\n".join(_table(name, table) for name, table in tables.items() if table)


def check_new_settings(config: Config) -> None:
    """Raise an `InputError` for new settings with which no device works (`cause init`, `cause config`, `Cause(…)`).

    Opening a home is more lenient: one that has such a setting already must still forget (`usable_workers`).

    Raises
    ------
    InputError
        If a number is out of range, or the shape of inputs contradicts the learner's.

    Examples
    --------
    >>> check_new_settings(Config(Settings(workers=-1), {"env": "KEY"}))
    Traceback (most recent call last):
    cause.errors.InputError: workers must be from 0 (train in this process) to 256, not -1
    """
    settings, learner = config.settings, config.learner or {}
    if not 0 <= settings.workers <= MOST_WORKERS:
        raise InputError(f"workers must be from 0 (train in this process) to {MOST_WORKERS}, not {settings.workers}")
    if settings.seed < 0:
        raise InputError(f"seed must not be negative, not {settings.seed}")
    if settings.deadline_days < SHORTEST_DEADLINE_DAYS:
        raise InputError(f"a deadline is at least a minute (0.0007 days), not {settings.deadline_days} days")
    shape = settings.input_shape
    if shape is None:
        return
    features, own = learner.get("features"), learner.get("shape")
    if isinstance(features, int) and math.prod(shape) != features:
        raise InputError(
            f"input_shape is {list(shape)}, which is {math.prod(shape)} values, but the learner takes {features} "
            "features: give one of the two, or make them agree"
        )
    if isinstance(own, list | tuple) and tuple(own) != shape and math.prod(own) != math.prod(shape):
        raise InputError(
            f"input_shape is {list(shape)}, but the learner's network takes {list(own)}: give one of the two, or make "
            "them agree"
        )


def usable_workers(workers: int) -> int:
    """Return the number of worker processes; 0 with a warning if the stored number is out of range."""
    if 0 <= workers <= MOST_WORKERS:
        return workers
    warnings.warn(
        f"the home's setting workers = {workers} is out of range: this process trains; set it with "
        "`cause config HOME workers=0`",
        stacklevel=2,
    )
    return 0


def parse_retain(text: str | None) -> tuple[int | None, float | None]:
    """Parse how long samples are kept: return the rounds, or the seconds.

    >>> parse_retain("30 rounds"), parse_retain("1 day"), parse_retain(None)
    ((30, None), (None, 86400.0), (None, None))
    """
    if text is None:
        return None, None
    match = re.fullmatch(r"([1-9][0-9]{0,8}) (round|day)s?", text) if isinstance(text, str) else None
    if not match:
        raise InputError(f'samples are kept for "N rounds" or "N days", not {text!r}')
    number = int(match[1])
    return (number, None) if match[2] == "round" else (None, number * 86_400.0)


def parse_value(name: str, text: str) -> Any:
    """Parse the value of a setting; `none` unsets it.

    >>> parse_value("workers", "2"), parse_value("storage", "none"), parse_value("deadline_days", "7.5")
    (2, None, 7.5)
    """
    (kind,) = (_kind(field_.type) for field_ in fields(Settings) if field_.name == name)
    if text.lower() == "none" and "None" in kind:
        return None
    if "str" in kind:
        return text
    if "tuple" in kind:
        if not re.fullmatch(r"\[? *[0-9]{1,9}( *[,x] *[0-9]{1,9})* *\]?", text):
            raise InputError(f"{name} must be numbers, as 64 or 3,32,32, not {text!r}")
        return tuple(int(side) for side in re.findall("[0-9]+", text))
    try:
        return float(text) if "float" in kind else int(text)
    except ValueError:
        raise InputError(f"{name} must be {kind.split(' |')[0]}, not {text!r}") from None


def key_source(table: Mapping[str, Any], folder: Path) -> KeySource:
    """Return the key source that a table `[key]` describes."""
    if len(table) != 1:
        raise InputError(f"the table [key] names one of file, rotating, env or command, not {sorted(table) or 'none'}")
    ((kind, value),) = table.items()
    if kind == "file" and isinstance(value, str):
        return FileKeySource(folder / value)
    if kind == "rotating" and isinstance(value, str):
        return RotatingFileKeySource(folder / value)
    if kind == "env" and isinstance(value, str):
        return EnvKeySource(value)
    if kind == "command" and isinstance(value, list) and all(isinstance(part, str) for part in value):
        return CommandKeySource(value)
    raise InputError(f"the table [key] names a file, rotating file, env variable or command, not {kind} = {value!r}")


def read_config(path: Path) -> Config:
    """Read and check a configuration file."""
    try:
        with open_to_read(path) as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise HomeError(f"cannot read {str(path)!r}: {error.strerror}") from None
    return parse_config(data, str(path))


def parse_config(data: bytes, where: str) -> Config:
    r"""Check a configuration.

    >>> parse_config(b'[device]\nshards = 2\n[key]\nenv = "MASTER"\n', "x").settings.shards
    2
    >>> parse_config(b'[device]\nshard = 2\n', "x")
    Traceback (most recent call last):
    cause.errors.InputError: x: [device] has no 'shard' (did you mean 'shards'?)
    """
    if len(data) > LARGEST_BYTES:
        raise InputError(f"{where}: too long for a configuration ({len(data):,} bytes)")
    try:
        tables = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{where}: not TOML: {error}") from None
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            allowed = ", ".join(f"[{known}]" for known in TABLES)
            raise InputError(f"{where}: unknown table [{name}]{nearest(name, TABLES)}: there are {allowed}")
    device = tables.get("device", {})
    kinds = {field_.name: _kind(field_.type) for field_ in fields(Settings)}
    for name, value in device.items():
        if name not in kinds:
            raise InputError(f"{where}: [device] has no {name!r}{nearest(name, kinds)}")
        _check_type(where, name, value, kinds[name])
    try:
        config = Config(Settings(**device), tables.get("key", {}), tables.get("learner"), tables.get("composition"))
        config.system  # noqa: B018 (refuses what is not a composition)
        return config
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _kind(type_: Any) -> str:
    """Return a field's type as it is written: int, or str | None."""
    return type_.__name__ if isinstance(type_, type) else str(type_)


def _check_type(where: str, name: str, value: Any, kind: str) -> None:
    if "tuple" in kind:
        if not isinstance(value, list | tuple) or not all(type(side) is int for side in value):
            raise InputError(f"{where}: {name} must be a list of whole numbers, as [3, 32, 32], not {value!r}")
        return
    types: tuple[type, ...] = (str,) if "str" in kind else (int, float) if "float" in kind else (int,)
    if not isinstance(value, types) or isinstance(value, bool):
        raise InputError(f"{where}: {name} must be {kind.split(' |')[0]}, not {value!r}")


def _table(name: str, table: Mapping[str, Any]) -> str:
    plain = [
        f"{key} = {_value(value)}" for key, value in table.items() if value is not None and not isinstance(value, dict)
    ]
    nested = [_table(f"{name}.{key}", value) for key, value in table.items() if isinstance(value, dict) and value]
    return "\n".join([f"[{name}]", *plain, "", *nested])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else {'"': '\\"', "\\": "\\\\"}.get(c, c) for c in str(value)
    )
    return f'"{escaped}"'
