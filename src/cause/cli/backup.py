"""`cause backup` and `cause restore`."""

from pathlib import Path
from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.init import KeyCommand, KeyEnv, key_of_options
from cause.cli.output import print_json
from cause.errors import InputError


def backup(
    home: h.HomeFolder,
    file: Annotated[Path, typer.Argument(help="The tar archive to write: a new file.", show_default=False)],
    json: o.AsJson = False,
) -> None:
    """Write all of a home but its keys into one file; what is forgotten later stays forgotten in it, too."""
    with h.opened_home(home) as opened_home:
        from cause.device.backup.backup import backup as backed_up

        written = backed_up(opened_home, file)
    if json:
        from dataclasses import asdict

        print_json(asdict(written))
        return
    from cause.common.units import format_bytes

    print(
        f"wrote {file}: round {written.round}, {written.blocks:,} blocks of samples, {written.sub_models} sub-models, "
        f"{format_bytes(written.bytes)}"
    )


def _accept_older(home: Path, with_backup: bool, yes: bool, json: bool) -> None:
    from dataclasses import asdict

    from cause.device.backup.restore import accept_older, older_state

    if with_backup:
        raise InputError("--accept-older takes the home's own ledger: name the home alone")
    cost = older_state(home)
    if not json:
        print(
            f"the ledger is of change {cost.change}, its keys know change {cost.newest}; to take it destroys "
            f"{cost.keys} keys: {cost.blocks} blocks of samples and {cost.sub_models} sub-models that it does not name"
        )
    if not yes:
        typer.confirm("Destroy them?", abort=True)
    outcome = accept_older(home)
    if json:
        print_json({**asdict(outcome), "accepted": asdict(cost)})
    else:
        print(f"round {outcome.round}; the log has an entry that says so")


def restore(
    file: Annotated[Path, typer.Argument(help="What `cause backup` wrote.", show_default=False)],
    home: Annotated[
        Path | None, typer.Argument(help="The home that it was made of: its vault must be there.", show_default=False)
    ] = None,
    accept_older: Annotated[
        bool,
        typer.Option(
            "--accept-older",
            help="Name the home alone: take its ledger, although it is older than its keys know.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --accept-older: do not ask.")] = False,
    discard_later: Annotated[
        bool,
        typer.Option("--discard-later", help="Destroy samples that are newer than the backup's records."),
    ] = False,
    key_file: Annotated[Path | None, typer.Option(help="The file with the master key, if cause.toml is lost.")] = None,
    key_env: KeyEnv = None,
    key_command: KeyCommand = None,
    json: o.AsJson = False,
) -> None:
    """Put back what a home has lost; whatever was forgotten since the backup stays forgotten."""
    h.need("cryptography", "home")
    from cause.device.backup.restore import restore as restored

    if accept_older:
        _accept_older(file if home is None else home, home is not None, yes, json)
        return
    if home is None:
        raise InputError("name the backup and the home: cause restore BACKUP HOME")
    outcome = restored(file, home, key=key_of_options(key_file, key_env, key_command), discard_later=discard_later)
    if json:
        from dataclasses import asdict

        print_json(asdict(outcome))
        return
    records = "its own records" if outcome.ledger == "live" else "the backup's records"
    print(f"round {outcome.round} by {records}: {outcome.blocks:,} blocks and {outcome.sub_models} sub-models put back")
    lost = outcome.lost
    if lost.samples or lost.sub_models:
        print(
            f"left out: {lost.samples:,} samples without key or file, {lost.sub_models} sub-models that saw them "
            f"or are lost (`cause repair {home}` trains what is left)"
        )
    if outcome.log is not None:
        log = outcome.log
        print(
            f"the log has the backup's {log.backup} entries, {log.salvaged} more from the damaged ledger, and entry "
            f"{log.entry}, which says so; later ones are lost, if there were any"
        )
