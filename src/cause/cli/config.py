"""`cause config`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.init import effective
from cause.cli.output import print_json
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.config import Config

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def config(
    home: h.HomeFolder,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help='Settings to change, as retain="30 rounds" or storage=none.', show_default=False),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Take over a cause.toml that was edited.")] = False,
    reset_policy: Annotated[
        bool,
        typer.Option(
            "--reset-policy", help="Delete what the policy has learned: how many requests named data of each age."
        ),
    ] = False,
    yes: Yes = False,
    json: o.AsJson = False,
) -> None:
    """Show the settings of a home, defaults included; or change some, after saying what that will do."""
    current = h.config_of(home)
    if reset_policy:
        if accept or settings:
            raise InputError("--reset-policy changes no setting: name none beside it")
        _reset_policy(home, current, json)
        return
    if accept and settings:
        raise InputError("--accept takes over the file as it is: name no settings beside it")
    if accept or settings:
        from cause.device.settings import changed

        _change(home, current if accept else changed(current, _assignments(settings or [])), accept, yes, json)
    elif json:
        print_json({"home": str(home), **current.effective()})
    else:
        print(effective(current), end="")


def _reset_policy(path: Path, current: "Config", json: bool) -> None:
    """Delete what the replacement policy of a home has learned from requests."""
    from cause.device.home.home import Home
    from cause.engine.memory import POLICIES

    home = Home(path, current.source(path))
    try:
        learned = home.reset_policy(POLICIES[current.system.policy])
    finally:
        home.close()
    if json:
        print_json({"home": str(path), "reset": learned})
    else:
        print(f"{path}: {'deleted what the policy had learned' if learned else 'the policy has learned nothing'}")


def _assignments(settings: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"a setting is given as name=value, not {text!r}")
        if name in values:
            raise InputError(f"{name!r} is given twice")
        values[name] = value
    return values


def _change(path: Path, new: "Config", accept: bool, yes: bool, json: bool) -> None:
    """Change the settings of a home to those of `new`, after showing the changes and their consequences."""
    from cause.device.home.home import Home
    from cause.device.settings import (
        accepted,
        change,
        check_accepted,
        check_key,
        consequences,
        differences,
        format_changes,
    )

    home = Home(path, h.config_of(path).source(path), check_config=not accept)
    try:
        old = accepted(home)
        if old is None:
            raise InputError(f"{str(path)!r} has no configuration that was accepted before: open it once")
        changes = differences(old, new)
        check_accepted(old, new)
        check_key(home, new)
        home.apply(old.settings)
        effects = list(consequences(home, new))
        if changes and not json:
            print(format_changes(changes))
            for line in effects:
                print(line)
        if changes and not yes and not typer.confirm("Change it?"):
            raise typer.Abort
        if changes:
            change(home, new)
    finally:
        home.close()
    _report(path, new, changes, effects, json)


def _report(path: Path, new: "Config", changes: list[tuple[str, Any, Any]], effects: list[str], json: bool) -> None:
    if json:
        changed = [{"setting": name, "old": old, "new": value} for name, old, value in changes]
        print_json({"home": str(path), **new.effective(), "changed": changed, "consequences": effects})
    else:
        print(f"changed {path}" if changes else f"{path} has these settings already")
