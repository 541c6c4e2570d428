"""The settings that are in force: `cause.toml` as it was accepted, sealed in the ledger.

A file that people can edit decides how long samples are kept and from which seed everything follows. So the accepted
text is in the ledger too, under the device's own key, and a file that says something else is refused at the opening,
with the settings that differ. `cause config` changes both: the ledger first, with the new text pending, then the file,
then the ledger; an opening finishes what was interrupted.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Protocol

from cause.common import positions as pos
from cause.common.registry import nearest
from cause.common.units import parse_bytes
from cause.device.config import Config, check_new_settings, key_source, parse_config, parse_retain, parse_value
from cause.device.disk import Disk
from cause.device.store.database import Database
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.store.queries import Queries
from cause.device.store.retrying import retried
from cause.device.vault import Vault
from cause.errors import HomeError, InputError, VaultError

ACCEPTED, PENDING = "config", "config_pending"
"""Rows of `meta`: the text that is in force, and the one that a change is about to bring."""
_FIXED = {
    "system": "every sub-model follows from it",
    "seed": "every sub-model follows from it",
    "shards": "every sample is in one of them",
    "classes": "every sub-model follows from it",
}
_SIZES = ("memory", "slots")


class ConfiguredHome(Protocol):
    """What the settings of a home are read from and written to."""

    layout: Layout
    disk: Disk
    database: Database
    queries: Queries
    read_only: bool
    config: Config | None
    """The configuration that is in force; None if there is none."""
    retain: tuple[int | None, float | None]

    @property
    def vault(self) -> Vault:
        """The keys."""

    @property
    def stored_bytes(self) -> int:
        """How many bytes the samples take on the disk."""

    def clock(self) -> float:
        """Return the trusted time in seconds since 1970: the wall clock, or an estimate if that jumped."""


def is_fixed(name: str) -> bool:
    """Return whether a setting (or a part of the composition) can never be changed."""
    return name in _FIXED or name.startswith("composition.")


def digest(text: bytes) -> bytes:
    """Return the digest of a configuration, as the anchor has it."""
    return hashlib.sha256(b"cause.toml\0" + text).digest()


def recorded(database: Database, vault: Vault, name: str = ACCEPTED) -> bytes | None:
    """Return the accepted (or pending) text of the configuration; None if there is none, HomeError if it is damaged."""
    sealed = database.get(name)
    if sealed is None:
        return None
    try:
        return vault.open_sealed(DEVICE_KEY, bytes(sealed), name.encode())
    except (VaultError, TypeError) as error:
        raise HomeError(f"the ledger's record of cause.toml is damaged ({error}): restore a backup") from None


def record(database: Database, vault: Vault, text: bytes, name: str = ACCEPTED) -> None:
    """Store the accepted (or pending) text of the configuration; call it in a transaction."""
    database.set(name, vault.seal(DEVICE_KEY, text, name.encode()))


def differences(old: Config, new: Config) -> list[tuple[str, Any, Any]]:
    """Return the settings that differ, as (name, old value, new value)."""
    before, after = dict(_flat(old.effective())), dict(_flat(new.effective()))
    names = sorted({*before, *after})
    return [(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def format_changes(changes: list[tuple[str, Any, Any]]) -> str:
    """Return changes as text: retain None -> '1 rounds'."""
    return ", ".join(f"{name} {old!r} -> {new!r}" for name, old, new in changes)


def in_force(home: ConfiguredHome) -> Config | None:
    """Return the configuration of a home after comparing its file with the accepted one. Finish an interrupted change.

    Returns
    -------
    Config or None
        None if nothing was accepted yet and there is no file.

    Raises
    ------
    HomeError
        If the file was edited; the message names the settings.
    """
    return retried(partial(_in_force, home), pause_s=0.0) if home.read_only else _in_force(home)


def _in_force(home: ConfiguredHome) -> Config | None:
    with home.database.reading():
        accepted, pending = (recorded(home.database, home.vault, name) for name in (ACCEPTED, PENDING))
    path = home.layout.config
    try:
        text = home.disk.read(path)
    except FileNotFoundError:
        if accepted is None:
            return None
        raise HomeError(
            f"{str(home.layout.folder)!r} has lost 'cause.toml': put it back, or restore a backup"
        ) from None
    except OSError as error:
        raise HomeError(f"cannot read {str(path)!r}: {error.strerror}: try again") from None
    config = parse_config(text, str(path))
    texts = [old for old in (accepted, pending) if old is not None]
    fits = not texts or any(old == text or not differences(parse_config(old, "the ledger"), config) for old in texts)
    if fits and pending is not None and not home.read_only:
        try:  # also if the file has this text: it may be in the page cache alone
            home.disk.write_whole(path, pending)
        except OSError as error:
            raise HomeError(f"cannot write {str(path)!r}: {error.strerror}") from None
        _settle(home, pending)
        return parse_config(pending, str(path))
    if fits:
        if accepted is None and not home.read_only:
            _settle(home, text)
        return config
    changes = differences(parse_config(texts[0], "the ledger"), config)
    raise HomeError(
        f"{str(path)!r} was edited: {format_changes(changes)}: put it back, or take it over with "
        "`cause config HOME --accept`; `cause config HOME key=value` changes a setting"
    )


def _settle(home: ConfiguredHome, text: bytes) -> None:
    with home.database.transaction():
        record(home.database, home.vault, text)
        home.database.unset(PENDING)


def change(home: ConfiguredHome, new: Config) -> None:
    """Replace the accepted configuration; after a crash the next opening finishes or drops the change.

    Raises
    ------
    HomeError
        If the file cannot be written.
    """
    text = new.text().encode()
    parse_config(text, "the configuration")
    with home.database.transaction():
        record(home.database, home.vault, text, PENDING)
    try:
        home.disk.write_whole(home.layout.config, text)
    except OSError as error:
        raise HomeError(f"cannot write {str(home.layout.config)!r}: {error.strerror}") from None
    _settle(home, text)
    home.config = new


def changed(config: Config, assignments: Mapping[str, str]) -> Config:
    """Return the configuration with some settings changed.

    Parameters
    ----------
    config
        The configuration.
    assignments
        New values as text, by name.

    Raises
    ------
    InputError
        If there is no such setting, it cannot be changed, or the value makes no sense.

    >>> from cause.device.config import Settings
    >>> changed(Config(Settings(), {"env": "KEY"}), {"retain": "30 rounds", "workers": "2"}).settings.workers
    2
    >>> changed(Config(Settings(), {"env": "KEY"}), {"seed": "7"})
    Traceback (most recent call last):
    cause.errors.InputError: seed cannot be changed: every sub-model follows from it. Make a new home
    """
    settings, key = config.settings, dict(config.key)
    values: dict[str, Any] = {}
    for name, text in assignments.items():
        kind = name.removeprefix("key.")
        if name in _FIXED:
            raise InputError(f"{name} cannot be changed: {_FIXED[name]}. Make a new home")
        if name == "learner" or name.startswith("learner."):
            raise InputError("the learner cannot be changed: every sub-model follows from it. Make a new home")
        if name == "composition" or name.startswith("composition."):
            raise InputError("the composition cannot be changed: every sub-model follows from it. Make a new home")
        if name.startswith("key."):
            key = {kind: text.split() if kind == "command" else text}
        elif name in asdict(settings):
            values[name] = parse_value(name, text)
        else:
            names = sorted(set(asdict(settings)) - set(_FIXED))
            hint = nearest(name, names)
            raise InputError(f"there is no setting {name!r}{hint}: {', '.join(names)}, key.file, key.env, key.command")
    for name in _SIZES:
        if name in values:
            _check_size(name, getattr(settings, name), values[name], settings.slots)
    new = replace(config, settings=replace(settings, **values), key=key)
    check_new_settings(new)
    return new


def accepted(home: ConfiguredHome) -> Config | None:
    """Return the configuration that was accepted last, also if the file was edited; None if there is none."""
    text = recorded(home.database, home.vault)
    return None if text is None else parse_config(text, "the ledger")


def check_accepted(old: Config, new: Config) -> None:
    """Refuse an edited file that changes a fixed setting or has one with which no device works; InputError names it."""
    check_new_settings(new)
    for name, before, after in differences(old, new):
        if name in _FIXED or name.startswith(("learner.", "composition.")):
            reason = _FIXED.get(name, "every sub-model follows from it")
            raise InputError(f"{name} cannot be changed, from {before!r} to {after!r}: {reason}. Put it back")
        if name in _SIZES:
            _check_size(name, before, after, old.settings.slots)


def check_key(home: ConfiguredHome, new: Config) -> None:
    """Refuse a source of the master key that does not open this home's vault; VaultError says why."""
    if dict(new.key) != dict((home.config or new).key):
        Vault.open(home.layout.vault, key_source(new.key, home.layout.folder), home.disk, read_only=True).close()


