"""The commands for a file of tokens, the option ``--tokens`` of ``speck serve``."""

from __future__ import annotations

from pathlib import Path

import click

from speck.cli.options import json_option
from speck.cli.output import show_data
from speck.cli.terminal import err
from speck.server.tokens import Owner, Role, add_owner, digest, mint, read_owners, remove_owner

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_name = click.argument("name")


@click.group()
def token() -> None:
    """Manage tokens with names and roles.  For `speck serve --tokens`."""


@token.command()
@_file
@_name
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.READ.value,
    show_default=True,
    help="Permission: read, or read and write.",
)
def add(file: Path, name: str, role: str) -> None:
    """Create a token for NAME and print it once; FILE stores only its hash."""
    minted = mint()
    add_owner(file, Owner(name, Role(role), digest(minted.encode())))
    click.echo(minted)
    err.print(f"{file}: {name} may {role}; the token itself is not stored", markup=False)


@token.command("list")
@_file
@json_option
def list_tokens(file: Path, as_json: bool) -> None:
    """List the names and roles of the tokens."""
    data = [{"name": each.name, "role": each.role.value} for each in read_owners(file)]
    show_data(data, [f"{each['name']}  {each['role']}" for each in data], as_json)


@token.command()
@_file
@_name
def remove(file: Path, name: str) -> None:
    """Remove NAME; its token is invalid immediately."""
    remove_owner(file, name)
