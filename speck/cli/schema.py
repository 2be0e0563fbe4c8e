"""The command that prints the JSON Schema of a composition or of the site inventory."""

from __future__ import annotations

import click

from speck.cli.output import show_json


@click.command()
@click.argument("kind", type=click.Choice(("composition", "inventory")))
def schema(kind: str) -> None:
    """Print the JSON Schema of compositions or inventories.  Editors use it.

    Editors with a YAML language server use it for completion and checks in files that begin with `#
    yaml-language-server: $schema=FILE`, such as those of `speck init`.
    """
    from speck.schema.json_schema import json_schema

    show_json(json_schema(kind))