def consequences(home: ConfiguredHome, new: Config) -> Iterator[str]:
    """Yield sentences on what a change of the configuration will do."""
    settings = new.settings
    retain = parse_retain(settings.retain)
    if retain != home.retain:
        samples = expiring(home, retain)
        yield (
            f"{samples:,} samples are older than {settings.retain}: the next learn destroys them"
            if samples
            else "no sample expires at the next learn"
        )
    if settings.storage is not None and parse_bytes(settings.storage) < home.stored_bytes:
        yield "the samples take more than that already: new ones are refused until some are forgotten"


def expiring(home: ConfiguredHome, retain: tuple[int | None, float | None]) -> int:
    """Return how many samples the next learn would destroy under this rule: most rounds, or most seconds."""
    rounds, seconds = retain
    staged = 0
    if rounds is not None:
        pieces = home.queries.pieces_upto_round(float(home.database.get("round", 0) + 1 - rounds))
    elif seconds is not None:
        limit = home.clock() - seconds
        pieces, staged = home.queries.pieces_before(limit), home.queries.staged_samples_before(limit)
    else:
        return 0
    return sum(len(pos.from_runs(runs)) for _, _, runs in pieces) + staged


def _check_size(name: str, old: Any, new: Any, slots: int | None) -> None:
    if name == "memory" and slots is not None:
        raise InputError("memory cannot be changed: this home counts its sub-models in slots; raise `slots`")
    if name == "slots" and (old is None or new is None):
        raise InputError("slots cannot be changed: this home's memory is given in bytes; raise `memory`")
    before, after = (parse_bytes(old), parse_bytes(new)) if name == "memory" else (old, new)
    if after < before:
        raise InputError(f"{name} can only be raised, from {old} on, not to {new}: stored sub-models would not fit")


def _flat(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        where = f"{at}.{name}" if at else name
        if isinstance(value, Mapping):
            yield from _flat(value, "" if where == "device" else where)
        else:
            yield where, value
