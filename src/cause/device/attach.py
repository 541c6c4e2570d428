"""Making a home, and opening it again."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cause.common.home_paths import refuse_inside_home
from cause.device.composition import composed, system_of, table
from cause.device.config import (
    Config,
    Settings,
    check_new_settings,
    key_source,
    parse_config,
    parse_retain,
    read_config,
)
from cause.device.disk import Disk
from cause.device.home.home import Home
from cause.device.store.layout import UNFINISHED, Layout, not_a_home
from cause.device.vault.sources import new_master_key
from cause.engine.arguments import refuse_unknown
from cause.engine.law import check_composition, default_shards, default_system
from cause.engine.learner import Learner, warn_of_notes
from cause.engine.presets import System, parse_system, refuse_taken, system_text
from cause.errors import HomeError, InputError
from cause.executors.fresh_trial import try_out_afresh
from cause.learners.described import LEARNERS, NotNamedError, build, describe


def attach(
    folder: str | PathLike[str],
    learner: Learner | None,
    arguments: Mapping[str, Any],
    key: Mapping[str, Any] | None = None,
    *,
    read_only: bool = False,
    **parts: Any,
) -> tuple[Home, Settings, Learner]:
    """Open a home, or make one if there is none.

    Parameters
    ----------
    folder
        The home's folder.
    learner
        The learner; None for the one that `cause.toml` describes. A new home needs one.
    arguments
        Settings by name, None for those that were not given. They must be those that the home was made with.
    key
        Where the master key of a new home comes from; a new file beside the home unless it is given.
    read_only
        Open the home beside the process that writes it.
    **parts
        Further arguments of `Home`.

    Returns
    -------
    tuple of (Home, Settings, Learner)
        The home, its settings and its learner.

    Raises
    ------
    HomeError
        If there is no home and none can be made, or it was made with other settings.
    """
    layout, values, own_learner = Layout(folder), _values(arguments), learner
    if not is_home(layout):
        if learner is None or read_only:
            raise not_a_home(folder)
        settings = Settings(**{"system": default_system(learner), "shards": default_shards(learner), **values})
        check_composition(learner, parse_system(settings.system)[1], settings.shards)
        composition = composed(settings.system, learner, settings.shards, settings.memory, settings.slots)
        tried = learner.composed(system_of(settings.system, composition))
        try_out_afresh(tried)
        warn_of_notes(tried, stacklevel=5)
        create(folder, settings, learner, key, composition=composition)
    config = read_config(layout.config)
    for name, value in values.items():
        setting = getattr(config.settings, name)
        if value != setting and not (name == "system" and table(parse_system(value)[1]) == table(config.system)):
            raise HomeError(f"{str(folder)!r} was made with {name} = {setting!r}, not {value!r}")
    if learner is None:
        if config.learner is None:
            raise HomeError(f"{str(folder)!r} does not say what learns in it: give the learner it was made with")
        learner = build(config.learner)
    elif config.learner is not None:
        learner = learner.as_written(config.learner)
    settings = config.settings
    home = Home(folder, config.source(layout.folder), read_only=read_only, **parts)
    home.apply(settings)
    if home.config is not None and home.config.settings != settings:  # the opening finished a change of them
        home.close()
        return attach(folder, own_learner, arguments, key, read_only=read_only, **parts)
    return home, settings, learner


def is_home(layout: Layout) -> bool:
    """Return whether a folder is a home; raise a `HomeError` if it cannot be one, as the path of a file."""
    try:
        if layout.config.exists():
            return True
        existing = next(path for path in (layout.folder, *layout.folder.parents) if path.exists())
    except OSError as error:
        raise HomeError(f"{str(layout.folder)!r} cannot be a home: {error.strerror}") from None
    if not existing.is_dir():
        raise HomeError(f"{str(layout.folder)!r} is not a home: {str(existing)!r} is a file, not a folder")
    return False


def create(
    folder: str | PathLike[str],
    settings: Settings,
    learner: Learner | None,
    key: Mapping[str, Any] | None = None,
    disk: Disk | None = None,
    composition: Mapping[str, Any] | None = None,
) -> Config:
    """Make a home. Its configuration is written last: without it, a folder is not a home.

    Parameters
    ----------
    folder
        A new or empty folder.
    settings
        What the home is made with.
    learner
        The learner, which `cause.toml` describes if it can be; None leaves it out.
    key
        Where the master key comes from; a new file beside the home unless it is given.
    disk
        How files are written; tests replace it.
    composition
        The parts of the system; they follow from the settings unless they are given.

    Raises
    ------
    InputError
        If the settings are not those of a home.
    HomeError
        If the folder is not empty, or cannot be written.
    """
    system = parse_system(settings.system)[1]
    refuse_taken(system)
    if system.partition == "given":
        raise InputError(
            "a home cannot have partition=given: the shards are those that a trace names (`cause simulate`), and what "
            "is uploaded to a home names none. Choose another partition: ucdp, hash …"
        )
    layout, disk = Layout(folder), disk or Disk()
    is_home(layout)
    refuse_inside_home(layout.folder, "another home")
    if layout.folder.exists() and any(layout.folder.iterdir()) and not _unfinished(layout):
        raise HomeError(f"{str(folder)!r} is not empty: name a new folder for the home")
    description = None
    if learner is not None:
        try:
            description = describe(learner)
            LEARNERS.refuse_taken(description["kind"])
        except NotNamedError:
            description = None  # the learner has to be passed at each opening
    check_new_settings(Config(settings, {}, description))
    if key is None:
        key = {"file": f"../{layout.folder.resolve().name}.key"}
        path = layout.folder.resolve().parent / f"{layout.folder.resolve().name}.key"
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                disk.write_whole(path, new_master_key().encode() + b"\n")
            else:  # a call that was killed may have written it without syncing the folder
                disk.sync_folder(path.parent)
        except OSError as error:
            raise HomeError(f"cannot write the key of a home, {str(path)!r}: {error.strerror}") from None
    if composition is None:
        composition = composed(settings.system, learner, settings.shards, settings.memory, settings.slots)
    config = Config(settings, dict(key), description, composition)
    text = config.text().encode()
    parse_config(text, "the configuration")  # what is written can be read
    parse_retain(settings.retain)
    try:
        layout.folder.parent.mkdir(parents=True, exist_ok=True)
        _discard(layout, disk)
        if not disk.exists(layout.folder):
            disk.make_folder(layout.folder)
        disk.sync_folder(layout.folder.parent)
        disk.write_whole(layout.folder / UNFINISHED, b"")
        Home.create(layout.folder, key_source(key, layout.folder), disk, text)
        disk.write_whole(layout.config, text)
        disk.unlink(layout.folder / UNFINISHED)
        disk.sync_folder(layout.folder)
    except OSError as error:
        raise HomeError(f"cannot make a home in {str(layout.folder)!r}: {error.strerror}") from None
    return config


def _unfinished(layout: Layout) -> bool:
    """Return whether a folder holds a home whose making was interrupted: nothing in it was ever used."""
    names = {path.name for path in layout.folder.iterdir()}
    return UNFINISHED in names or names == {UNFINISHED + ".part"}


def _discard(layout: Layout, disk: Disk) -> None:
    """Remove the files of an interrupted making, but not the mark that says so: this may be interrupted too."""
    if not layout.folder.exists():
        return
    for folder, _, files in os.walk(layout.folder, topdown=False):
        for name in files:
            if (folder, name) != (str(layout.folder), UNFINISHED):
                disk.unlink(Path(folder) / name)
        if folder != str(layout.folder):
            disk.remove_folder(Path(folder))
    disk.sync_folder(layout.folder)


def _values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given, as `cause.toml` has them; InputError for a name that no setting has."""
    values = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(values.get("system"), System):
        values["system"] = system_text(values["system"])
    values = {name: int(value) if isinstance(value, np.integer) else value for name, value in values.items()}
    if isinstance(values.get("memory"), int):
        values["memory"] = str(values["memory"])
    refuse_unknown("a home", values, Settings.__dataclass_fields__)
    return values
