"""`cause token`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.service.tokens import Token

ACTIONS = ("create", "list", "revoke")


def token(
    action: Annotated[str, typer.Argument(help="create, list or revoke.", show_default=False)],
    home: h.HomeFolder,
    name: Annotated[str | None, typer.Argument(help="To revoke: the token's id.", show_default=False)] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="To create: user, ingest, predict, operator, auditor, admin; may be repeated."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="To create, with scope user: for whom.")] = None,
    note: Annotated[str, typer.Option(help="To create: what it is for. No names: it is kept as it is.")] = "",
    expires: Annotated[str, typer.Option(help="To create: for how long it is valid.")] = "90d",
    json: o.AsJson = False,
) -> None:
    """Make, list or revoke the tokens that `cause serve` asks for. A secret is shown once, when it is made."""
    from cause.common.registry import check_choice

    check_choice("action", action, ACTIONS)
    if action != "create" and (scope or user is not None or note):
        raise InputError("--scope, --user and --note are for `cause token create`")
    if (name is not None) != (action == "revoke"):
        raise InputError("`cause token revoke HOME ID` takes a token's id, the other actions take none")
    h.config_of(home)
    from cause.device.schedule import parse_duration
    from cause.service.service import tokens_of

    tokens = tokens_of(home)
    try:
        if action == "create":
            created, secret = tokens.create(scope or (), user=user, note=note, expires_s=parse_duration(expires))
            if json:
                print_json({**_as_dict(created), "secret": secret})
            else:
                print(secret)
        elif action == "revoke":
            tokens.revoke(name or "")
            print_json({"revoked": name}) if json else print(f"revoked {name}")
        else:
            _list(tokens.list_all(), json)
    finally:
        tokens.close()


def _list(tokens: "list[Token]", json: bool) -> None:
    if json:
        print_json({"tokens": [_as_dict(token) for token in tokens]})
        return
    rows = [
        [token.id, ", ".join(sorted(token.scopes)), token.note, h.format_time(token.created),
         h.format_time(token.expires), "–" if token.revoked is None else h.format_time(token.revoked)]
        for token in tokens
    ]  # fmt: skip
    print_table("Tokens", ["id", "scopes", "note", "made", "expires", "revoked"], rows, names=3)


def _as_dict(token: "Token") -> dict[str, Any]:
    return {
        "id": token.id,
        "scopes": sorted(token.scopes),
        "note": token.note,
        "created": token.created,
        "expires": token.expires,
        "revoked": token.revoked,
    }
