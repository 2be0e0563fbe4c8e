"""The commands about splits by keys."""

from __future__ import annotations

import click

from speck.cli import render
from speck.cli.completion import split_names
from speck.cli.options import json_option, show_data
from speck.client import Client


@click.group()
def split() -> None:
    """Show splits by keys."""


@split.command(name="show")
@click.argument("name", required=False, shell_complete=split_names)
@json_option
@click.pass_obj
def show_split(client: Client, name: str | None, as_json: bool) -> None:
    """Show the split NAME with its jobs, by default all splits."""
    if name is None:
        splits = client.splits()
        show_data(splits, [render.splits_table(splits)], as_json)
    else:
        found = client.split(name)
        show_data(found, render.split_lines(found), as_json)
