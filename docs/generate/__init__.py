"""The reference pages, generated from the program: schemas, OpenAPI document, commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.generate import commands, fields, partitioners, rest
from speck.schema.json_schema import schema_files

ROOT = Path(__file__).parent.parent.parent
_PICTURE = re.compile(r"\]\(([\w-]+\.svg)\)")  # beside the page that shows it


def pages() -> dict[str, str]:
    """The text (Markdown) of each page, by its file name."""
    return {
        "composition-fields.md": fields.composition_page(),
        "inventory-fields.md": fields.inventory_page(),
        "partitioners.md": partitioners.page(),
        "rest-paths.md": rest.page(rest.document()),
        "commands.md": commands.page(),
        "benchmarks.md": _PICTURE.sub(r"](../../benchmarks/\1)", _read("benchmarks/README.md")),
        "changes.md": _read("CHANGELOG.md"),
    }


def write(directory: Path) -> None:
    """Write the pages; one that has not changed is left alone, so that it is not built again."""
    directory.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def publish(directory: Path) -> None:
    """Write the files for programs, which the site has beside its pages: schemas and the OpenAPI document."""
    directory.mkdir(exist_ok=True)
    for name, content in (*schema_files(), ("openapi.json", rest.document())):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
