"""The commands for a file of tokens, which a server is given with ``speck serve --tokens``."""

from __future__ import annotations

from pathlib import Path

import click

from speck.cli.options import err, json_option, show_data
from speck.server.tokens import Owner, Role, add_owner, digest, mint, read_owners, remove_owner

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_name = click.argument("name")


@click.group()
def token() -> None:
    """Tokens with names and roles, for `speck serve --tokens`."""


@token.command()
@_file
@_name
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.READ.value,
    show_default=True,
    help="What it is good for: to read, or to read and write.",
)
def add(file: Path, name: str, role: str) -> None:
    """Make a token for NAME and print it, this once: FILE keeps its hash only."""
    made = mint()
    add_owner(file, Owner(name, Role(role), digest(made.encode())))
    click.echo(made)
    err.print(f"{file} lets {name} {role}; the token is kept nowhere else", markup=False)


@token.command("list")
@_file
@json_option
def list_tokens(file: Path, as_json: bool) -> None:
    """Who has a token, and what it is good for."""
    data = [{"name": each.name, "role": each.role.value} for each in read_owners(file)]
    show_data(data, [f"{each['name']}  {each['role']}" for each in data], as_json)


@token.command()
@_file
@_name
def remove(file: Path, name: str) -> None:
    """Strike NAME off; its token is good for nothing at once."""
    remove_owner(file, name)
