"""The command that prints the JSON Schema of a composition or of the site inventory."""

from __future__ import annotations

import click

from speck.cli.options import show_json


@click.command()
@click.argument("kind", type=click.Choice(("composition", "inventory")))
def schema(kind: str) -> None:
    """Print the JSON Schema of a composition or of the site inventory, for editors.

    An editor with a YAML language server completes and checks the fields of a file that begins with
    `# yaml-language-server: $schema=FILE`, as those of `speck init` do.
    """
    from speck.schema.json_schema import json_schema

    show_json(json_schema(kind))
